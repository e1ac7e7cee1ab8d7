"""One watch of one prefix: history first, then what happens, nothing lost or doubled.

A watch has one cursor, the revision up to which its sink has seen everything. While it is behind
its store, it reads history in steps; in the turn of the loop in which it has caught up it goes
live, and takes the batches that the store shows to all its watches. Both backends use it. Knows no
database, no thread and no connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from kapiserver.storage.errors import StorageError, Unavailable
from kapiserver.storage.kv import Event, Revision, Sink

STEP = 500
"""Changes read from history at once."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Changes:
    """Part of the history: nothing up to and including `until` is left out."""

    events: Sequence[Event]
    until: Revision


class Source(Protocol):
    """The store that is watched."""

    @property
    def revision(self) -> Revision:
        """The newest revision that the watches have been shown."""

    async def changes(self, prefix: str, after: Revision, until: Revision, limit: int) -> Changes:
        """Part of the history. Raises Compacted, Unavailable."""

    def forget(self, watch: StoreWatch) -> None:
        """Show the watch nothing any more."""

    def when_current(self, callback: Callable[[], None]) -> None:
        """Call back in a later turn of the loop, once the watches have been shown everything that
        was acknowledged before this call."""


class StoreWatch:
    """One running watch; made by a store's `watch`."""

    def __init__(self, source: Source, prefix: str, after: Revision, sink: Sink) -> None:
        self._source = source
        self._prefix = prefix
        self._cursor = after
        self._sink = sink
        self._live = after >= source.revision
        self._asked = False
        self._over = False

    @property
    def live(self) -> bool:
        """Has it caught up? If not, `replay` must run."""
        return self._live

    def cancel(self) -> None:
        self.end(None)

    def request_progress(self) -> None:
        self._asked = True
        if self._live:
            self._source.when_current(self._progress)

    def show(self, events: Sequence[Event]) -> None:
        """Take a batch that everybody is shown now."""
        if not self._live:
            return
        prefix, cursor = self._prefix, self._cursor
        seen = [e for e in events if e.key.startswith(prefix) and e.revision > cursor]
        self._cursor = max(cursor, events[-1].revision)
        if seen:
            self._deliver(seen)

    async def replay(self) -> None:
        """Show the history after the cursor, then go live."""
        try:
            while not self._over and self._cursor < self._source.revision:
                until = self._source.revision
                changes = await self._source.changes(self._prefix, self._cursor, until, STEP)
                self._cursor = changes.until
                if changes.events and not self._over:
                    self._deliver(changes.events)
        except StorageError as error:
            self.end(error)
            return
        self._live = True
        if self._asked:
            self._source.when_current(self._progress)

    def end(self, error: StorageError | None) -> None:
        """End the watch and tell its sink why. Idempotent."""
        if self._over:
            return
        self._over = True
        self._source.forget(self)
        self._sink.closed(error)

    @property
    def prefix(self) -> str:
        """What the keys begin with that it watches."""
        return self._prefix

    def _deliver(self, events: Sequence[Event]) -> None:
        try:
            self._sink.events(events)
        except Exception:  # the sink broke its promise; nobody else may suffer
            _log.exception("the sink of a watch of %s failed", self._prefix)
            self.end(Unavailable("the sink of this watch failed"))

    def _progress(self) -> None:
        if self._asked and not self._over:
            self._asked = False
            # All that the store has shown to all, this watch has taken.
            self._sink.progress(self._source.revision)


class Watches:
    """The watches of one store. A change reaches those of its key without a look at all others:
    there is one for each resource, and all but one or two do not care."""

    def __init__(self) -> None:
        self._of: dict[str, set[StoreWatch]] = {}

    def __iter__(self) -> Iterator[StoreWatch]:
        """All of them, as they are now."""
        return iter([watch for watches in self._of.values() for watch in watches])

    def add(self, watch: StoreWatch) -> None:
        """Show it what happens from now on."""
        self._of.setdefault(_folder(watch.prefix), set()).add(watch)

    def discard(self, watch: StoreWatch) -> None:
        """Show it nothing any more. Idempotent."""
        folder = _folder(watch.prefix)
        watches = self._of.get(folder, set())
        watches.discard(watch)
        if not watches:
            self._of.pop(folder, None)

    def show(self, events: Sequence[Event]) -> None:
        """Show a batch to those that watch any of its keys."""
        found: dict[str, list[Event]] = {}
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
                watch.show(mine)


def _folder(prefix: str) -> str:
    """The prefix up to its last slash: every key that begins with it lies in there."""
    return prefix[: prefix.rfind("/") + 1]
