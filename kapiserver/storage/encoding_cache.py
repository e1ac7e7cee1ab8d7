"""The memory limit for what is derived from stored bytes: decoded trees, and encodings.

Trees and encodings have an LRU cache each, so that writes do not evict the encodings that lists
are made of. An entry that was used since it was added gets a second chance before eviction. Knows
no codec.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from kapiserver.storage.entry import Entry

DEFAULT_BYTES = 128 << 20
"""Default limit for trees and encodings, for all resources together."""
TREE_SHARE = 32
"""One part in this many is for trees."""
TREE_COST = 8
"""Approximate bytes of memory of a tree per byte of its stored form."""
ADMIT_ONE_IN = 8
"""When the cache is nearly full, a list adds only one encoding in this many. Without that, a list
larger than the cache would evict its own first items, and find none of them the next time."""


class LRUCache:
    """Entries with a derived value (tree or encoding), limited in bytes.

    drop    evicts the value of an entry
    """

    def __init__(self, limit: int, drop: Callable[[Entry], None]) -> None:
        self.limit = limit
        self.size = 0
        self._drop = drop
        self._sizes: OrderedDict[Entry, int] = OrderedDict()
        self._rejected = 0

    def add(self, entry: Entry, size: int) -> None:
        """Account for a derived value of so many bytes; evict the oldest if over the limit."""
        sizes = self._sizes
        sizes[entry] = sizes.get(entry, 0) + size
        sizes.move_to_end(entry)
        self.size += size
        while self.size > self.limit and len(sizes) > 1:
            oldest, size = sizes.popitem(last=False)
            if oldest.used and oldest is not entry:
                oldest.used = False
                sizes[oldest] = size
            else:
                self.size -= size
                self._drop(oldest)

    def admits(self) -> bool:
        """Whether to cache one of the many values that a list derives."""
        if self.size < self.limit * 7 // 8:
            return True
        self._rejected = (self._rejected + 1) % ADMIT_ONE_IN
        return not self._rejected

    def remove(self, entry: Entry) -> None:
        """Evict an entry that nobody will ask for again."""
        size = self._sizes.pop(entry, 0)
        if size:
            self.size -= size
            self._drop(entry)


class EncodingCache:
    """The caches of all resources."""

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self.trees = LRUCache(limit // TREE_SHARE, Entry.drop_tree)
        self.encodings = LRUCache(limit - limit // TREE_SHARE, Entry.drop_encodings)

    @property
    def size(self) -> int:
        """Bytes in both caches."""
        return self.trees.size + self.encodings.size

    def remove(self, entry: Entry) -> None:
        """Evict a superseded revision; only watches may ask for it, and not for long."""
        self.trees.remove(entry)
        self.encodings.remove(entry)
