"""Version v1 of the group storage."""
