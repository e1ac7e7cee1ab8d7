"""Pages for administrators: profiles, stacks, flags, settings, and the state of flow control."""
