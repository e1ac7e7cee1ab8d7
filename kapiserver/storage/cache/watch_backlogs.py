"""The bytes that wait for slow watchers, limited for each watcher and for all together.

A watcher over its own limit is ended; its client reads what was written and resumes. Over the limit
of all watchers, those with the largest backlogs are aborted. Knows no resource and no HTTP.
"""

from __future__ import annotations

import logging
from typing import Protocol

from kapiserver.storage.cache.query import WatchSink

MAX_BACKLOG_BYTES = 2 << 20
"""Limit of the bytes written to a sink and not yet taken by its client."""
MAX_ALL_BACKLOGS_BYTES = 128 << 20
"""Limit of the backlogs of all watchers of a server. TLS buffers take up to twice as much."""
LAGGING_BYTES = 64 << 10
"""Smaller backlogs do not count towards the limit of all watchers: the connection may be writing
them at the moment."""

_log = logging.getLogger(__name__)


class SlowWatcher(Protocol):
    """A watcher that has a sink and can be ended.

    is_slow     set when it is ended because of its backlog
    """

    is_slow: bool

    @property
    def sink(self) -> WatchSink:
        """The sink to which its frames are written."""

    def end(self) -> None:
        """End the watch; the client receives its backlog first."""

    def abort(self) -> None:
        """End the watch and drop its backlog."""


class WatchBacklogs:
    """The backlogs of all watchers of a server."""

    def __init__(self, limit: int = MAX_ALL_BACKLOGS_BYTES) -> None:
        self._limit = limit
        self._sizes: dict[SlowWatcher, int] = {}
        self.size = 0
        """Bytes of all lagging watchers when each was last written to."""

    def write(self, watcher: SlowWatcher, frames: bytes) -> None:
        """Write live frames to a watcher, and end it if its backlog was too large before. If many
        others are slow, too, its backlog is dropped."""
        backlog = watcher.sink.write(frames)
        # The frames count too: one batch of events may be large, and goes to every watcher.
        if backlog <= LAGGING_BYTES:
            if watcher in self._sizes:
                self.discard(watcher)
        elif backlog - len(frames) <= MAX_BACKLOG_BYTES:
            self.set(watcher, backlog)
        else:
            watcher.is_slow = True
            if self.size > self._limit // 4:
                watcher.abort()
            else:
                watcher.end()

    def set(self, watcher: SlowWatcher, size: int) -> None:
        """Set the backlog of a watcher that lags behind."""
        self.size += size - self._sizes.pop(watcher, 0)
        self._sizes[watcher] = size
        if self.size > self._limit:
            self._measure()
            # A quarter of the limit stays free, so that this is seldom repeated.
            self._abort_slowest(self._limit * 3 // 4)

    def discard(self, watcher: SlowWatcher) -> None:
        """Remove a watcher that has ended or caught up."""
        self.size -= self._sizes.pop(watcher, 0)

    def halve(self) -> None:
        """Abort the slowest watchers until half of all backlogs is left."""
        self._measure()
        self._abort_slowest(self.size // 2)

    def _measure(self) -> None:
        self._sizes = {watcher: watcher.sink.backlog() for watcher in self._sizes}
        self.size = sum(self._sizes.values())

    def _abort_slowest(self, target: int) -> None:
        aborted = 0
        for watcher in sorted(self._sizes, key=self._sizes.__getitem__, reverse=True):
            if self.size <= target:
                break
            watcher.is_slow = True
            watcher.abort()
            self.discard(watcher)
            aborted += 1
        if aborted:
            _log.warning("ended the %d slowest watches: their backlogs take too much", aborted)
