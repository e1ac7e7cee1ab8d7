"""Control loops of stored versions: migrations of stored objects."""
