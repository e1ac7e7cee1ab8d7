"""The embedded store: SQLite behind one writer thread."""
