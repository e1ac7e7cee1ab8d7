"""The memory limit for what is derived from stored bytes: decoded trees, and encodings.

Trees and encodings have an LRU cache each, so that writes do not evict the encodings that lists
are made of. An entry that was used since it was added gets a second chance before eviction. The
caches hold weak references: an entry of a deleted object or of a dry run is freed with its last
user. Knows no codec.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable

from kapiserver.storage.cache.entry import Entry

DEFAULT_BYTES = 128 << 20
"""Default limit for trees and encodings, for all resources together."""
TREE_SHARE = 24
"""Trees get the limit divided by this number."""
TREE_COST = 12
"""Approximate bytes of memory of a tree per byte of its stored form."""
ACCOUNT_COST = 300
"""Approximate bytes of an account and of the objects around the derived values."""
ADMIT_ONE_IN = 8
"""When the cache is nearly full, a list adds only one encoding in this many. Without that, a list
larger than the cache would evict its own first items, and find none of them the next time."""


class _Account(weakref.ref[Entry]):
    """The bytes that an entry's derived values take; `key` is the id of the entry."""

    __slots__ = ("key", "size")

    key: int
    size: int


class LRUCache:
    """Entries with a derived value (tree or encoding), limited in bytes.

    drop    evicts the value of an entry
    """

    def __init__(self, limit: int, drop: Callable[[Entry], None]) -> None:
        self.limit = limit
        self._drop = drop
        self._size = 0
        self._accounts: OrderedDict[int, _Account] = OrderedDict()
        # Entries are freed at any time, in any thread. The next call removes their accounts.
        self._dead: deque[_Account] = deque()
        self._rejected = 0

    @property
    def size(self) -> int:
        """The bytes of all derived values."""
        self._remove_dead()
        return self._size

    def add(self, entry: Entry, size: int) -> None:
        """Account for a derived value of `size` bytes. Evict the oldest ones if over the limit."""
        if self._dead:
            self._remove_dead()
        accounts, key = self._accounts, id(entry)
        account = accounts.get(key)
        if account is None:
            account = accounts[key] = _Account(entry, self._dead.append)
            account.key, account.size = key, 0  # without `__init__`: each write adds two
            size += ACCOUNT_COST
        else:
            accounts.move_to_end(key)
        account.size += size
        self._size += size
        while self._size > self.limit and len(accounts) > 1:
            key, oldest = accounts.popitem(last=False)
            evicted = oldest()
            if evicted is not None and evicted.used and evicted is not entry:
                evicted.used = False
                accounts[key] = oldest
            else:
                self._size -= oldest.size
                if evicted is not None:
                    self._drop(evicted)

    def admits(self) -> bool:
        """Whether to cache one of the many values that a list derives."""
        if self._size < self.limit * 7 // 8:
            return True
        self._rejected = (self._rejected + 1) % ADMIT_ONE_IN
        return not self._rejected

    def remove(self, entry: Entry) -> None:
        """Evict an entry that no request will read again."""
        if self._dead:
            self._remove_dead()
        account = self._accounts.pop(id(entry), None)
        if account is not None:
            self._size -= account.size
            self._drop(entry)

    def clear(self) -> None:
        """Evict all entries."""
        accounts, self._accounts, self._size = self._accounts, OrderedDict(), 0
        for account in accounts.values():
            entry = account()
            if entry is not None:
                self._drop(entry)

    def _remove_dead(self) -> None:
        dead = self._dead
        while dead:
            account = dead.popleft()
            if self._accounts.get(account.key) is account:
                del self._accounts[account.key]
                self._size -= account.size


class EncodingCache:
    """The caches of all resources."""

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self.trees = LRUCache(limit // TREE_SHARE, Entry.drop_tree)
        self.encodings = LRUCache(limit - limit // TREE_SHARE, Entry.drop_encodings)

    @property
    def size(self) -> int:
        """The bytes in both caches."""
        return self.trees.size + self.encodings.size

    def clear(self) -> None:
        """Evict everything."""
        self.trees.clear()
        self.encodings.clear()

    def remove(self, entry: Entry) -> None:
        """Evict a superseded revision; only watches may ask for it, and not for long."""
        self.trees.remove(entry)
        self.encodings.remove(entry)
