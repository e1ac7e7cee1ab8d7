"""The events of a watch for code in this process, as entries instead of frames.

Semantics are those of a client's watch: initial objects, then changes as the selection sees them.
Knows no HTTP and no framer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct

from kapiserver.api.selectors import Selection
from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.cache.visible_events import VisibleEvent, visible_event
from kapiserver.storage.cache.watch_cache import CachedEvent, WatchCache
from kapiserver.storage.cache.watch_fanout import MAX_PENDING_EVENTS
from kapiserver.storage.concurrency.time_slice import TimeSlice
from kapiserver.storage.errors import Expired
from kapiserver.storage.kv.contract import Revision


class WatchStart(Struct, frozen=True):
    """The start of a watch.

    scope       a prefix, or one key
    revision    the revision of the initial objects, or the one to resume from
    initial     the objects to send first; None if the watch resumes
    marked      whether a bookmark marks the end of the initial objects
    expired     the error if the revision is too old
    """

    scope: str
    revision: Revision
    initial: Sequence[Entry] | None = None
    marked: bool = False
    expired: Expired | None = None


class InitialEventsEnd(Struct, frozen=True):
    """All initial objects were sent, as they were at this revision."""

    revision: Revision


class EventBuffer:
    """Collects the events of a cache for one reader; a CacheListener."""

    def __init__(self) -> None:
        self.events: deque[CachedEvent] = deque()
        self.ended = False
        self._changed = asyncio.Event()

    def on_filled(self) -> None:
        """Ignore: a reader starts with a filled cache."""

    def on_events(self, events: Sequence[CachedEvent]) -> None:
        """Keep events for the reader, unless it is too slow."""
        self.events.extend(events)
        self.ended = self.ended or len(self.events) > MAX_PENDING_EVENTS
        self._changed.set()

    def on_emptied(self, _entries: Sequence[Entry], _error: Exception | None) -> None:
        """End the stream after the events that were received."""
        self.ended = True
        self._changed.set()

    async def wait(self, deadline: float | None) -> None:
        """Wait for events or the end. Raises TimeoutError."""
        async with asyncio.timeout_at(deadline):
            await self._changed.wait()
        self._changed.clear()


async def stream_events(
    cache: WatchCache, start: WatchStart, selection: Selection, max_seconds: float | None
) -> AsyncGenerator[VisibleEvent | InitialEventsEnd, None]:
    """Yield the events of a watch until the cache loses its watch or is stopped, the reader is too
    slow, or `max_seconds` are over."""
    buffer = EventBuffer()
    deadline = None if max_seconds is None else asyncio.get_running_loop().time() + max_seconds
    time_slice = TimeSlice()
    with cache.subscribe(buffer):
        if start.initial is None:
            buffer.events.extend(cache.events_since(start.revision) or ())
        for entry in start.initial or ():
            if entry.is_selected(selection):
                yield VisibleEvent("ADDED", entry)
            await time_slice.yield_if_expired()
        if start.marked:
            yield InitialEventsEnd(start.revision)
        with suppress(TimeoutError):
            while buffer.events or not buffer.ended:
                if not buffer.events:
                    await buffer.wait(deadline)
                events, buffer.events = buffer.events, deque()
                for event in _visible_events(events, start.scope, selection):
                    yield event
                    await time_slice.yield_if_expired()


def _visible_events(
    events: Iterable[CachedEvent], scope: str, selection: Selection
) -> Iterator[VisibleEvent]:
    for event in events:
        path = event.path
        if path.startswith(scope) if scope.endswith("/") else path == scope:
            visible = visible_event(event, selection)
            if visible is not None:
                yield visible
