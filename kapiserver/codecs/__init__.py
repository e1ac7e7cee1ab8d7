"""Bytes to objects and back. Knows no store and no HTTP."""
