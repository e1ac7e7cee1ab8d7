"""Authentication: who sent a request."""
