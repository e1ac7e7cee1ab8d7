"""Tokens of service accounts: their keys, their issue and their verification."""
