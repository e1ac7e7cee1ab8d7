"""Entries in the order of their keys, which lists read without copying them.

A list of 10,000 objects holds its entries for a second or more. A copy for each would take 2 ms of
cache misses and hold up the event loop, and every collection of garbage would look at each of its
references. So lists share one list of entries as long as nothing changes, and the first change
after that copies it. Knows no event.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from kapiserver.storage.cache.entry import Entry

entry_path = attrgetter("path")
"""Returns the path of an entry, the order of a cache's entries."""


def scope_bounds(entries: Sequence[Entry], scope: str, start: str = "") -> tuple[int, int]:
    """Return the indexes between which sorted entries are below a prefix, or of one key, and from
    the key `start` on."""
    first = bisect_left(entries, max(scope, start), key=entry_path)
    if not scope.endswith("/"):  # one key
        return first, first + (first < len(entries) and entries[first].path == scope)
    return first, bisect_left(entries, scope[:-1] + "0", key=entry_path)  # "0" follows "/"


def entries_in_scope(entries: Sequence[Entry], scope: str, start: str = "") -> Sequence[Entry]:
    """Return the sorted entries of `scope_bounds`: `entries` itself if they are all."""
    first, end = scope_bounds(entries, scope, start)
    return entries if first == 0 and end >= len(entries) else entries[first:end]


class SortedEntries:
    """The current entries of a watch cache."""

    def __init__(self, entries: list[Entry] | None = None) -> None:
        self._entries = entries or []
        self._is_shared = False
        """Whether somebody else has the list, so that the next change copies it."""

    def __len__(self) -> int:
        return len(self._entries)

    def all(self) -> Sequence[Entry]:
        """Return all entries, as they are now."""
        self._is_shared = True
        return self._entries

    def in_scope(self, scope: str, start: str = "") -> Sequence[Entry]:
        """Return the entries below a prefix, or of one key, from the key `start` on, as they are
        now."""
        entries = entries_in_scope(self._entries, scope, start)
        self._is_shared = self._is_shared or entries is self._entries
        return entries

    def count_in(self, scope: str) -> int:
        """Return the number of entries below a prefix, or of one key."""
        first, end = scope_bounds(self._entries, scope)
        return end - first

    def sample(self, count: int) -> Sequence[Entry]:
        """Return at most this many entries from everywhere in the order."""
        return self._entries[:: max(1, len(self._entries) // count)][:count]

    def add(self, entry: Entry) -> None:
        """Add the entry of a new key."""
        entries = self._own_entries()
        entries.insert(self._index(entry.path), entry)

    def replace(self, entry: Entry) -> None:
        """Replace the entry of a key that has one."""
        self._own_entries()[self._index(entry.path)] = entry

    def remove(self, path: str) -> None:
        """Remove the entry of a key that has one."""
        del self._own_entries()[self._index(path)]

    def _index(self, path: str) -> int:
        return bisect_left(self._entries, path, key=entry_path)

    def _own_entries(self) -> list[Entry]:
        if self._is_shared:
            self._entries, self._is_shared = self._entries.copy(), False
        return self._entries
