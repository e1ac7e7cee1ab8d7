"""API types: what an object is. Knows no bytes, no store and no HTTP."""
