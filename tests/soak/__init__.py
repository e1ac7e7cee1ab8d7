"""Loads a server for minutes, kills it again and again, and reports what became of it."""
