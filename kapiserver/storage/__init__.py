"""Revisions of bytes under keys, and objects on top of them. Knows no HTTP."""
