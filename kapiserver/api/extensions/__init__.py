"""extensions: types that moved to the groups apps and networking."""
