"""Admission webhooks: configurations, match conditions, reviews, calls, dispatch."""
