"""The objects of a resource by the values of a label or field, for lists and watches that select
one of them.

A kubelet lists and watches the pods of its node, an operator the objects with its label. Trying one
selection on each of 8,000 objects takes 13 ms, and after a restart of the server all these clients
come at once. So when BUILD_AFTER selections in a short time require the same label or field, the
index sorts the objects by its values once. It follows their events until no selection has asked for
that label or field for KEEP_SECONDS. What it returns is a superset: the selections decide.

kube-apiserver has such an index for the pods of a node (the indexers of storage/cacher of
k8s.io/apiserver).

The states of the values of a label or field:

    state      what happens                                            next state
    asked      the number of selections reaches BUILD_AFTER            building
    building   `_build` adds the objects; events are followed          built
    built      events are followed                                     built
    any        not asked for KEEP_SECONDS, or the cache is emptied     forgotten
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from contextvars import Context

from kapiserver.api.selectors import EqualityTerm, Selection
from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.cache.sorted_entries import entries_in_scope, entry_path
from kapiserver.storage.cache.watch_cache import CachedEvent, WatchCache
from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.concurrency.subscriptions import Subscription
from kapiserver.storage.concurrency.time_slice import TimeSlice
from kapiserver.storage.errors import Corrupt

BUILD_AFTER = 4
"""Building an index takes as long as about this many selections over all objects."""
KEEP_SECONDS = 60.0
MIN_OBJECTS = 256
"""Fewer objects in the scope of a selection are tried in less than a millisecond."""
MAX_OBJECTS = 100_000
"""A value of its own for each of more objects would take more than 30 MB."""
MAX_NAMES = 4
"""Labels and fields of one resource that are indexed at the same time."""
_WITHOUT_INDEX = ("metadata.name", "metadata.namespace")
"""Fields that the key of an object tells."""


class _Values:
    """The objects by the values of one label or field.

    asked     how many selections have asked for it
    used_at   when the last one did
    build     the task that adds the objects; None in the state `asked`
    is_built  whether all objects are there
    """

    __slots__ = (
        "_by_value",
        "_kind",
        "_name",
        "_value_of",
        "asked",
        "build",
        "is_built",
        "used_at",
    )

    def __init__(self, term: EqualityTerm) -> None:
        self._kind = term.kind
        self._name = term.name
        self._by_value: dict[str | None, list[Entry]] = {}
        """The objects with each value in the order of their keys; with None those whose value is
        not known."""
        self._value_of: dict[str, str | None] = {}
        """The value of each object, by its key; an object without the label is left out."""
        self.asked = 0
        self.used_at = 0.0
        self.build: asyncio.Task[None] | None = None
        self.is_built = False

    def set(self, path: str, entry: Entry | None) -> None:
        """Let this object be the current one of its key; None if it was deleted."""
        if path in self._value_of:
            value = self._value_of.pop(path)
            entries = self._by_value[value]
            del entries[bisect_left(entries, path, key=entry_path)]
            if not entries:
                del self._by_value[value]
        if entry is None:
            return
        try:
            value = self._read_value(entry)
        except KeyError:
            return
        entries = self._by_value.setdefault(value, [])
        entries.insert(bisect_left(entries, path, key=entry_path), entry)
        self._value_of[path] = value

    def _read_value(self, entry: Entry) -> str | None:
        """Return the value of an object; None for a large object, which a thread would have to
        decode, and for one that does not decode. Raises KeyError if it lacks the label."""
        if entry.is_large and not entry.has_selectable:
            return None
        try:
            # Not cached with the entry: that would take half a kilobyte for each object.
            labels, fields = (
                entry.selectable if entry.has_selectable else entry.codec.selectable(entry)
            )
        except Corrupt:
            return None
        return labels[self._name] if self._kind == "label" else fields.get(self._name, "")

    def in_scope(self, values: Sequence[str], scope: str, start: str) -> list[Entry]:
        """Return the objects with one of these values, or of an unknown one, below a prefix from a
        key on, in the order of their keys."""
        entries: list[Entry] = []
        for value in (*values, None):
            entries += entries_in_scope(self._by_value.get(value, []), scope, start)
        entries.sort(key=entry_path)
        return entries


class ValueIndex:
    """The index of one resource; a `CacheListener` of its watch cache while it has something."""

    def __init__(self, cache: WatchCache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock
        self._by_name: dict[tuple[str, str], _Values] = {}
        """Values by the kind and name of their label or field, the last used at the end."""
        self._subscription: Subscription | None = None

    async def prepare(self, selection: Selection, scope: str) -> None:
        """Build the index for a selection below a prefix, if enough others have asked for the same
        label or field, so that `entries` finds its objects fast."""
        term = selection.equality_term
        if term is None or term.name in _WITHOUT_INDEX or self._cache.count > MAX_OBJECTS:
            return
        if self._cache.count_in(scope) < MIN_OBJECTS:
            return
        self._forget_unused()
        key = (term.kind, term.name)
        values = self._by_name.pop(key, None) or _Values(term)
        self._by_name[key] = values
        if len(self._by_name) > MAX_NAMES:
            del self._by_name[next(iter(self._by_name))]
        values.asked += 1
        values.used_at = self._clock.now()
        if values.build is None and values.asked >= BUILD_AFTER:
            # Outside the context of the request, whose cancellation does not end the task.
            values.build = asyncio.create_task(self._build(key, values), context=Context())
        if values.build is not None and not values.build.done():
            await asyncio.wait([values.build])

    async def _build(self, key: tuple[str, str], values: _Values) -> None:
        if self._subscription is None:
            self._subscription = self._cache.subscribe(self)
        time_slice = TimeSlice()
        for entry in self._cache.range(self._cache.prefix):
            if self._by_name.get(key) is not values:
                return
            if self._cache.get(entry.path) is entry:  # else an event has replaced or deleted it
                values.set(entry.path, entry)
            await time_slice.yield_if_expired()
        values.is_built = True

    def entries(self, selection: Selection, scope: str, start: str = "") -> Sequence[Entry]:
        """Return the current objects below a prefix, or with one key, from the key `start` on, in
        the order of their keys, as `WatchCache.range`; without some that the selection does not
        match."""
        term = selection.equality_term
        values = None if term is None else self._by_name.get((term.kind, term.name))
        if term is None or values is None or not values.is_built:
            return self._cache.range(scope, start)
        return values.in_scope(term.values, scope, start)

    def _forget_unused(self) -> None:
        oldest = self._clock.now() - KEEP_SECONDS
        for key, values in list(self._by_name.items()):
            if values.used_at < oldest:
                del self._by_name[key]
        if not self._by_name:
            self._unsubscribe()

    def _unsubscribe(self) -> None:
        if self._subscription is not None:
            self._subscription.cancel()
            self._subscription = None

    # The listener of the watch cache.

    def on_filled(self) -> None:
        """Do nothing: the index is built when selections ask for it."""

    def on_events(self, events: Sequence[CachedEvent]) -> None:
        """Follow the changes of objects."""
        self._forget_unused()
        for values in self._by_name.values():
            if values.build is None:
                continue
            for event in events:
                values.set(event.path, event.entry)

    def on_emptied(self, _entries: Sequence[Entry], _error: Exception | None) -> None:
        """Forget all objects."""
        self._by_name.clear()
        self._unsubscribe()
