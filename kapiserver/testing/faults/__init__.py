"""Faults that a test injects into requests."""
