"""One revision of one object, with its encodings (being built)."""


class Entry:
    """One revision of one object."""
