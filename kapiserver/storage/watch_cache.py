"""The present objects of one resource in memory, and what changed lately: the watch cache.

A sorted list of entries, an index, a ring of recent changes and snapshots of recent revisions,
fed by one watch of the store. It fills at first use; when its watch breaks it empties itself, ends
its own watchers and fills again at the next use. Knows keys and revisions, no kind, no selector
and no encoding. Mirrors storage/cacher of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

from kapiserver.storage.clock import Clock, Timer
from kapiserver.storage.entry import Entry, EntryCodec
from kapiserver.storage.errors import Compacted, StorageError, Unavailable
from kapiserver.storage.kv import KV, KVEvent, Revision, Watch

PAGE = 500
"""Keys read from the store at once while filling."""
RECENT_SECONDS = 75.0
"""How long changes are remembered for watches that resume."""
RECENT_LEAST = 1024
RECENT_MOST = 65536
"""Changes remembered whatever their age, and never more than."""
RECENT_BYTES = 4 << 20
"""Bytes that remembering changes may take beside the present objects; and as many again for
changes that were recalled from the store."""
EVENT_COST = 500
"""Bytes that a change takes beside the values of objects, about."""
SNAPSHOTS = 16
"""Past states kept for paged lists; older ones are read from the store."""
SNAPSHOT_SECONDS = 60.0
PATIENCE = 3.0
"""Seconds to wait for a revision that is not here yet."""
ASK_SECONDS = 0.1
"""How often the store is asked for it."""

_path = attrgetter("path")


class CachedEvent:
    """One change: the entry after it (None: deleted) and before it (None: created)."""

    __slots__ = ("_deleted_entry", "entry", "path", "previous", "revision", "time")

    def __init__(
        self,
        path: str,
        revision: Revision,
        entry: Entry | None,
        previous: Entry | None,
        at: float,
    ) -> None:
        self.path = path
        self.revision = revision
        self.entry = entry
        self.previous = previous
        self.time = at
        self._deleted_entry: Entry | None = None

    @property
    def deleted_entry(self) -> Entry:
        """The object as it was before, at the revision of this change: what a watcher is told
        has gone."""
        found = self._deleted_entry
        if found is None:
            last = self.previous
            assert last is not None
            found = self._deleted_entry = last.at_revision(self.revision)
        return found


@dataclass(slots=True)
class _Snapshot:
    """All entries as they were from `first` to `last` (None: still)."""

    entries: list[Entry]
    first: Revision
    last: Revision | None
    at: float


class CacheListener(Protocol):
    """Takes what happens to a cache. Called on the event loop; must not block and not raise."""

    def on_filled(self) -> None:
        """The cache holds all objects, and changes follow."""

    def on_events(self, events: Sequence[CachedEvent]) -> None:
        """Changes, in order; the cache has them already."""

    def on_emptied(self, entries: list[Entry], error: Exception | None) -> None:
        """The cache has lost its watch and these entries; `error` is None if it was stopped."""


class WatchCache:
    """The cache of one resource: the keys below one prefix. It is the `EventSink` of its watch."""

    def __init__(self, kv: KV, prefix: str, origin: EntryCodec, clock: Clock) -> None:
        self.prefix = prefix
        self.revision = Revision(0)
        """Everything up to this revision is here."""
        self.published: Callable[[Sequence[CachedEvent]], None] = lambda _: None
        """Called with each batch of changes, after they are here."""
        self.broken: Callable[[], None] = lambda: None
        """Called when the cache has emptied itself."""
        self.events_received = 0
        """Changes that the store has shown since the start."""
        self._listeners: tuple[CacheListener, ...] = ()
        self._kv = kv
        self._origin = origin
        self._clock = clock
        self._watch: Watch | None = None
        self._filling: asyncio.Task[None] | None = None
        self._entries: list[Entry] = []
        self._index: dict[str, Entry] = {}
        self._changed = Revision(0)
        self._recent: deque[CachedEvent] = deque()
        self._recent_bytes = 0
        self._recent_most = RECENT_BYTES
        self._forgotten = Revision(0)
        self._recalling = asyncio.Lock()
        self._snapshots: deque[_Snapshot] = deque(maxlen=SNAPSHOTS)
        self._superseded: list[Entry] = []
        self._expected: dict[str, list[Entry]] = {}
        self._waiting: list[tuple[Revision, asyncio.Future[None]]] = []

    @property
    def count(self) -> int:
        """How many objects are here."""
        return len(self._entries)

    # Being up to date.

    async def wait_ready(self) -> None:
        """Fill the cache if it is empty. Raises Unavailable."""
        while self._watch is None:
            if self._filling is None:
                self._filling = asyncio.create_task(self._fill())
            await asyncio.shield(self._filling)

    async def wait_fresh(self) -> None:
        """Wait until every write acknowledged before the call is here. Raises Unavailable."""
        await self.wait_ready()
        current = await self._kv.current_revision()
        # Who was stopped meanwhile has emptied itself, and fills itself once more.
        await self.wait_ready()
        if current > self.revision and not await self.wait_for_revision(current):
            raise Unavailable(f"revision {current} has not come within {PATIENCE} seconds")

    async def wait_for_revision(self, revision: Revision) -> bool:
        """Wait for a revision; False when it does not come in time. Raises Unavailable."""
        await self.wait_ready()
        if revision <= self.revision:
            return True
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((revision, arrived))
        deadline = self._clock.now() + PATIENCE
        timer: Timer | None = None

        def ask() -> None:
            # Again and again: the revision may be one that is still to be written elsewhere.
            nonlocal timer
            if self._clock.now() >= deadline:
                arrived.cancel()
            else:
                self.request_progress()
                timer = self._clock.call_later(ASK_SECONDS, ask)

        ask()
        try:
            await asyncio.wait([arrived])
            if arrived.cancelled():
                return False
            arrived.result()
        finally:
            if timer is not None:
                timer.cancel()
            self._waiting = [one for one in self._waiting if one[1] is not arrived]
        # Who is stopped meanwhile fills itself once more for those who are still here.
        return self._watch is not None or await self.wait_for_revision(revision)

    @property
    def is_filled(self) -> bool:
        """Whether all objects are here, and changes arrive."""
        return self._watch is not None

    def add_listener(self, listener: CacheListener) -> None:
        """Tell a listener what happens, before the watches."""
        self._listeners = (*self._listeners, listener)

    def remove_listener(self, listener: CacheListener) -> None:
        """Tell it nothing more."""
        self._listeners = tuple(other for other in self._listeners if other is not listener)

    def request_progress(self) -> None:
        """Ask the store how far its watch is."""
        if self._watch is not None:
            self._watch.request_progress()

    async def _fill(self) -> None:
        try:
            while True:
                try:
                    revision, entries = await self._read_all()
                    break
                except Compacted:  # a compaction overtook the reading
                    continue
            self._entries = entries
            self._index = {entry.path: entry for entry in entries}
            self.revision = self._changed = self._forgotten = revision
            self._watch = self._kv.watch(self.prefix, after=revision, sink=self)
            for listener in self._listeners:
                listener.on_filled()
        finally:
            self._filling = None

    async def _read_all(self) -> tuple[Revision, list[Entry]]:
        entries: list[Entry] = []
        start, revision = "", None
        while True:
            page = await self._kv.range(self.prefix, start=start, limit=PAGE, revision=revision)
            revision = page.revision
            entries.extend(Entry(self._origin, i.key, i.value, i.revision) for i in page.items)
            if not page.remaining:
                return revision, entries
            start = page.items[-1].key + "\0"

    def stop(self) -> None:
        """End the store's watch."""
        if self._watch is not None:
            self._watch.cancel()

    # What the store's watch tells.

    def on_events(self, batch: Sequence[KVEvent]) -> None:
        """Take changes in."""
        self.events_received += len(batch)
        now = self._clock.now()
        # Their watchers have been told by now, and what the others need is made again.
        for entry in self._superseded:
            self._origin.on_superseded(entry)
        seen = [self._apply(event, now) for event in batch]
        self._superseded = [event.previous for event in seen if event.previous is not None]
        self.revision = max(self.revision, batch[-1].revision)
        self._trim(now)
        self._wake()
        for listener in self._listeners:
            listener.on_events(seen)
        self.published(seen)

    def on_progress(self, revision: Revision) -> None:
        """Nothing else happened up to `revision`."""
        if revision > self.revision:
            self.revision = revision
            self._wake()

    def on_closed(self, error: Exception | None) -> None:
        """The store's watch is over: begin anew at the next use."""
        self._watch = None
        entries = self._entries
        for entry in entries:
            self._origin.on_superseded(entry)
        self._entries, self._index = [], {}
        self._superseded = []
        self._expected.clear()
        self._recent.clear()
        self._recent_bytes = 0
        self._snapshots.clear()
        for _, future in self._waiting:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                reason = error if isinstance(error, StorageError) else Unavailable(str(error))
                future.set_exception(reason)
        for listener in self._listeners:
            listener.on_emptied(entries, error)
        self.broken()

    def _apply(self, event: KVEvent, now: float) -> CachedEvent:
        path, revision = event.key, event.revision
        self._own_entries(revision)
        previous = self._index.get(path)
        entry = None
        if event.value is not None:
            entry = self._entry_of(event, event.value)
        if path in self._expected:
            self._forget_expected(path, lambda one: 0 < one.revision <= revision)
        entries = self._entries
        at = bisect_left(entries, path, key=_path)
        if entry is None:
            if previous is not None:
                del entries[at], self._index[path]
        else:
            if previous is None:
                entries.insert(at, entry)
            else:
                entries[at] = entry
            self._index[path] = entry
        self._changed = revision
        seen = CachedEvent(path, revision, entry, previous, now)
        self._recent.append(seen)
        self._recent_bytes += _size(seen)
        return seen

    def _entry_of(self, event: KVEvent, value: bytes) -> Entry:
        for expected in self._expected.get(event.key, ()):
            if expected.value == value and expected.revision in (0, event.revision):
                expected.set_revision(event.revision)
                return expected
        return Entry(self._origin, event.key, value, event.revision)

    def _trim(self, now: float) -> None:
        recent, oldest = self._recent, now - RECENT_SECONDS
        while (
            len(recent) > RECENT_MOST
            or (self._recent_bytes > self._recent_most and recent)
            or (len(recent) > RECENT_LEAST and recent[0].time < oldest)
        ):
            gone = recent.popleft()
            self._forgotten = gone.revision
            size = _size(gone)
            self._recent_bytes -= size
            self._recent_most = max(RECENT_BYTES, self._recent_most - size)
        snapshots, oldest = self._snapshots, now - SNAPSHOT_SECONDS
        while snapshots and snapshots[0].at < oldest:
            snapshots.popleft()

    def _wake(self) -> None:
        for revision, future in self._waiting:
            if revision <= self.revision and not future.done():
                future.set_result(None)

    # Writes of this process, whose trees are at hand.

    def expect_write(self, entry: Entry) -> None:
        """Use this entry for the write that is about to happen, instead of making one."""
        self._expected.setdefault(entry.path, []).append(entry)

    def end_write(self, entry: Entry) -> None:
        """The write has happened, or failed. If it has and the store's watch has not told yet, the
        entry is still expected: a second one of the same would have its own tree and encodings."""
        if entry.revision <= self.revision or self._watch is None:
            self._forget_expected(entry.path, lambda one: one is entry)

    def _forget_expected(self, path: str, wanted: Callable[[Entry], bool]) -> None:
        left = [one for one in self._expected.get(path, ()) if not wanted(one)]
        if left:
            self._expected[path] = left
        else:
            self._expected.pop(path, None)

    # Reading.

    def get(self, path: str) -> Entry | None:
        """The entry under a key."""
        return self._index.get(path)

    def range(self, scope: str, start: str = "") -> list[Entry]:
        """The entries below a prefix, or under one whole key, from the key `start` on."""
        return entries_in_scope(self._entries, scope, start)

    def events_since(self, revision: Revision) -> list[CachedEvent] | None:
        """The changes after a revision; None when not all of them are remembered."""
        if revision < self._forgotten:
            return None
        found = []
        for event in reversed(self._recent):
            if event.revision <= revision:
                break
            found.append(event)
        found.reverse()
        return found

    async def recall_history(self, revision: Revision) -> bool:
        """Make the changes after a revision known from the store's history, for a watch that
        resumes after a restart; False when they are forgotten, or too many."""
        async with self._recalling:
            if revision >= self._forgotten:
                return True
            history = HistoryCollector(until=self._forgotten)
            watch = self._kv.watch(self.prefix, after=revision, sink=history)
            try:
                watch.request_progress()
                complete = await history.complete
            finally:
                watch.cancel()
            if not complete or history.until != self._forgotten:
                return False
            now = self._clock.now()
            recalled = [self._recalled(event, now) for event in history.seen]
            size = sum(map(_size, recalled))
            if self._recent_most + size > 2 * RECENT_BYTES:
                return False
            self._recent_most += size
            self._recent.extendleft(reversed(recalled))
            self._recent_bytes += size
            self._forgotten = revision
            return True

    def _recalled(self, event: KVEvent, now: float) -> CachedEvent:
        entry = previous = None
        if event.value is not None:
            entry = Entry(self._origin, event.key, event.value, event.revision)
        if event.previous is not None:
            previous = Entry(self._origin, event.key, event.previous, event.revision)
        return CachedEvent(event.key, event.revision, entry, previous, now)

    @property
    def oldest(self) -> Revision:
        """The oldest revision a watch can resume from."""
        return self._forgotten

    def snapshot(self) -> None:
        """Keep the present state, so that a paged list can go on from it. Costs one copy of the
        references, when the next change comes."""
        snapshots = self._snapshots
        if not snapshots or snapshots[-1].last is not None:
            snapshots.append(_Snapshot(self._entries, self._changed, None, self._clock.now()))
        snapshots[-1].at = self._clock.now()

    def range_at(self, revision: Revision, scope: str, start: str = "") -> list[Entry] | None:
        """The entries as they were at a revision; None when that is not remembered."""
        if self._changed <= revision <= self.revision:
            return entries_in_scope(self._entries, scope, start)
        oldest = self._clock.now() - SNAPSHOT_SECONDS
        for one in self._snapshots:
            if one.last is not None and one.first <= revision <= one.last and one.at >= oldest:
                return entries_in_scope(one.entries, scope, start)
        return None

    def _own_entries(self, revision: Revision) -> None:
        # A snapshot of the present state shares the list: the first change after it copies.
        if self._snapshots and self._snapshots[-1].last is None:
            self._snapshots[-1].last = Revision(revision - 1)
            self._entries = list(self._entries)


class HistoryCollector:
    """Collects a watch's events up to a revision; the `EventSink` of that watch."""

    def __init__(self, *, until: Revision) -> None:
        self.until = until
        self.seen: list[KVEvent] = []
        self.complete: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def on_events(self, batch: Sequence[KVEvent]) -> None:
        """Take those that are wanted."""
        self.seen.extend(event for event in batch if event.revision <= self.until)
        if batch[-1].revision >= self.until:
            self._finish(complete=True)
        elif len(self.seen) > RECENT_LEAST * 16:
            self._finish(complete=False)

    def on_progress(self, revision: Revision) -> None:
        """Everything up to `revision` was shown."""
        if revision >= self.until:
            self._finish(complete=True)

    def on_closed(self, error: Exception | None) -> None:  # noqa: ARG002 - whatever it was
        """There is no more."""
        self._finish(complete=False)

    def _finish(self, *, complete: bool) -> None:
        if not self.complete.done():
            self.complete.set_result(complete)


def _size(event: CachedEvent) -> int:
    # What came after is the present object, or stands before the next change of it.
    return EVENT_COST + (0 if event.previous is None else len(event.previous.value))


def entries_in_scope(entries: list[Entry], scope: str, start: str = "") -> list[Entry]:
    """Return the entries below a prefix, or under one whole key, from the key `start` on."""
    begin = bisect_left(entries, max(scope, start), key=_path)
    if not scope.endswith("/"):  # one key
        return [one for one in entries[begin : begin + 1] if one.path == scope]
    end = bisect_left(entries, scope[:-1] + "0", key=_path)  # "0" follows "/"
    return entries[begin:end]
