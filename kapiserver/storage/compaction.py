"""Forgetting history on a schedule, so that a store does not grow with what happens in it.

At each turn, what was the newest revision one interval ago becomes the oldest that can be read:
history reaches back for one to two intervals. Several servers may do this to one store; the
oldest request among them does nothing. Mirrors the compactor of k8s.io/apiserver's etcd3 storage.
"""

from __future__ import annotations

import asyncio
import logging

from kapiserver.storage.clock import Clock, Timer
from kapiserver.storage.errors import StorageError
from kapiserver.storage.kv import KV, Revision

INTERVAL = 300.0
"""Seconds, as kube-apiserver's --etcd-compaction-interval."""

_log = logging.getLogger(__name__)


class Compactor:
    """Compacts one store at intervals, from `start` to `stop`."""

    def __init__(self, kv: KV, clock: Clock, interval: float = INTERVAL) -> None:
        """An interval of 0 seconds: history is kept for ever."""
        self._kv = kv
        self._clock = clock
        self._interval = interval
        self._before: Revision | None = None
        self._timer: Timer | None = None
        self._turn: asyncio.Task[None] | None = None
        self._stopped = False

    def start(self) -> None:
        """Begin; call on the store's event loop."""
        if self._interval > 0:
            self._begin_turn()

    def stop(self) -> None:
        """End; to be called before the store is closed. Idempotent."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._turn is not None:
            self._turn.cancel()

    def _begin_turn(self) -> None:
        self._turn = asyncio.get_running_loop().create_task(self._compact())

    async def _compact(self) -> None:
        try:
            now = await self._kv.current_revision()
            if self._before is not None:
                await self._kv.compact(self._before)
                _log.debug("history before revision %d is forgotten", self._before)
            self._before = now
        except StorageError as error:
            _log.warning("history could not be compacted, will try again: %s", error)
        if not self._stopped:
            self._timer = self._clock.call_later(self._interval, self._begin_turn)
