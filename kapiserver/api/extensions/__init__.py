"""extensions: what groups of their own declare today."""
