"""How much memory the things made of stored bytes may take: trees, and encodings.

Each sort has a shelf of its own, so that writing does not push out what lists are made of. What
is used gets a second chance before it goes. Knows no codec.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from kapiserver.storage.entry import Entry

DEFAULT_BYTES = 128 << 20
"""Bytes of trees and encodings kept, for all resources together."""
TREE_SHARE = 32
"""One part in so many is for trees."""
TREE_COST = 8
"""Bytes of memory that a tree takes for each byte of its stored form, about."""
ADMIT_ONE_IN = 8
"""Of what a list makes when the shelf is full, one in so many is kept: a list that is larger than
the shelf finds most of it there the next time, instead of pushing itself out from the front."""


class LRUCache:
    """One sort of derived things within a number of bytes."""

    def __init__(self, limit: int, drop: Callable[[Entry], None]) -> None:
        self.limit = limit
        self.size = 0
        self._drop = drop
        self._sizes: OrderedDict[Entry, int] = OrderedDict()
        self._rejected = 0

    def add(self, entry: Entry, size: int) -> None:
        """Something of that many bytes was made of the entry."""
        held = self._sizes
        held[entry] = held.get(entry, 0) + size
        held.move_to_end(entry)
        self.size += size
        while self.size > self.limit and len(held) > 1:
            oldest, size = held.popitem(last=False)
            if oldest.used and oldest is not entry:
                oldest.used = False
                held[oldest] = size
            else:
                self.size -= size
                self._drop(oldest)

    def admits(self) -> bool:
        """Whether to keep one of very many things that are made at once."""
        if self.size < self.limit * 7 // 8:
            return True
        self._rejected = (self._rejected + 1) % ADMIT_ONE_IN
        return not self._rejected

    def remove(self, entry: Entry) -> None:
        """Nobody will ask for the entry again."""
        size = self._sizes.pop(entry, 0)
        if size:
            self.size -= size
            self._drop(entry)


class EncodingCache:
    """The shelves of all resources."""

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self.trees = LRUCache(limit // TREE_SHARE, Entry.drop_tree)
        self.encodings = LRUCache(limit - limit // TREE_SHARE, Entry.drop_encodings)

    @property
    def size(self) -> int:
        """Bytes kept."""
        return self.trees.size + self.encodings.size

    def remove(self, entry: Entry) -> None:
        """A revision that has been superseded: watches may still ask for it, but not for long."""
        self.trees.remove(entry)
        self.encodings.remove(entry)
