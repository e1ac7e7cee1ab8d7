"""How many keys follow a page of the embedded store: remembered from page to page. Knows no SQL."""

from __future__ import annotations

from kapiserver.storage.kv import Revision


class RemainingCounts:
    """How many keys there are from a key on, as pages have found it: the next page of the same
    revision need not count them all again, which would make reading a million keys in pages take
    minutes. Shared by the threads that read a store."""

    _MOST = 64

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, Revision], int] = {}

    def get(self, first: str, end: str, revision: Revision) -> int:
        """The keys of [first, end) at a revision; -1: not known."""
        return self._known.get((first, end, revision), -1)

    def put(self, first: str, end: str, revision: Revision, count: int) -> None:
        """Remember it, and forget the oldest."""
        known = self._known
        known[(first, end, revision)] = count
        for oldest in tuple(known)[: -self._MOST]:
            known.pop(oldest, None)
