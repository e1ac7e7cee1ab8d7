"""What can go wrong in storage, without a word about HTTP.

    StorageError
    |-- KeyExists          create of a key that is there
    |-- Conflict           update or delete of a key that moved on or is absent
    |-- Compacted          the revision asked for is forgotten
    |-- FutureRevision     the revision asked for does not exist yet
    |-- Unavailable        the backend does not answer
    |-- Corrupt            a stored value cannot be read
    `-- StoreLocked        another process owns the file

`apiserver/errors.py` maps each to a Status.
"""

from __future__ import annotations


class StorageError(Exception):
    """Base of all storage errors."""


class KeyExists(StorageError):
    """Create of a key that is there."""

    def __init__(self, key: str) -> None:
        super().__init__(f"key exists: {key}")
        self.key = key


class Conflict(StorageError):
    """Update or delete of a key whose revision is not the expected one; `current` is None when
    the key is absent."""

    def __init__(self, key: str, *, expected: int, current: int | None) -> None:
        super().__init__(f"key {key} is at revision {current}, not {expected}")
        self.key = key
        self.expected = expected
        self.current = current


class Compacted(StorageError):
    """The revision asked for was compacted; `oldest` is the first that can be read."""

    def __init__(self, revision: int, *, oldest: int) -> None:
        super().__init__(f"revision {revision} was compacted, the oldest is {oldest}")
        self.revision = revision
        self.oldest = oldest


class FutureRevision(StorageError):
    """The revision asked for is greater than the current one."""

    def __init__(self, revision: int, *, current: int) -> None:
        super().__init__(f"revision {revision} does not exist yet, the newest is {current}")
        self.revision = revision
        self.current = current


class Unavailable(StorageError):
    """The backend does not answer, or is closed."""


class Corrupt(StorageError):
    """A stored value cannot be read."""


class StoreLocked(StorageError):
    """Another process owns the file."""
