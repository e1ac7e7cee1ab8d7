"""Structural schemas of custom resources: pruning, defaulting and validation by them."""
