"""Admission webhooks: their configurations, followed live; reviews; calls; dispatch."""
