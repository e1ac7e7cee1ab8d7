"""meta/v1: the types that all groups share."""
