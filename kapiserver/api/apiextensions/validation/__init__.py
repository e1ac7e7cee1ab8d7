"""Validation of CustomResourceDefinitions."""
