"""The group shelf."""
