"""Audit: which requests are recorded, and where their events go."""
