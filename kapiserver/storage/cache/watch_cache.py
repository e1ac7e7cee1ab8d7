"""The watch cache: the current objects of one resource in memory, and their recent events.

It holds a sorted list of entries, an index, a ring of recent events and snapshots of recent
revisions, fed by one watch of the store. Knows keys and revisions, no kind, no selector and no
encoding. Mirrors storage/cacher of k8s.io/apiserver.

    state     fields              what happens                            next state
    empty     no `_watch`         `wait_ready`: the first use             filling
    filling   `_filling`          all pages are read, the watch begins    filled
                                  the store fails: waiters get the error  empty
    filled    `_watch`            `on_events`, `on_progress`              filled
                                  `on_closed`: the watch broke, `stop`    empty
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from time import perf_counter
from typing import Protocol

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.storage.cache.entry import Entry, EntryCodec
from kapiserver.storage.cache.metrics import CacheMetrics
from kapiserver.storage.cache.sorted_entries import SortedEntries, entries_in_scope
from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.concurrency.subscriptions import Subscribers, Subscription
from kapiserver.storage.errors import Compacted, StorageError, Unavailable
from kapiserver.storage.kv.contract import KV, KVEvent, Revision, Watch

PAGE = 500
"""Keys per page while the cache is filled, and events per page of history."""
RECENT_SECONDS = 75.0
"""How long events are kept for watches that resume."""
MIN_RECENT_EVENTS = 1024
MAX_RECENT_EVENTS = 65536
"""The number of events that are kept whatever their age, and the maximum number of events."""
MAX_RECALLED_EVENTS = 16 * MIN_RECENT_EVENTS
"""Events that are read from the store's history for a watch that resumes."""
RECENT_BYTES = 4 << 20
"""Memory limit for recent events, current objects not counted. Events recalled from the store's
history may take as much again."""
EVENT_COST = 500
"""Approximate bytes of an event without the values of its objects."""
SNAPSHOTS = 16
"""Snapshots kept for paged lists; older revisions are read from the store."""
SNAPSHOT_SECONDS = 60.0
WAIT_SECONDS = 3.0
"""Seconds to wait for a revision that the cache has not received."""
_SAMPLE = 16
"""Objects of which the average size is taken."""
PROGRESS_REQUEST_SECONDS = 0.1
"""Interval of progress requests while waiting."""


class CachedEvent(Struct, eq=False):
    """One event: the new entry (None if deleted) and the previous one (None if created)."""

    path: str
    revision: Revision
    entry: Entry | None
    previous: Entry | None
    time: float
    _deleted_entry: Entry | None = None

    @property
    def deleted_entry(self) -> Entry:
        """The deleted object at the revision of its deletion, as DELETED events carry it."""
        entry = self._deleted_entry
        if entry is None:
            last = self.previous
            assert last is not None
            entry = self._deleted_entry = last.at_revision(self.revision)
        return entry


class _Snapshot(Struct):
    """All entries from revision `first` to `last` (None if they are still current)."""

    entries: Sequence[Entry]
    first: Revision
    last: Revision | None
    at: float


class CacheListener(Protocol):
    """Receives the events of a cache, on the event loop. Must not block and must not raise."""

    def on_filled(self) -> None:
        """The cache was filled and holds all objects; events follow."""

    def on_events(self, events: Sequence[CachedEvent]) -> None:
        """Receive events in order; the cache has applied them."""

    def on_emptied(self, entries: Sequence[Entry], error: Exception | None) -> None:
        """The cache was emptied of these entries; `error` is None if it was stopped."""


def _mark_retrieved(task: asyncio.Task[None]) -> None:
    """Keep asyncio from logging the exception of a task whose waiters were all cancelled."""
    if not task.cancelled():
        task.exception()


class WatchCache:
    """The watch cache of one resource, the keys below one prefix; the `EventSink` of its watch."""

    def __init__(self, kv: KV, prefix: str, codec: EntryCodec, clock: Clock) -> None:
        self.prefix = prefix
        self.revision = Revision(0)
        """The cache has received all events up to this revision."""
        self.metrics = CacheMetrics()
        self._listeners = Subscribers[CacheListener]()
        self._kv = kv
        self._codec = codec
        self._clock = clock
        self._watch: Watch | None = None
        self._filling: asyncio.Task[None] | None = None
        self._entries = SortedEntries()
        self._index: dict[str, Entry] = {}
        self._last_change = Revision(0)
        self._recent: deque[CachedEvent] = deque()
        self._recent_bytes = 0
        self._recent_bytes_limit = RECENT_BYTES
        self._history_start = Revision(0)
        self._recall_lock = asyncio.Lock()
        self._snapshots: deque[_Snapshot] = deque(maxlen=SNAPSHOTS)
        self._superseded: list[Entry] = []
        self._expected: dict[str, list[Entry]] = {}
        self._waiters: list[tuple[Revision, asyncio.Future[None]]] = []
        self._average = (Revision(0), 0)  # the average size of objects at a revision

    @property
    def count(self) -> int:
        """The number of objects in the cache."""
        return len(self._entries)

    def count_in(self, scope: str) -> int:
        """Return the number of objects below a prefix, or of one key."""
        return self._entries.count_in(scope)

    @property
    def capacity(self) -> int:
        """The number of recent events that are kept whatever their age, or more at present."""
        return max(MIN_RECENT_EVENTS, len(self._recent))

    def average_bytes(self) -> int:
        """Return the average size of some stored objects; 0 if there are none."""
        if self._average[0] != self.revision:
            some = self._entries.sample(_SAMPLE)
            size = sum(entry.size for entry in some)
            self._average = (self.revision, size // max(1, len(some)))
        return self._average[1]

    # Waiting.

    async def wait_ready(self) -> None:
        """Wait until the cache is filled. Raises Unavailable."""
        while self._watch is None:
            if self._filling is None:
                self._filling = asyncio.create_task(self._fill())
                self._filling.add_done_callback(_mark_retrieved)
            await asyncio.shield(self._filling)

    async def wait_fresh(self) -> None:
        """Wait until the cache has every write acknowledged before the call. Raises Unavailable."""
        if self._watch is None:
            await self.wait_ready()
        current = await self._kv.current_revision()
        if self._watch is None:  # the cache was stopped while we waited: fill it again
            await self.wait_ready()
        is_fresh = current <= self.revision or await self.wait_for_revision(current)
        self.metrics.consistent_reads[is_fresh] += 1
        if not is_fresh:
            raise Unavailable(f"revision {current} has not come within {WAIT_SECONDS} seconds")

    async def wait_for_revision(self, revision: Revision) -> bool:
        """Wait for a revision; return False on timeout. Raises Unavailable."""
        await self.wait_ready()
        if revision > self.revision:
            self.request_progress(revision)  # other resources may have all the events up to it
        if revision <= self.revision:
            return True
        started = perf_counter()
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((revision, reached))
        self._poll_later(revision, reached, self._clock.now() + WAIT_SECONDS)
        try:
            await asyncio.wait([reached])
            if reached.cancelled():
                return False
            reached.result()
        finally:
            self.metrics.wait_seconds.observe(perf_counter() - started)
            self._waiters = [waiter for waiter in self._waiters if waiter[1] is not reached]
            del reached  # its error refers to this frame: that would be a cycle
        # If the cache was stopped while we waited, fill it again for the remaining waiters.
        return self._watch is not None or await self.wait_for_revision(revision)

    def _poll_later(
        self, revision: Revision, reached: asyncio.Future[None], deadline: float
    ) -> None:
        """Request progress again until a wait has ended, which ends at its deadline: another server
        may be about to write the revision."""

        def poll() -> None:
            if reached.done():
                return
            if self._clock.now() >= deadline:
                reached.cancel()
                return
            self.request_progress(revision)
            self._clock.call_later(PROGRESS_REQUEST_SECONDS, poll)

        self._clock.call_later(PROGRESS_REQUEST_SECONDS, poll)

    @property
    def is_filled(self) -> bool:
        """Whether the cache holds all objects and receives events."""
        return self._watch is not None

    def subscribe(self, listener: CacheListener) -> Subscription:
        """Notify a listener of events, until the subscription is cancelled."""
        return self._listeners.subscribe(listener)

    def request_progress(self, revision: Revision | None = None) -> None:
        """Request a progress notification of the store's watch: of the events up to a revision, or
        of all writes acknowledged before the call."""
        if self._watch is not None:
            self._watch.request_progress(revision)

    async def _fill(self) -> None:
        started = perf_counter()
        try:
            while True:
                try:
                    revision, entries = await self._read_all()
                    break
                except Compacted:  # the revision was compacted between two pages
                    continue
            # No await from here on: nobody sees these objects without the watch that updates them.
            self._entries = SortedEntries(entries)
            self._index = {entry.path: entry for entry in entries}
            self.revision = self._last_change = self._history_start = revision
            self._watch = self._kv.watch(self.prefix, after=revision, sink=self)
            self.metrics.fill_seconds.observe(perf_counter() - started)
            for listener in self._listeners:
                listener.on_filled()
        finally:
            self.metrics.failed_fills += self._watch is None
            self._filling = None

    async def _read_all(self) -> tuple[Revision, list[Entry]]:
        entries: list[Entry] = []
        start, revision = "", None
        while True:
            page = await self._kv.range(self.prefix, start=start, limit=PAGE, revision=revision)
            revision = page.revision
            entries.extend(Entry(self._codec, i.key, i.value, i.revision) for i in page.items)
            if not page.remaining:
                return revision, entries
            start = page.items[-1].key + "\0"

    def stop(self) -> None:
        """End the watch of the store, which empties the cache."""
        if self._watch is not None:
            self._watch.cancel()

    # The sink of the store's watch.

    def on_events(self, batch: Sequence[KVEvent]) -> None:
        """Apply events and publish them."""
        self.metrics.events_received += len(batch)
        now = self._clock.now()
        # Watchers have received the previous events by now; for others the encodings are remade.
        for entry in self._superseded:
            self._codec.on_superseded(entry)
        events = [self._apply(event, now) for event in batch]
        self._superseded = [event.previous for event in events if event.previous is not None]
        self.revision = max(self.revision, batch[-1].revision)
        self._trim(now)
        self._wake()  # the waiters run in a later turn, when the listeners have the events
        for listener in self._listeners:
            listener.on_events(events)

    def on_progress(self, revision: Revision) -> None:
        """All events up to `revision` were received."""
        self.metrics.progress_notes += 1
        if revision > self.revision:
            self.revision = revision
            self._wake()

    def on_closed(self, error: Exception | None) -> None:
        """The store's watch has ended: empty the cache, to be filled again at the next use."""
        self._watch = None  # first: whoever is woken below fills the cache again
        entries = self._entries.all()
        for entry in entries:
            self._codec.on_superseded(entry)
        self._entries, self._index = SortedEntries(), {}
        self._superseded = []
        self._expected.clear()
        self._recent.clear()
        self._recent_bytes = 0
        self._snapshots.clear()
        for _, future in self._waiters:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                reason = error if isinstance(error, StorageError) else Unavailable(str(error))
                future.set_exception(reason)
        for listener in self._listeners:
            listener.on_emptied(entries, error)

    def _apply(self, event: KVEvent, now: float) -> CachedEvent:
        path, revision = event.key, event.revision
        if self._snapshots and self._snapshots[-1].last is None:
            self._snapshots[-1].last = Revision(revision - 1)
        previous = self._index.get(path)
        if previous is not None:
            previous.unshare()  # the recent events keep it for a while
        entry = None if event.value is None else self._entry_of(event, event.value)
        if (expected := self._expected.get(path)) is not None:
            unwritten = [write for write in expected if not 0 < write.revision <= revision]
            self._set_expected(path, unwritten)
        if entry is None:
            if previous is not None:
                self._entries.remove(path)
                del self._index[path]
        else:
            if previous is None:
                self._entries.add(entry)
            else:
                self._entries.replace(entry)
            self._index[path] = entry
        self._last_change = revision
        cached_event = CachedEvent(path, revision, entry, previous, now)
        self._recent.append(cached_event)
        self._recent_bytes += _size(cached_event)
        return cached_event

    def _entry_of(self, event: KVEvent, value: bytes) -> Entry:
        for expected in self._expected.get(event.key, ()):
            if expected.value == value and expected.revision in (0, event.revision):
                expected.set_revision(event.revision)
                return expected
        return Entry(self._codec, event.key, value, event.revision)

    def _trim(self, now: float) -> None:
        recent, oldest = self._recent, now - RECENT_SECONDS
        while (
            len(recent) > MAX_RECENT_EVENTS
            or (self._recent_bytes > self._recent_bytes_limit and recent)
            or (len(recent) > MIN_RECENT_EVENTS and recent[0].time < oldest)
        ):
            dropped = recent.popleft()
            self._history_start = dropped.revision
            size = _size(dropped)
            self._recent_bytes -= size
            self._recent_bytes_limit = max(RECENT_BYTES, self._recent_bytes_limit - size)
        snapshots, oldest = self._snapshots, now - SNAPSHOT_SECONDS
        while snapshots and snapshots[0].at < oldest:
            snapshots.popleft()

    def _wake(self) -> None:
        for revision, future in self._waiters:
            if revision <= self.revision and not future.done():
                future.set_result(None)

    # Writes of this process, whose trees need not be decoded.

    def expect_write(self, entry: Entry) -> None:
        """Use this entry for the event of a write that is about to happen, instead of a new one."""
        self._expected.setdefault(entry.path, []).append(entry)

    def end_write(self, entry: Entry) -> None:
        """Take note that the write has succeeded or failed. If its event has not arrived yet, the
        entry stays expected, because a second entry would have its own tree and encodings."""
        is_over = entry.revision <= self.revision or self._watch is None
        if is_over and (expected := self._expected.get(entry.path)) is not None:
            self._set_expected(entry.path, [other for other in expected if other is not entry])

    def _set_expected(self, path: str, entries: list[Entry]) -> None:
        if entries:
            self._expected[path] = entries
        else:
            del self._expected[path]

    # Reading.

    def get(self, path: str) -> Entry | None:
        """Return the entry of a key, or None."""
        return self._index.get(path)

    def cached_tree(self, path: str, value: bytes) -> Tree | None:
        """Return the tree of a stored value if it is cached, as after a write of this process."""
        entries = self._expected.get(path)
        if entries is None:
            entry = self._index.get(path)
            entries = [] if entry is None else [entry]
        for entry in entries:
            if entry.value == value:
                return entry.cached_tree
        return None

    def range(self, scope: str, start: str = "") -> Sequence[Entry]:
        """Return the entries below a prefix, or of one key, from the key `start` on."""
        return self._entries.in_scope(scope, start)

    def events_since(self, revision: Revision) -> list[CachedEvent] | None:
        """Return the events after a revision, or None if some are no longer kept."""
        if revision < self._history_start:
            return None
        events = []
        for event in reversed(self._recent):
            if event.revision <= revision:
                break
            events.append(event)
        events.reverse()
        return events

    async def recall_history(self, revision: Revision) -> bool:
        """Load the events after a revision from the store's history, for a watch that resumes after
        a restart. Return False if they were compacted or are too many."""
        async with self._recall_lock:
            if revision >= self._history_start:
                return True
            until = self._history_start
            try:
                events = await self._read_history(revision, until)
            except StorageError:
                return False
            if len(events) > MAX_RECALLED_EVENTS or until != self._history_start:
                return False
            now = self._clock.now()
            recalled = [self._recalled_event(event, now) for event in events]
            size = sum(map(_size, recalled))
            if self._recent_bytes_limit + size > 2 * RECENT_BYTES:
                return False
            self._recent_bytes_limit += size
            self._recent.extendleft(reversed(recalled))
            self._recent_bytes += size
            self._history_start = revision
            return True

    async def _read_history(self, after: Revision, until: Revision) -> list[KVEvent]:
        """Return the events in (after, until], or more than MAX_RECALLED_EVENTS of them."""
        events: list[KVEvent] = []
        while after < until and len(events) <= MAX_RECALLED_EVENTS:
            page = await self._kv.history(self.prefix, after, until, PAGE, previous=True)
            events += page.events
            after = page.until
        return events

    def _recalled_event(self, event: KVEvent, now: float) -> CachedEvent:
        entry = previous = None
        if event.value is not None:
            entry = Entry(self._codec, event.key, event.value, event.revision)
        if event.previous is not None:
            previous = Entry(self._codec, event.key, event.previous, event.revision)
        return CachedEvent(event.key, event.revision, entry, previous, now)

    @property
    def oldest(self) -> Revision:
        """The oldest revision a watch can resume from."""
        return self._history_start

    def snapshot(self) -> None:
        """Keep a snapshot of the current revision, so that a paged list can continue at it."""
        snapshots, now = self._snapshots, self._clock.now()
        if not snapshots or snapshots[-1].last is not None:
            snapshots.append(_Snapshot(self._entries.all(), self._last_change, None, now))
        snapshots[-1].at = now

    def range_at(self, revision: Revision, scope: str, start: str = "") -> Sequence[Entry] | None:
        """Return the entries at a revision. Return None if no snapshot has it, or if the revision
        is compacted, so that the store raises its error."""
        if revision < self._kv.compacted:
            return None
        if self._last_change <= revision <= self.revision:
            return self.range(scope, start)
        oldest = self._clock.now() - SNAPSHOT_SECONDS
        for snapshot in self._snapshots:
            if (
                snapshot.last is not None
                and snapshot.first <= revision <= snapshot.last
                and snapshot.at >= oldest
            ):
                return entries_in_scope(snapshot.entries, scope, start)
        return None


def _size(event: CachedEvent) -> int:
    # The new entry is a current object, or the previous entry of the next event.
    return EVENT_COST + (0 if event.previous is None else event.previous.size)
