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
from kapiserver.storage.time_slice import Turn
from kapiserver.storage.watch_cache import CachedEvent, ResourceCache

BACKLOG = 2 << 20
"""Bytes a client may be behind."""
SLICE = 256 << 10
"""Bytes written at once while a watcher catches up, at most."""
TURN = 100
"""Watchers served before others may run."""
PENDING = 20_000
"""Changes that may wait to be delivered."""
REST_MOST = 0.02
"""Seconds that a change may wait for the next ones at most. After each round the pump rests as
long as the round took: changes that come meanwhile go out together, and what many watchers are
sent never takes more than half of the loop's time."""
REST_LEAST = 0.002
BOOKMARK_SECONDS = 60.0

_log = logging.getLogger(__name__)


class Seen(NamedTuple):
    """What one watcher sees of a change."""

    kind: EventType
    entry: Entry


def seen(event: CachedEvent, selection: Selection) -> Seen | None:
    """What a selection sees: an object that begins or ceases to match is added or deleted."""
    now, before = event.entry, event.previous
    if not selection.selects_everything:
        if now is not None and not now.is_selected(selection):
            now = None
        if before is not None and not before.is_selected(selection):
            before = None
    if now is not None:
        return Seen("ADDED" if before is None else "MODIFIED", now)
    return None if before is None else Seen("DELETED", event.departed)


class Watching:
    """One running watch."""

    __slots__ = ("_leave", "audience", "bookmarks", "framer", "over", "sent", "sink", "task")

    def __init__(
        self,
        *,
        audience: Audience,
        framer: Framer,
        sink: WatchSink,
        sent: Revision,
        bookmarks: bool,
    ) -> None:
        self.audience = audience
        self.framer = framer
        self.sink = sink
        self.sent = sent
        """Everything up to this revision was written when it joined its audience."""
        self.bookmarks = bookmarks
        self.over = False
        self.task: asyncio.Task[None] | None = None
        self._leave: Callable[[Watching], None] = lambda _: None

    def cancel(self) -> None:
        """Write nothing more to the sink; it is not closed. Idempotent."""
        if not self.over:
            self.over = True
            self._leave(self)
            if self.task is not None:
                self.task.cancel()

    def end(self, error: Exception | None = None) -> None:
        """End the stream: with an ERROR event, or for a client that should just resume without."""
        if not self.over:
            if error is not None:
                self.sink.write(self.framer.error(error))
            self.cancel()
            self.sink.close()

    def joins(self, leave: Callable[[Watching], None]) -> None:
        """From now on `leave` is called at the end."""
        self._leave = leave


class Audience:
    """Watchers that see the same: below `scope` (a prefix, or one key), through one selection."""

    __slots__ = ("framer", "identity", "scope", "selection", "watchers")

    def __init__(self, scope: str, selection: Selection, framer: Framer) -> None:
        self.scope = scope
        self.selection = selection
        self.framer = framer
        self.identity: Hashable = (selection, framer.identity)
        self.watchers: dict[Watching, None] = {}

    def covers(self, path: str) -> bool:
        """Whether the scope holds a key."""
        return path.startswith(self.scope) if self.scope.endswith("/") else path == self.scope

    def frames(self, events: Iterable[CachedEvent]) -> Iterator[bytes]:
        """What the audience sees of each change in its scope: nothing of some."""
        selection, frame = self.selection, self.framer.event
        for event in events:
            one = seen(event, selection)
            yield b"" if one is None else frame(one.kind, one.entry)


class Watchers:
    """All watches of one resource."""

    def __init__(self, cache: ResourceCache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock
        self._audiences: dict[str, dict[Hashable, Audience]] = {}
        self._pending: list[CachedEvent] = []
        self._pump: asyncio.Task[None] | None = None
        self._bookmark_timer: Timer | None = None
        self._bookmarks_due = False
        self._starting: set[Watching] = set()
        self.events_sent = 0
        """Events written to watchers, initial objects left out."""
        cache.published = self.publish
        cache.broken = self.end_all

    @property
    def count(self) -> int:
        """How many watches are open, those that still catch up included."""
        joined = (
            len(audience.watchers)
            for audiences in self._audiences.values()
            for audience in audiences.values()
        )
        return len(self._starting) + sum(joined)

    def publish(self, events: Sequence[CachedEvent]) -> None:
        """Show changes to whom they concern, soon."""
        if self._audiences:
            self._pending.extend(events)
            self._run()
        if len(self._pending) > PENDING:
            _log.warning("changes come faster than they can be sent: ending all watches")
            self.end_all()

    def begin(self, watching: Watching, initial: Sequence[Entry] | None, *, marked: bool) -> None:
        """Start a watch: the initial objects if any (at the watcher's `sent` revision; `marked`:
        followed by the bookmark that ends them), what changed since, then what will."""
        watching.joins(self._starting.discard)
        self._starting.add(watching)
        watching.task = asyncio.create_task(self._catch_up(watching, initial, marked))

    async def delivered(self) -> None:
        """Wait until all that was published has been shown."""
        while self._pump is not None:
            await asyncio.wait([self._pump])

    def end_all(self) -> None:
        """End every stream: clients resume."""
        self._pending.clear()
        everybody = [
            one
            for audiences in self._audiences.values()
            for audience in audiences.values()
            for one in audience.watchers
        ]
        for watching in [*everybody, *self._starting]:
            watching.end()

    # Catching up.

    async def _catch_up(
        self, watching: Watching, initial: Sequence[Entry] | None, marked: bool
    ) -> None:
        try:
            if initial is not None:
                await self._write(watching, _initial_frames(watching, initial))
                if marked:
                    framer = watching.framer
                    watching.sink.write(framer.bookmark(watching.sent, initial_events_end=True))
            while True:
                missed = self._cache.since(watching.sent)
                if missed is None:
                    # It fell behind while it was sent the initial objects; the client resumes.
                    watching.end()
                    return
                audience = watching.audience
                missed = [event for event in missed if audience.covers(event.path)]
                if not missed:
                    break
                watching.sent = missed[-1].revision
                await self._write(watching, audience.frames(missed))
            watching.sent = max(watching.sent, self._cache.revision)
            self._join(watching)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            _report("a watch could not be started", error)
            watching.end(error)

    async def _write(self, watching: Watching, frames: Iterator[bytes]) -> None:
        sink, waiting, size, turn = watching.sink, [], 0, Turn()
        for frame in frames:
            if frame:
                waiting.append(frame)
                size += len(frame)
            if size >= SLICE or (size and turn.over):
                sink.write(b"".join(waiting))
                waiting, size = [], 0
                await sink.drained()
            await turn.rest()
        if waiting:
            sink.write(b"".join(waiting))
            await sink.drained()

    def _join(self, watching: Watching) -> None:
        watching.task = None
        mine = watching.audience
        audience = self._audiences.setdefault(mine.scope, {}).setdefault(mine.identity, mine)
        audience.watchers[watching] = None
        watching.audience = audience
        self._starting.discard(watching)
        watching.joins(self._left)
        if watching.bookmarks and self._bookmark_timer is None:
            self._bookmark_timer = self._clock.call_later(BOOKMARK_SECONDS, self._bookmark)

    def _left(self, watching: Watching) -> None:
        audience = watching.audience
        audience.watchers.pop(watching, None)
        audiences = self._audiences.get(audience.scope)
        if not audience.watchers and audiences is not None:
            audiences.pop(audience.identity, None)
            if not audiences:
                del self._audiences[audience.scope]
        if not self._audiences and self._bookmark_timer is not None:
            self._bookmark_timer.cancel()
            self._bookmark_timer = None

    # Fan-out.

    def _run(self) -> None:
        if self._pump is None:
            self._pump = asyncio.create_task(self._deliver_all())

    async def _deliver_all(self) -> None:
        try:
            while self._pending or self._bookmarks_due:
                if self._pending:
                    began = self._clock.now()
                    batch, self._pending = self._pending, []
                    for audience, events in self._concerned(batch).items():
                        await self._deliver(audience, events)
                    rest = min(self._clock.now() - began, REST_MOST)
                    if rest > REST_LEAST:
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
                self._run()

    def _concerned(self, batch: Sequence[CachedEvent]) -> dict[Audience, list[CachedEvent]]:
        found: dict[Audience, list[CachedEvent]] = {}
        root, audiences = self._cache.prefix, self._audiences
        for event in batch:
            path = event.path
            # All of it, its namespace (the same for cluster-scoped ones), the object itself.
            for scope in {root, path[: path.rindex("/") + 1], path}:
                for audience in audiences.get(scope, {}).values():
                    found.setdefault(audience, []).append(event)
        return found

    async def _deliver(self, audience: Audience, events: list[CachedEvent]) -> None:
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
            if watching.over or watching.sent >= last:
                continue
            if watching.sent >= first:  # it joined between two of these changes
                missed = [event for event in events if event.revision > watching.sent]
                _write_live(watching, b"".join(audience.frames(missed)))
            else:
                _write_live(watching, joined)
            if number % TURN == 0:
                await asyncio.sleep(0)

    # Bookmarks.

    def _bookmark(self) -> None:
        self._bookmark_timer = self._clock.call_later(BOOKMARK_SECONDS, self._bookmark)
        self._bookmarks_due = True
        self._cache.request_progress()
        self._run()

    async def _deliver_bookmarks(self, revision: Revision) -> None:
        frames: dict[Hashable, bytes] = {}
        everybody = [
            one
            for audiences in self._audiences.values()
            for audience in audiences.values()
            for one in audience.watchers
            if one.bookmarks and one.sent <= revision
        ]
        for number, watching in enumerate(everybody, 1):
            framer = watching.framer
            frame = frames.get(framer.identity)
            if frame is None:
                frame = framer.bookmark(revision, initial_events_end=False)
                frames[framer.identity] = frame
            if not watching.over:
                _write_live(watching, frame)
            if number % TURN == 0:
                await asyncio.sleep(0)


def _report(what: str, error: Exception) -> None:
    # What lies in the store may be unreadable; everything else is a fault of ours.
    unreadable = isinstance(error, Corrupt)
    _log.error("%s: %s", what, error, exc_info=None if unreadable else error)


def _initial_frames(watching: Watching, initial: Sequence[Entry]) -> Iterator[bytes]:
    """The frame of each object, nothing for those that are not selected."""
    selection, frame = watching.audience.selection, watching.framer.event
    for entry in initial:
        yield frame("ADDED", entry) if entry.is_selected(selection) else b""


def _write_live(watching: Watching, frames: bytes) -> None:
    if not frames:
        return
    if watching.sink.backlog() > BACKLOG:
        watching.end()
    else:
        watching.sink.write(frames)
