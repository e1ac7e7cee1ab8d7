"""Version v1 of the group shelf."""
