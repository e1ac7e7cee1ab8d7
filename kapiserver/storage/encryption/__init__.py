"""Encryption at rest: transformers and their configuration."""
