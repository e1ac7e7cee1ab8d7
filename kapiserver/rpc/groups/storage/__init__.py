"""The group storage."""
