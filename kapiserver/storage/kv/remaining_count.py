"""Remembers how many keys follow a page, so that the next page need not count them. No SQL."""

from __future__ import annotations

from kapiserver.storage.kv.contract import Revision


class RemainingCounts:
    """The number of keys from a key to the end of a range, at a revision.

    Without it each page would count all following keys, and reading a million keys in pages would
    take minutes. Shared by the reader threads of a store.
    """

    _MAX_COUNTS = 64

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, Revision], int] = {}

    def get(self, first: str, end: str, revision: Revision) -> int:
        """Return the number of keys in [first, end) at a revision, -1 if it is not known."""
        return self._counts.get((first, end, revision), -1)

    def put(self, first: str, end: str, revision: Revision, count: int) -> None:
        """Remember the number of keys in [first, end), and drop the oldest entries."""
        counts = self._counts
        counts[(first, end, revision)] = count
        for oldest in tuple(counts)[: -self._MAX_COUNTS]:
            counts.pop(oldest, None)
