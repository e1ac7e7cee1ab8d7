"""Delivers the events of a store that another process serves to the watches of this server.

Knows no connection: the store receives or reads the events, in the order of their revisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.errors import StorageError
from kapiserver.storage.kv.contract import HistoryPage, KVEvent, Revision
from kapiserver.storage.kv.watch import KVWatch, RecentEvents, WatchIndex


class Delivery:
    """The watches of one store, and the events that they received last.

    revision    the revision up to which the watches have received all events
    """

    def __init__(self) -> None:
        self.revision = Revision(0)
        self._watches = WatchIndex()
        self._recent = RecentEvents(self.revision)
        self._advanced = asyncio.Event()

    def begin(self, revision: Revision) -> None:
        """Deliver the events after a revision. Watches that are open may miss earlier ones: end
        them."""
        self.revision = revision
        self.forget_recent()

    def add(self, watch: KVWatch, tasks: BackgroundTasks[None]) -> None:
        """Deliver events to the watch from now on, and let it catch up if it is behind."""
        self._watches.start(watch, tasks)

    def remove(self, watch: KVWatch) -> None:
        """Stop delivering events to the watch. Idempotent."""
        self._watches.discard(watch)

    def end_all(self, error: StorageError) -> None:
        """End all watches with an error."""
        for watch in self._watches:
            watch.end(error)

    def deliver(self, events: Sequence[KVEvent]) -> None:
        """Deliver the next events."""
        self.revision = events[-1].revision
        self._recent.add(events)
        self._watches.dispatch(events)
        self._advanced.set()
        self._advanced = asyncio.Event()

    async def wait_for(self, revision: Revision) -> None:
        """Return when all events up to a revision were delivered."""
        while self.revision < revision:
            await self._advanced.wait()

    def recent(self, prefix: str, after: Revision, until: Revision) -> HistoryPage | None:
        """Return the events below `prefix` in (after, until], or None if some are not recent."""
        return self._recent.history(prefix, after, until)

    def forget_recent(self) -> None:
        """Forget the recent events, because the store was compacted."""
        self._recent = RecentEvents(self.revision)
