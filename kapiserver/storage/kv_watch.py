"""One watch of one prefix: history first, then what happens, nothing lost or doubled.

A watch has one cursor, the revision up to which its sink has seen everything. While it is behind
where its store was when it began, it reads history in steps and puts aside what the store shows to
all its watches; then it takes that, and goes live. So it catches up however long a step takes and
however much is written meanwhile. Both backends use it. Knows no database, no thread and no
connection.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from kapiserver.storage.errors import StorageError, Unavailable
from kapiserver.storage.kv import EventSink, KVEvent, Revision

HISTORY_PAGE = 500
"""Changes read from history at once."""
MAX_BUFFERED = 4096
"""Changes put aside, at most: with more, they are read from history too."""
RECENT_EVENTS = 1024
RECENT_BYTES = 1 << 20
"""Changes that `RecentEvents` holds, and bytes of their values, at most."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Part of the history: nothing up to and including `until` is left out."""

    events: Sequence[KVEvent]
    until: Revision


class WatchSource(Protocol):
    """The store that is watched."""

    @property
    def revision(self) -> Revision:
        """The newest revision that the watches have been shown."""

    async def history(
        self, prefix: str, after: Revision, until: Revision, limit: int
    ) -> HistoryPage:
        """Part of the history. Raises Compacted, Unavailable."""

    def remove_watch(self, watch: KVWatch) -> None:
        """Show the watch nothing any more."""

    def call_when_current(self, callback: Callable[[], None]) -> None:
        """Call back in a later turn of the loop, once the watches have been shown everything that
        was acknowledged before this call."""


class KVWatch:
    """One running watch; made by a store's `watch`."""

    def __init__(self, source: WatchSource, prefix: str, after: Revision, sink: EventSink) -> None:
        self._source = source
        self._prefix = prefix
        self._cursor = after
        self._sink = sink
        self._until = source.revision
        self._buffer: list[KVEvent] = []
        self._live = after >= self._until
        self._progress_requested = False
        self._ended = False

    @property
    def live(self) -> bool:
        """Has it caught up? If not, `replay` must run."""
        return self._live

    def cancel(self) -> None:
        self.end(None)

    def request_progress(self) -> None:
        self._progress_requested = True
        if self._live:
            self._source.call_when_current(self._progress)

    def receive(self, events: Sequence[KVEvent]) -> None:
        """Take a batch that everybody is shown now."""
        prefix, cursor = self._prefix, self._cursor
        seen = [e for e in events if e.key.startswith(prefix) and e.revision > cursor]
        if not self._live:
            self._add_to_buffer(seen)
            return
        self._cursor = max(cursor, events[-1].revision)
        if seen:
            self._deliver(seen)

    async def replay(self) -> None:
        """Show the history after the cursor, and what was put aside; then go live."""
        try:
            while not self._ended and self._cursor < self._until:
                until = self._until
                changes = await self._source.history(
                    self._prefix, self._cursor, until, HISTORY_PAGE
                )
                self._cursor = changes.until
                if changes.events and not self._ended:
                    self._deliver(changes.events)
        except StorageError as error:
            self.end(error)
            return
        seen, self._buffer = self._buffer, []
        self._live = True
        if seen and not self._ended:
            self._cursor = seen[-1].revision
            self._deliver(seen)
        if self._progress_requested:
            self._source.call_when_current(self._progress)

    def _add_to_buffer(self, events: Sequence[KVEvent]) -> None:
        self._buffer += events
        if len(self._buffer) > MAX_BUFFERED:
            self._buffer = []
            self._until = self._source.revision

    def end(self, error: StorageError | None) -> None:
        """End the watch and tell its sink why. Idempotent."""
        if self._ended:
            return
        self._ended = True
        self._source.remove_watch(self)
        self._sink.on_closed(error)

    @property
    def prefix(self) -> str:
        """What the keys begin with that it watches."""
        return self._prefix

    def _deliver(self, events: Sequence[KVEvent]) -> None:
        try:
            self._sink.on_events(events)
        except Exception:  # the sink broke its promise; nobody else may suffer
            _log.exception("the sink of a watch of %s failed", self._prefix)
            self.end(Unavailable("the sink of this watch failed"))

    def _progress(self) -> None:
        if self._progress_requested and not self._ended:
            self._progress_requested = False
            # All that the store has shown to all, this watch has taken.
            self._sink.on_progress(self._source.revision)


class WatchIndex:
    """The watches of one store. A change reaches those of its key without a look at all others:
    there is one for each resource, and all but one or two do not care."""

    def __init__(self) -> None:
        self._of: dict[str, set[KVWatch]] = {}

    def __iter__(self) -> Iterator[KVWatch]:
        """All of them, as they are now."""
        return iter([watch for watches in self._of.values() for watch in watches])

    def add(self, watch: KVWatch) -> None:
        """Show it what happens from now on."""
        self._of.setdefault(_folder(watch.prefix), set()).add(watch)

    def discard(self, watch: KVWatch) -> None:
        """Show it nothing any more. Idempotent."""
        folder = _folder(watch.prefix)
        watches = self._of.get(folder, set())
        watches.discard(watch)
        if not watches:
            self._of.pop(folder, None)

    def dispatch(self, events: Sequence[KVEvent]) -> None:
        """Show a batch to those that watch any of its keys."""
        found: dict[str, list[KVEvent]] = {}
        for event in events:
            key, end = event.key, 0
            while True:
                folder = key[:end]
                if folder in self._of:
                    found.setdefault(folder, []).append(event)
                end = key.find("/", end) + 1
                if not end:
                    break
        for folder, mine in found.items():
            for watch in tuple(self._of.get(folder, ())):
                watch.receive(mine)


class RecentEvents:
    """The last changes that a store has shown, for stores whose history is slow to come by: a
    watch that is but a moment behind needs none of that."""

    def __init__(self, since: Revision) -> None:
        """Changes up to and including `since` are not here."""
        self._since = since
        self._events: deque[KVEvent] = deque()
        self._bytes = 0

    def add(self, events: Sequence[KVEvent]) -> None:
        """Take the next changes, in order."""
        recent = self._events
        recent += events
        self._bytes += sum(map(_size, events))
        while len(recent) > RECENT_EVENTS or self._bytes > RECENT_BYTES:
            gone = recent.popleft()
            self._since = gone.revision
            self._bytes -= _size(gone)

    def history(self, prefix: str, after: Revision, until: Revision) -> HistoryPage | None:
        """Part of the history; None when not all of it is here."""
        if after < self._since:
            return None
        found = [e for e in self._events if after < e.revision <= until]
        return HistoryPage([e for e in found if e.key.startswith(prefix)], until)


def _size(event: KVEvent) -> int:
    return len(event.value or b"") + len(event.previous or b"")


def _folder(prefix: str) -> str:
    """The prefix up to its last slash: every key that begins with it lies in there."""
    return prefix[: prefix.rfind("/") + 1]
