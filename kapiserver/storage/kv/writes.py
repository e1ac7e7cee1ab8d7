"""One write of a store, and the check that all backends make of it."""

from __future__ import annotations

from msgspec import Struct

from kapiserver.storage.errors import Conflict


class Write(Struct, frozen=True):
    """One write, applied if the key's revision is `expected` (0: the key is absent).

    value    the new value; None deletes the key
    expires  when the key expires, in seconds since the epoch; 0 for never
    """

    key: str
    value: bytes | None
    expected: int
    expires: float = 0


def check_expected(key: str, expected: int) -> None:
    """Raise Conflict for a revision below 1: an update or delete of it would mean an absent key."""
    if expected < 1:
        raise Conflict(key, expected=expected, current=None, value=None)
