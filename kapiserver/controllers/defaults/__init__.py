"""Objects that every cluster or namespace has."""
