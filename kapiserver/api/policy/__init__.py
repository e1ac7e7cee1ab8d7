"""policy: how much disruption pods bear."""
