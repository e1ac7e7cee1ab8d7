"""The fan-out of events to the watchers of one resource: selection, bookmarks and backlogs.

Watchers with the same scope, selection and frame encoding are a group. The events of a batch are
encoded into frames and joined once per group, and the same bytes are written to each sink. A
watcher whose backlog grows too large is ended (`storage/cache/watch_backlogs.py`); its client
resumes at the last resource version it received. Knows no media type and no kind. Mirrors
cache_watcher.go of k8s.io/apiserver.

The states of a watcher. Each event reaches it once, because `sent_revision` says what it has got:

    state      what happens                                          next state
    starting   `_catch_up` writes what is missing, then `_join`      live
               the cache no longer has an event, or a frame fails    ended
    live       the pump writes the events of its group               live
               its backlog is too large, or a frame fails            ended
    both       `cancel`, or `end_all` when the cache was emptied     ended

A watcher that starts has a `task` and is in `_starting`; a live one is in the group that `_groups`
has for its scope. The callback `_on_end` removes it from there: `_abandon` from `_starting`, later
`_leave` from the group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from contextvars import Context

from kapiserver.api.selectors import Selection
from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.cache.group_index import GroupIndex
from kapiserver.storage.cache.large_frames import LargeFrame, LargeFrames
from kapiserver.storage.cache.metrics import WatchMetrics
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.cache.query import Framer, WatchSink
from kapiserver.storage.cache.visible_events import visible_event
from kapiserver.storage.cache.watch_backlogs import LAGGING_BYTES, WatchBacklogs
from kapiserver.storage.cache.watch_cache import CachedEvent, WatchCache
from kapiserver.storage.concurrency.clock import Clock, Timer
from kapiserver.storage.concurrency.time_slice import TimeSlice
from kapiserver.storage.errors import Corrupt
from kapiserver.storage.kv.contract import Revision

LAGGING_SECONDS = 1.0
"""How long a client has time for its initial events before they count as its backlog."""
CATCH_UP_BYTES = 256 << 10
"""Bytes written at once while a watcher catches up."""
YIELD_BYTES = 512 << 10
"""Bytes written to watchers before other tasks run: TLS encrypts them at once, in 10 to 20 ms."""
YIELD_EVERY = 100
"""Watchers written to before other tasks run."""
MAX_PENDING_EVENTS = 20_000
"""Limit of the events waiting for delivery."""
MAX_PAUSE_SECONDS = 0.02
"""After each round of deliveries the pump pauses as long as the round took, up to this limit.
Events that arrive meanwhile are delivered together, and fan-out takes at most half of the event
loop's time. See `pause_seconds` for workers."""
MIN_PAUSE_SECONDS = 0.002
BOOKMARK_SECONDS = 60.0

_log = logging.getLogger(__name__)


class Watcher:
    """One client's watch."""

    __slots__ = (
        "_on_end",
        "bookmarks",
        "ended",
        "framer",
        "group",
        "is_slow",
        "sent_revision",
        "sink",
        "task",
    )

    def __init__(
        self,
        *,
        group: WatcherGroup,
        framer: Framer,
        sink: WatchSink,
        sent_revision: Revision,
        bookmarks: bool,
    ) -> None:
        self.group = group
        self.framer = framer
        self.sink = sink
        self.sent_revision = sent_revision
        """Every event up to this revision was written before the watcher joined its group."""
        self.bookmarks = bookmarks
        self.ended = False
        self.is_slow = False
        """Whether it is ended because its backlog is too large."""
        self.task: asyncio.Task[None] | None = None
        self._on_end: Callable[[Watcher], None] = lambda _: None

    def cancel(self) -> None:
        """Stop writing to the sink, and leave it open. Idempotent."""
        if not self.ended:
            self.ended = True  # first, so that a call from a callback does nothing
            self._on_end(self)
            if self.task is not None:
                self.task.cancel()
                self.task = None  # a cancelled task keeps its frames, and they this watcher

    def end(self, error: Exception | None = None) -> None:
        """Close the stream. Before that, send an error as an ERROR event; without one, clients
        resume."""
        if not self.ended:
            if error is not None:
                self.sink.write(self.framer.error(error))  # while the sink takes frames
            self.cancel()
            self.sink.close()

    def abort(self) -> None:
        """Close the stream at once; the client resumes."""
        if not self.ended:
            self.cancel()
            self.sink.abort()

    def set_on_end(self, on_end: Callable[[Watcher], None]) -> None:
        """Set the callback for the end of the watch."""
        self._on_end = on_end


class WatcherGroup:
    """Watchers with the same scope (a prefix, or one key), selection and frames."""

    __slots__ = (
        "framer", "identity", "large_frames", "offloader", "scope", "selection", "watchers",
    )  # fmt: skip

    def __init__(
        self,
        scope: str,
        selection: Selection,
        framer: Framer,
        offloader: Offloader,
        large_frames: LargeFrames,
    ) -> None:
        self.offloader = offloader
        self.large_frames = large_frames
        self.scope = scope
        self.selection = selection
        self.framer = framer
        self.identity: Hashable = (selection, framer.identity)
        self.watchers: dict[Watcher, None] = {}

    def covers(self, path: str) -> bool:
        """Whether a key is in the scope."""
        return path.startswith(self.scope) if self.scope.endswith("/") else path == self.scope

    def quick_frame(self, event: CachedEvent) -> bytes | None:
        """Return the frame of an event, b"" if it is not selected; None if a thread is to help."""
        entry, previous = event.entry, event.previous
        if (entry is not None and entry.is_large) or (previous is not None and previous.is_large):
            return None
        if (visible := visible_event(event, self.selection)) is None:
            return b""
        return None if self.framer.is_slow(visible.entry) else self.framer.event(*visible)

    async def large_frame(self, event: CachedEvent) -> LargeFrame:
        """Return the frame of an event, an empty one if it is not selected. As long as the caller
        keeps it, others get the same bytes."""
        for entry in (event.entry, event.previous):
            if entry is not None and entry.is_large:
                await self.offloader.is_selected(entry, self.selection)
        if (visible := visible_event(event, self.selection)) is None:
            return LargeFrame(b"")
        return await self.large_frames.frame(self.framer, visible.kind, visible.entry)

    async def frames(self, events: Iterable[CachedEvent]) -> AsyncIterator[bytes]:
        """Yield the frame of each event."""
        for event in events:
            if (frame := self.quick_frame(event)) is None:
                large_frame = await self.large_frame(event)
                yield large_frame.data
            else:
                yield frame

    async def visible_frames(
        self, events: Iterable[CachedEvent], time_slice: TimeSlice
    ) -> list[bytes]:
        """Return the frames of the events that the selection matches."""
        frames = []
        for event in events:  # without `frames`: a generator costs more than most frames
            if (frame := self.quick_frame(event)) is None:
                frame = (await self.large_frame(event)).data
            if frame:
                frames.append(frame)
            if time_slice.expired:
                await time_slice.yield_if_expired()
        return frames


def pause_seconds(round_seconds: float, workers: int) -> float:
    """Return how long the pump pauses after a round of deliveries.

    A worker has a part of the watchers, and its round takes a part of the time that one process
    would take. Its pause is longer by twice the difference: then an event that comes at any time
    arrives as late as it would from one process, in the mean and at most, and more events are
    delivered together.
    """
    whole = round_seconds * workers  # as one process would take
    return min(whole, MAX_PAUSE_SECONDS) + 2 * min(whole - round_seconds, MAX_PAUSE_SECONDS)


class WatchFanout:
    """All watchers of one resource; a `CacheListener` of its watch cache."""

    def __init__(
        self, cache: WatchCache, clock: Clock, backlogs: WatchBacklogs, *, workers: int = 1
    ) -> None:
        self._cache = cache
        self._workers = workers
        self._backlogs = backlogs
        self._clock = clock
        self._groups: dict[str, GroupIndex[WatcherGroup]] = {}
        self.large_frames = LargeFrames()
        self._pending: list[CachedEvent] = []
        self._pump: asyncio.Task[None] | None = None
        self._bookmark_timer: Timer | None = None
        self._bookmarks_due = False
        self._starting: set[Watcher] = set()
        self.metrics = WatchMetrics()
        self._subscription = cache.subscribe(self)

    def on_filled(self) -> None:
        """Do nothing: watchers read the cache when they start."""

    def on_emptied(self, _entries: Sequence[Entry], _error: Exception | None) -> None:
        """Close every stream, so that clients resume."""
        self.end_all()

    def on_events(self, events: Sequence[CachedEvent]) -> None:
        """Queue events for delivery."""
        if self._groups:  # watchers that start read these events from the cache
            self._pending.extend(events)
            self._start_pump()
        if len(self._pending) > MAX_PENDING_EVENTS:
            _log.warning("too many undelivered events: ending all watches")
            self.end_all()

    def start(self, watcher: Watcher, initial: Sequence[Entry] | None, *, marked: bool) -> None:
        """Start a watcher: initial objects, events since `sent_revision`, then live events.

        initial     objects at `sent_revision`; None for none
        marked      send the bookmark that ends the initial events
        """
        watcher.set_on_end(self._abandon)
        self._starting.add(watcher)
        watcher.task = asyncio.create_task(self._catch_up(watcher, initial, marked))

    def _abandon(self, watcher: Watcher) -> None:
        self.metrics.ended_watches += watcher.is_slow
        self._starting.discard(watcher)
        self._backlogs.discard(watcher)

    def stop(self) -> None:
        """Receive no more events. Idempotent."""
        self._subscription.cancel()

    async def wait_delivered(self) -> None:
        """Wait until all published events were delivered."""
        while self._pump is not None:
            await asyncio.wait([self._pump])

    def end_all(self) -> None:
        """Close every stream, so that clients resume."""
        self._pending.clear()
        for watcher in [*self._live_watchers(), *self._starting]:
            watcher.end()

    def _live_watchers(self) -> list[Watcher]:
        """Return all watchers that are live: a copy, because each end changes the groups."""
        return [
            watcher
            for groups in self._groups.values()
            for group in groups
            for watcher in group.watchers
        ]

    # Catching up.

    async def _catch_up(
        self, watcher: Watcher, initial: Sequence[Entry] | None, marked: bool
    ) -> None:
        try:
            if initial is not None:
                added = (CachedEvent(new.path, new.revision, new, None, 0) for new in initial)
                await self._write(watcher, watcher.group.frames(added))
                if marked:
                    framer = watcher.framer
                    watcher.sink.write(
                        framer.bookmark(watcher.sent_revision, initial_events_end=True)
                    )
            while True:
                missed_events = self._cache.events_since(watcher.sent_revision)
                if missed_events is None:
                    # The cache dropped events while initial objects were sent; the client resumes.
                    watcher.end()
                    return
                group = watcher.group
                missed_events = [event for event in missed_events if group.covers(event.path)]
                if not missed_events:
                    break
                # Before the write, which awaits: the next round looks for the events after these.
                watcher.sent_revision = missed_events[-1].revision
                await self._write(watcher, group.frames(missed_events))
            # Without an await since `events_since`, so that no event comes between. The pump may
            # still have events up to this revision to deliver; `_deliver` leaves them out.
            watcher.sent_revision = max(watcher.sent_revision, self._cache.revision)
            self._join(watcher)
        except Exception as error:
            _report("starting a watch failed", error)
            watcher.end(error)

    async def _write(self, watcher: Watcher, frames: AsyncIterator[bytes]) -> None:
        sink, size, time_slice = watcher.sink, 0, TimeSlice()
        metrics, version = self.metrics, watcher.framer.version
        frames_to_write: list[bytes] = []
        async for frame in frames:
            if size and len(frame) >= CATCH_UP_BYTES:
                sink.write(b"".join(frames_to_write))  # do not copy the large frame: it is shared
                frames_to_write, size = [], 0
            if frame:
                frames_to_write.append(frame)
                size += len(frame)
                metrics.initial_events += 1
                metrics.count_frame(version, len(frame))
            if size >= CATCH_UP_BYTES or (size and time_slice.expired):
                sink.write(b"".join(frames_to_write))
                frames_to_write, size = [], 0
                await self._wait_drained(watcher)
            await time_slice.yield_if_expired()
        if frames_to_write:
            sink.write(b"".join(frames_to_write))
            await self._wait_drained(watcher)

    async def _wait_drained(self, watcher: Watcher) -> None:
        def count_backlog() -> None:
            self._backlogs.set(watcher, watcher.sink.backlog())

        timer = None
        if watcher.sink.backlog() > LAGGING_BYTES:
            timer = self._clock.call_later(LAGGING_SECONDS, count_backlog)
        try:
            await watcher.sink.wait_drained()
        finally:
            if timer is not None:
                timer.cancel()
            self._backlogs.discard(watcher)

    def _join(self, watcher: Watcher) -> None:
        watcher.task = None
        groups = self._groups.setdefault(watcher.group.scope, GroupIndex())
        group = groups.join(watcher.group)
        group.watchers[watcher] = None
        watcher.group = group
        self._starting.discard(watcher)
        watcher.set_on_end(self._leave)
        if watcher.bookmarks and self._bookmark_timer is None:
            self._bookmark_timer = self._clock.call_later(BOOKMARK_SECONDS, self._bookmark)

    def _leave(self, watcher: Watcher) -> None:
        self.metrics.ended_watches += watcher.is_slow
        self._backlogs.discard(watcher)
        group = watcher.group
        group.watchers.pop(watcher, None)
        groups = self._groups.get(group.scope)
        if not group.watchers and groups is not None:
            groups.remove(group)
            if not groups:
                del self._groups[group.scope]
        if not self._groups and self._bookmark_timer is not None:
            self._bookmark_timer.cancel()
            self._bookmark_timer = None

    # Fan-out.

    def _start_pump(self) -> None:
        if self._pump is None:
            # Outside the context of the request whose write is delivered.
            self._pump = asyncio.create_task(self._deliver_all(), context=Context())

    async def _deliver_all(self) -> None:
        try:
            while self._pending or self._bookmarks_due:
                if self._pending:
                    round_start, time_slice = self._clock.now(), TimeSlice()
                    batch, self._pending = self._pending, []
                    for group, events in self._matching_groups(batch).items():
                        await self._deliver(group, events, time_slice)
                    pause = pause_seconds(self._clock.now() - round_start, self._workers)
                    if pause > MIN_PAUSE_SECONDS:
                        await asyncio.sleep(pause)
                else:
                    self._bookmarks_due = False
                    try:
                        await self._deliver_bookmarks(self._cache.revision)
                    except Exception:
                        _log.exception("encoding a bookmark failed")
        finally:
            self._pump = None
            if self._pending:  # an error has ended the loop above: the rest gets a new pump
                self._start_pump()

    def _matching_groups(
        self, batch: Sequence[CachedEvent]
    ) -> dict[WatcherGroup, list[CachedEvent]]:
        events_by_group: dict[WatcherGroup, list[CachedEvent]] = {}
        root, groups = self._cache.prefix, self._groups
        for event in batch:
            path = event.path
            # The prefixes of the resource and of the namespace, which are the same for a
            # cluster-scoped resource, and the key of the object.
            for scope in {root, path[: path.rindex("/") + 1], path}:
                if scope in groups:
                    for group in groups[scope].groups_of(event):
                        events_by_group.setdefault(group, []).append(event)
        return events_by_group

    async def _deliver(
        self, group: WatcherGroup, events: list[CachedEvent], time_slice: TimeSlice
    ) -> None:
        try:
            frames = await group.visible_frames(events, time_slice)
        except Exception as error:
            _report("encoding an event failed", error)
            for watcher in list(group.watchers):
                watcher.end(error)
            return
        if not frames:
            return
        joined = b"".join(frames)
        for frame in frames:
            self.metrics.count_frame(group.framer.version, len(frame), len(group.watchers))
        first, last = events[0].revision, events[-1].revision
        yield_every = min(YIELD_EVERY, YIELD_BYTES // len(joined) + 1)
        write, watchers = self._backlogs.write, list(group.watchers)
        for start in range(0, len(watchers), yield_every):
            if start:
                await asyncio.sleep(0)
            for watcher in watchers[start : start + yield_every]:
                # The state of each is read here, because watchers end and join during the awaits.
                if watcher.ended:
                    continue
                if watcher.sent_revision < first:
                    write(watcher, joined)
                elif watcher.sent_revision < last:  # it joined between two of these events
                    missed = [event for event in events if event.revision > watcher.sent_revision]
                    write(watcher, b"".join(await group.visible_frames(missed, time_slice)))

    # Bookmarks.

    def _bookmark(self) -> None:
        self._bookmark_timer = self._clock.call_later(BOOKMARK_SECONDS, self._bookmark)
        # The pump writes bookmarks when no event is pending: a bookmark promises all before it.
        self._bookmarks_due = True
        self._cache.request_progress()
        self._start_pump()

    def write_last_bookmark(self, watcher: Watcher) -> None:
        """Write a bookmark before the stream of a watch ends, so that the client resumes at the
        current revision and not at its last event. Writes none while events wait for delivery, or
        if the watcher asked for no bookmarks."""
        if not watcher.bookmarks or watcher.ended or watcher.task or self._pump:
            return
        revision = self._cache.revision
        if watcher.sent_revision <= revision:
            watcher.sink.write(watcher.framer.bookmark(revision, initial_events_end=False))

    async def _deliver_bookmarks(self, revision: Revision) -> None:
        frames: dict[Hashable, bytes] = {}
        watchers = [
            watcher
            for watcher in self._live_watchers()
            if watcher.bookmarks and watcher.sent_revision <= revision
        ]
        for count, watcher in enumerate(watchers, 1):
            framer = watcher.framer
            frame = frames.get(framer.identity)
            if frame is None:
                frame = framer.bookmark(revision, initial_events_end=False)
                frames[framer.identity] = frame
            if not watcher.ended:
                self._backlogs.write(watcher, frame)
                self.metrics.count_frame(framer.version, len(frame))
            if count % YIELD_EVERY == 0:
                await asyncio.sleep(0)


def _report(message: str, error: Exception) -> None:
    # A corrupt value in the store is not a bug of the server: log it without a traceback.
    unreadable = isinstance(error, Corrupt)
    _log.error("%s: %s", message, error, exc_info=None if unreadable else error)
