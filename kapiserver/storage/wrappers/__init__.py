"""Stores that wrap another store: encryption, conversion, metrics."""
