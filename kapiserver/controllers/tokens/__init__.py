"""Bootstrap tokens and tokens of service accounts."""
