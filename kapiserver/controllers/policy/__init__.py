"""Disruption budgets and resource quotas."""
