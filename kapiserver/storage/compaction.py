"""Periodic compaction, so that the history of a store does not grow without bound.

Each run compacts to the revision that was current at the run before, so history reaches back for
one to two intervals. Several servers may compact one store: compacting to a revision that is
compacted already does nothing. Mirrors the compactor of k8s.io/apiserver's etcd3 storage.
"""

from __future__ import annotations

import asyncio
import logging

from kapiserver.storage.clock import Clock, Timer
from kapiserver.storage.errors import StorageError
from kapiserver.storage.kv import KV, Revision

INTERVAL = 300.0
"""Seconds, the default of kube-apiserver's --etcd-compaction-interval."""

_log = logging.getLogger(__name__)


class Compactor:
    """Compacts one store periodically, from `start` to `stop`."""

    def __init__(self, kv: KV, clock: Clock, interval: float = INTERVAL) -> None:
        """With an interval of 0 seconds, nothing is compacted."""
        self._kv = kv
        self._clock = clock
        self._interval = interval
        self._previous_revision: Revision | None = None
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def start(self) -> None:
        """Start. Call on the store's event loop."""
        if self._interval > 0:
            self._start_run()

    def stop(self) -> None:
        """Stop. Call before the store is closed. Idempotent."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _start_run(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._compact())

    async def _compact(self) -> None:
        try:
            current = await self._kv.current_revision()
            if self._previous_revision is not None:
                await self._kv.compact(self._previous_revision)
                _log.debug("compacted history before revision %d", self._previous_revision)
            self._previous_revision = current
        except StorageError as error:
            _log.warning("compaction failed, retrying later: %s", error)
        if not self._stopped:
            self._timer = self._clock.call_later(self._interval, self._start_run)
