"""From changes to the streams of those who watch: fan-out, selection, bookmarks, backlogs.

Watchers that see the same (scope, selection, form of frames) are one audience: what an audience
sees of a batch of changes is framed and joined once, and the same bytes are written straight to
each sink. A watcher whose client takes too long is ended; clients resume from the last version
they saw. Knows no media type and no kind. Mirrors cache_watcher.go of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kapiserver.api.selectors import Selection
from kapiserver.storage.clock import Clock, Timer
from kapiserver.storage.entry import Entry
from kapiserver.storage.errors import Corrupt
from kapiserver.storage.kv import Revision
from kapiserver.storage.query import EventType, Framer, WatchSink
from kapiserver.storage.time_slice import TimeSlice
from kapiserver.storage.watch_cache import CachedEvent, WatchCache

MAX_BACKLOG_BYTES = 2 << 20
"""Bytes a client may be behind."""
CATCH_UP_BYTES = 256 << 10
"""Bytes written at once while a watcher catches up, at most."""
YIELD_EVERY = 100
"""Watchers served before others may run."""
MAX_PENDING_EVENTS = 20_000
"""Changes that may wait to be delivered."""
MAX_PAUSE_SECONDS = 0.02
"""Seconds that a change may wait for the next ones at most. After each round the pump rests as
long as the round took: changes that come meanwhile go out together, and what many watchers are
sent never takes more than half of the loop's time."""
MIN_PAUSE_SECONDS = 0.002
BOOKMARK_SECONDS = 60.0

_log = logging.getLogger(__name__)


class VisibleEvent(NamedTuple):
    """What one watcher sees of a change."""

    kind: EventType
    entry: Entry


def visible_event(event: CachedEvent, selection: Selection) -> VisibleEvent | None:
    """What a selection sees: an object that begins or ceases to match is added or deleted."""
    now, before = event.entry, event.previous
    if not selection.selects_everything:
        if now is not None and not now.is_selected(selection):
            now = None
        if before is not None and not before.is_selected(selection):
            before = None
    if now is not None:
        return VisibleEvent("ADDED" if before is None else "MODIFIED", now)
    return None if before is None else VisibleEvent("DELETED", event.deleted_entry)


class Watcher:
    """One running watch."""

    __slots__ = (
        "_on_end",
        "bookmarks",
        "ended",
        "framer",
        "group",
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
        self.task: asyncio.Task[None] | None = None
        self._on_end: Callable[[Watcher], None] = lambda _: None

    def cancel(self) -> None:
        """Write nothing more to the sink; it is not closed. Idempotent."""
        if not self.ended:
            self.ended = True
            self._on_end(self)
            if self.task is not None:
                self.task.cancel()

    def end(self, error: Exception | None = None) -> None:
        """End the stream: with an ERROR event, or for a client that should just resume without."""
        if not self.ended:
            if error is not None:
                self.sink.write(self.framer.error(error))
            self.cancel()
            self.sink.close()

    def set_on_end(self, leave: Callable[[Watcher], None]) -> None:
        """From now on `leave` is called at the end."""
        self._on_end = leave


class WatcherGroup:
    """Watchers that see the same: below `scope` (a prefix, or one key), through one selection."""

    __slots__ = ("framer", "identity", "scope", "selection", "watchers")

    def __init__(self, scope: str, selection: Selection, framer: Framer) -> None:
        self.scope = scope
        self.selection = selection
        self.framer = framer
        self.identity: Hashable = (selection, framer.identity)
        self.watchers: dict[Watcher, None] = {}

    def covers(self, path: str) -> bool:
        """Whether the scope holds a key."""
        return path.startswith(self.scope) if self.scope.endswith("/") else path == self.scope

    def frames(self, events: Iterable[CachedEvent]) -> Iterator[bytes]:
        """What the audience sees of each change in its scope: nothing of some."""
        selection, frame = self.selection, self.framer.event
        for event in events:
            one = visible_event(event, selection)
            yield b"" if one is None else frame(one.kind, one.entry)


class WatchFanout:
    """All watches of one resource."""

    def __init__(self, cache: WatchCache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock
        self._groups: dict[str, dict[Hashable, WatcherGroup]] = {}
        self._pending: list[CachedEvent] = []
        self._pump: asyncio.Task[None] | None = None
        self._bookmark_timer: Timer | None = None
        self._bookmarks_due = False
        self._starting: set[Watcher] = set()
        self.events_sent = 0
        """Events written to watchers, initial objects left out."""
        cache.published = self.publish
        cache.broken = self.end_all

    @property
    def count(self) -> int:
        """How many watches are open, those that still catch up included."""
        joined = (
            len(group.watchers) for groups in self._groups.values() for group in groups.values()
        )
        return len(self._starting) + sum(joined)

    def publish(self, events: Sequence[CachedEvent]) -> None:
        """Show changes to whom they concern, soon."""
        if self._groups:
            self._pending.extend(events)
            self._start_pump()
        if len(self._pending) > MAX_PENDING_EVENTS:
            _log.warning("changes come faster than they can be sent: ending all watches")
            self.end_all()

    def start(self, watching: Watcher, initial: Sequence[Entry] | None, *, marked: bool) -> None:
        """Start a watch: the initial objects if any (at the watcher's `sent` revision; `marked`:
        followed by the bookmark that ends them), what changed since, then what will."""
        watching.set_on_end(self._starting.discard)
        self._starting.add(watching)
        watching.task = asyncio.create_task(self._catch_up(watching, initial, marked))

    async def wait_delivered(self) -> None:
        """Wait until all that was published has been shown."""
        while self._pump is not None:
            await asyncio.wait([self._pump])

    def end_all(self) -> None:
        """End every stream: clients resume."""
        self._pending.clear()
        everybody = [
            one
            for audiences in self._groups.values()
            for audience in audiences.values()
            for one in audience.watchers
        ]
        for watching in [*everybody, *self._starting]:
            watching.end()

    # Catching up.

    async def _catch_up(
        self, watching: Watcher, initial: Sequence[Entry] | None, marked: bool
    ) -> None:
        try:
            if initial is not None:
                await self._write(watching, _initial_frames(watching, initial))
                if marked:
                    framer = watching.framer
                    watching.sink.write(
                        framer.bookmark(watching.sent_revision, initial_events_end=True)
                    )
            while True:
                missed = self._cache.events_since(watching.sent_revision)
                if missed is None:
                    # It fell behind while it was sent the initial objects; the client resumes.
                    watching.end()
                    return
                audience = watching.group
                missed = [event for event in missed if audience.covers(event.path)]
                if not missed:
                    break
                watching.sent_revision = missed[-1].revision
                await self._write(watching, audience.frames(missed))
            watching.sent_revision = max(watching.sent_revision, self._cache.revision)
            self._join(watching)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            _report("a watch could not be started", error)
            watching.end(error)

    async def _write(self, watching: Watcher, frames: Iterator[bytes]) -> None:
        sink, waiting, size, turn = watching.sink, [], 0, TimeSlice()
        for frame in frames:
            if frame:
                waiting.append(frame)
                size += len(frame)
            if size >= CATCH_UP_BYTES or (size and turn.expired):
                sink.write(b"".join(waiting))
                waiting, size = [], 0
                await sink.drained()
            await turn.yield_if_expired()
        if waiting:
            sink.write(b"".join(waiting))
            await sink.drained()

    def _join(self, watching: Watcher) -> None:
        watching.task = None
        mine = watching.group
        audience = self._groups.setdefault(mine.scope, {}).setdefault(mine.identity, mine)
        audience.watchers[watching] = None
        watching.group = audience
        self._starting.discard(watching)
        watching.set_on_end(self._leave)
        if watching.bookmarks and self._bookmark_timer is None:
            self._bookmark_timer = self._clock.call_later(BOOKMARK_SECONDS, self._bookmark)

    def _leave(self, watching: Watcher) -> None:
        audience = watching.group
        audience.watchers.pop(watching, None)
        audiences = self._groups.get(audience.scope)
        if not audience.watchers and audiences is not None:
            audiences.pop(audience.identity, None)
            if not audiences:
                del self._groups[audience.scope]
        if not self._groups and self._bookmark_timer is not None:
            self._bookmark_timer.cancel()
            self._bookmark_timer = None

    # Fan-out.

    def _start_pump(self) -> None:
        if self._pump is None:
            self._pump = asyncio.create_task(self._deliver_all())

    async def _deliver_all(self) -> None:
        try:
            while self._pending or self._bookmarks_due:
                if self._pending:
                    began = self._clock.now()
                    batch, self._pending = self._pending, []
                    for audience, events in self._matching_groups(batch).items():
                        await self._deliver(audience, events)
                    rest = min(self._clock.now() - began, MAX_PAUSE_SECONDS)
                    if rest > MIN_PAUSE_SECONDS:
                        await asyncio.sleep(rest)
                else:
                    self._bookmarks_due = False
                    try:
                        await self._deliver_bookmarks(self._cache.revision)
                    except Exception:
                        _log.exception("a bookmark could not be made")
        finally:
            self._pump = None
            if self._pending:
                self._start_pump()

    def _matching_groups(
        self, batch: Sequence[CachedEvent]
    ) -> dict[WatcherGroup, list[CachedEvent]]:
        found: dict[WatcherGroup, list[CachedEvent]] = {}
        root, audiences = self._cache.prefix, self._groups
        for event in batch:
            path = event.path
            # All of it, its namespace (the same for cluster-scoped ones), the object itself.
            for scope in {root, path[: path.rindex("/") + 1], path}:
                for audience in audiences.get(scope, {}).values():
                    found.setdefault(audience, []).append(event)
        return found

    async def _deliver(self, audience: WatcherGroup, events: list[CachedEvent]) -> None:
        try:
            joined = b"".join(audience.frames(events))
        except Exception as error:
            _report("a change could not be framed", error)
            for watching in list(audience.watchers):
                watching.end(error)
            return
        if not joined:
            return
        self.events_sent += len(events) * len(audience.watchers)
        first, last = events[0].revision, events[-1].revision
        for number, watching in enumerate(list(audience.watchers), 1):
            if watching.ended or watching.sent_revision >= last:
                continue
            if watching.sent_revision >= first:  # it joined between two of these changes
                missed = [event for event in events if event.revision > watching.sent_revision]
                _write_live(watching, b"".join(audience.frames(missed)))
            else:
                _write_live(watching, joined)
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)

    # Bookmarks.

    def _bookmark(self) -> None:
        self._bookmark_timer = self._clock.call_later(BOOKMARK_SECONDS, self._bookmark)
        self._bookmarks_due = True
        self._cache.request_progress()
        self._start_pump()

    async def _deliver_bookmarks(self, revision: Revision) -> None:
        frames: dict[Hashable, bytes] = {}
        everybody = [
            one
            for audiences in self._groups.values()
            for audience in audiences.values()
            for one in audience.watchers
            if one.bookmarks and one.sent_revision <= revision
        ]
        for number, watching in enumerate(everybody, 1):
            framer = watching.framer
            frame = frames.get(framer.identity)
            if frame is None:
                frame = framer.bookmark(revision, initial_events_end=False)
                frames[framer.identity] = frame
            if not watching.ended:
                _write_live(watching, frame)
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)


def _report(what: str, error: Exception) -> None:
    # What lies in the store may be unreadable; everything else is a fault of ours.
    unreadable = isinstance(error, Corrupt)
    _log.error("%s: %s", what, error, exc_info=None if unreadable else error)


def _initial_frames(watching: Watcher, initial: Sequence[Entry]) -> Iterator[bytes]:
    """The frame of each object, nothing for those that are not selected."""
    selection, frame = watching.group.selection, watching.framer.event
    for entry in initial:
        yield frame("ADDED", entry) if entry.is_selected(selection) else b""


def _write_live(watching: Watcher, frames: bytes) -> None:
    if not frames:
        return
    if watching.sink.backlog() > MAX_BACKLOG_BYTES:
        watching.end()
    else:
        watching.sink.write(frames)
