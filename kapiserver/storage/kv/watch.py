"""A watch of one prefix: first the history, then live events, each exactly once.

A watch has a cursor: the revision up to which its sink has received everything. While the cursor
is behind the store's revision at the start, the watch reads history page by page and buffers live
events. Then it delivers the buffer and goes live. It catches up however long a page takes and
however many writes happen meanwhile. All backends use it. Knows no database, no thread and no
connection.

    state     what happens                                          next state
    behind    `replay` delivers a page of history                   behind
              the buffer is full: `_until` moves to the present     behind
              the cursor is at `_until`: the buffer is delivered    live
    live      `receive` delivers events                             live
    either    `cancel`; the history or the sink fails               ended
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.errors import StorageError, Unavailable
from kapiserver.storage.kv.contract import EventSink, HistoryPage, KVEvent, Revision

HISTORY_PAGE = 500
"""Events in one page of history."""
MAX_BUFFERED = 4096
"""Live events buffered while catching up. Beyond that the buffer is dropped, and its events are
read from history too."""
MAX_REMEMBERED_DIRECTORIES = 4096
"""Directories whose watches `WatchIndex` remembers."""
RECENT_EVENTS = 1024
RECENT_BYTES = 1 << 20
"""Limits of `RecentEvents`: events, and bytes of their values."""

_SLASH = re.compile("/")
_log = logging.getLogger(__name__)


class WatchSource(Protocol):
    """The store that is watched, as `KVWatch` uses it."""

    @property
    def revision(self) -> Revision:
        """The revision up to which the watches have received all events."""

    async def history(
        self, prefix: str, after: Revision, until: Revision, limit: int
    ) -> HistoryPage:
        """Return about `limit` events in (after, until]. Raises Compacted, Unavailable."""

    def remove_watch(self, watch: KVWatch) -> None:
        """Stop delivering events to the watch."""

    def call_when_delivered(
        self, callback: Callable[[], None], revision: Revision | None = None
    ) -> None:
        """Call back when the watches have received every event up to a revision, or these do not
        come; None: of the writes acknowledged before this call."""


class KVWatch:
    """A running watch; made by `KV.watch`."""

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
        """Whether the watch has caught up; if not, `replay` must run."""
        return self._live

    def cancel(self) -> None:
        self.end(None)

    def request_progress(self, revision: Revision | None = None) -> None:
        if not self._live:
            self._progress_requested = True
        elif revision is not None and revision <= self._source.revision:
            self._progress()
        else:
            self._source.call_when_delivered(self._progress, revision)

    def receive(self, events: Sequence[KVEvent]) -> None:
        """Deliver or buffer a batch of live events."""
        prefix, cursor = self._prefix, self._cursor
        matching = [e for e in events if e.key.startswith(prefix) and e.revision > cursor]
        if not self._live:
            self._add_to_buffer(matching)
            return
        self._cursor = max(cursor, events[-1].revision)
        if matching:
            self._deliver(matching)

    async def replay(self) -> None:
        """Deliver the history after the cursor and the buffered events, then go live."""
        try:
            while not self._ended and self._cursor < self._until:
                until = self._until
                page = await self._source.history(self._prefix, self._cursor, until, HISTORY_PAGE)
                self._cursor = page.until
                if page.events and not self._ended:
                    self._deliver(page.events)
        except StorageError as error:
            self.end(error)
            return
        # No await from the last page to here: an event is either in the buffer or comes live.
        matching, self._buffer = self._buffer, []
        self._live = True
        if matching and not self._ended:
            self._cursor = matching[-1].revision
            self._deliver(matching)
        if self._progress_requested:
            self._source.call_when_delivered(self._progress)

    def _add_to_buffer(self, events: Sequence[KVEvent]) -> None:
        self._buffer += events
        if len(self._buffer) > MAX_BUFFERED:
            # `_until` moves too, so that `replay` reads the dropped events as history.
            self._buffer = []
            self._until = self._source.revision

    def end(self, error: StorageError | None) -> None:
        """End the watch and report the error to the sink. Idempotent."""
        if self._ended:
            return
        self._ended = True  # first: the sink may cancel the watch again
        self._source.remove_watch(self)
        self._sink.on_closed(error)

    @property
    def prefix(self) -> str:
        """The prefix of the watched keys."""
        return self._prefix

    def _deliver(self, events: Sequence[KVEvent]) -> None:
        try:
            self._sink.on_events(events)
        except Exception:  # a failing sink must not affect the other watches
            _log.exception("the sink of a watch of %s failed", self._prefix)
            self.end(Unavailable("the sink of this watch failed"))

    def _progress(self) -> None:
        if not self._ended:
            # This watch has received everything that the store has delivered.
            self._sink.on_progress(self._source.revision)


class WatchIndex:
    """The watches of one store, indexed by the directory of their prefix.

    There is one watch per resource and few match an event, so events are dispatched by directory
    instead of being offered to every watch.
    """

    def __init__(self) -> None:
        self._by_directory: dict[str, dict[KVWatch, None]] = {}
        """The watches of each directory, in the order in which they were added."""
        self._watched_above: dict[str, tuple[str, ...]] = {}
        """The directories of a key that are watched, by the last of them: many keys share it."""

    def __iter__(self) -> Iterator[KVWatch]:
        """Iterate over a copy of all watches."""
        return iter([watch for watches in self._by_directory.values() for watch in watches])

    def start(self, watch: KVWatch, tasks: BackgroundTasks[None]) -> None:
        """Dispatch events to the watch from now on, and let it catch up if it is behind."""
        self._by_directory.setdefault(_directory(watch.prefix), {})[watch] = None
        self._watched_above.clear()
        if not watch.live:
            tasks.start(watch.replay())

    def discard(self, watch: KVWatch) -> None:
        """Stop dispatching events to the watch. Idempotent."""
        directory = _directory(watch.prefix)
        watches = self._by_directory.get(directory, {})
        watches.pop(watch, None)
        if not watches:
            self._by_directory.pop(directory, None)
            self._watched_above.clear()

    def dispatch(self, events: Sequence[KVEvent]) -> None:
        """Dispatch a batch of events to the watches of their keys."""
        batches: dict[str, list[KVEvent]] = {}
        for event in events:
            last = _directory(event.key)
            watched = self._watched_above.get(last)
            if watched is None:
                watched = self._watched_directories(last)
            for directory in watched:
                batches.setdefault(directory, []).append(event)
        for directory, batch in batches.items():
            for watch in tuple(self._by_directory.get(directory, ())):
                watch.receive(batch)

    def _watched_directories(self, last: str) -> tuple[str, ...]:
        ends = [0, *(match.end() for match in _SLASH.finditer(last))]
        directories = tuple(last[:end] for end in ends if last[:end] in self._by_directory)
        if len(self._watched_above) >= MAX_REMEMBERED_DIRECTORIES:
            self._watched_above.clear()
        self._watched_above[last] = directories
        return directories


class RecentEvents:
    """The last events of a store whose history is slow to read. A watch that is only slightly
    behind is served from here."""

    def __init__(self, since: Revision) -> None:
        """Begin without events: those up to and including revision `since` are missing."""
        self._since = since
        self._events: deque[KVEvent] = deque()
        self._bytes = 0

    def add(self, events: Sequence[KVEvent]) -> None:
        """Append the next events, in order."""
        recent = self._events
        recent += events
        self._bytes += sum(map(_size, events))
        while len(recent) > RECENT_EVENTS or self._bytes > RECENT_BYTES:
            oldest = recent.popleft()
            self._since = oldest.revision
            self._bytes -= _size(oldest)

    def history(self, prefix: str, after: Revision, until: Revision) -> HistoryPage | None:
        """Return the events below `prefix` in (after, until], or None if some are missing."""
        if after < self._since:
            return None
        events = [e for e in self._events if after < e.revision <= until]
        return HistoryPage([e for e in events if e.key.startswith(prefix)], until)


def _size(event: KVEvent) -> int:
    return len(event.value or b"") + len(event.previous or b"")


def _directory(prefix: str) -> str:
    """Return the prefix up to its last slash: the directory of all its keys."""
    return prefix[: prefix.rfind("/") + 1]
