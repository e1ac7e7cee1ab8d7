"""policy: pod disruption budgets and evictions."""
