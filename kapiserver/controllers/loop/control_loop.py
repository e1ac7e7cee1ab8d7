"""The base class of control loops: a work queue, and timers that queue items.

`Controller` of `loop/controller.py` adds the informers of the server that it runs in,
`extension/controllers/controller.py` those of any client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic

from kapiserver.apiserver.metrics import WorkQueueMetrics
from kapiserver.controllers.loop.workqueue import Item, WorkQueue
from kapiserver.storage.concurrency.clock import Clock, Timer


class _Resync(Generic[Item]):
    """Items that are queued every `seconds`; `timer` queues them next."""

    def __init__(self, seconds: float, items: Callable[[], Iterable[Item]]) -> None:
        self.seconds = seconds
        self.items = items
        self.timer: Timer | None = None


class ControlLoop(Generic[Item]):
    """A control loop whose queue holds items of one type, mostly `ObjectKey`.

    It is started once and stopped once; a new one is made to run it again.

    workers             how many items are reconciled concurrently
    min_retry_seconds   how long an item waits after its first failure; each further failure doubles
                        the time
    max_retry_seconds   how long an item waits at most
    """

    workers = 1
    min_retry_seconds = 1.0
    max_retry_seconds = 60.0

    def __init__(self, name: str, clock: Clock, metrics: WorkQueueMetrics | None = None) -> None:
        """`name` is that of logs and metrics."""
        self.name = name
        self.clock = clock
        self.queue: WorkQueue[Item] = WorkQueue(
            self._reconcile_synced,
            clock,
            workers=self.workers,
            name=name,
            metrics=metrics,
            min_retry_seconds=self.min_retry_seconds,
            max_retry_seconds=self.max_retry_seconds,
        )
        self._resyncs: list[_Resync[Item]] = []

    def set_up(self) -> None:
        """Watch resources, and queue what needs no change of an object. Called by `start`."""
        raise NotImplementedError

    async def _reconcile_synced(self, item: Item) -> None:
        """Wait until all informers are synced, and reconcile an item. When it raises, the item is
        retried with exponential backoff."""
        raise NotImplementedError

    def resync(
        self, seconds: float, items: Callable[[], Iterable[Item]], *, delay: float = 0.0
    ) -> None:
        """Queue items every `seconds` of the clock, for the first time now or after a delay.
        `items` returns them."""
        resync = _Resync(seconds, items)
        self._resyncs.append(resync)
        if delay:
            self._resync_after(delay, resync)
        else:
            self._queue_all(resync)

    def _resync_after(self, seconds: float, resync: _Resync[Item]) -> None:
        resync.timer = self.clock.call_later(seconds, lambda: self._queue_all(resync))

    def _queue_all(self, resync: _Resync[Item]) -> None:
        for item in resync.items():
            self.queue.add(item)
        self._resync_after(resync.seconds, resync)

    def start(self) -> None:
        """Begin to watch; does not wait for the work itself."""
        self.set_up()

    async def stop(self) -> None:
        """Stop, and cancel the reconciles in progress."""
        for resync in self._resyncs:
            if resync.timer is not None:
                resync.timer.cancel()
        self._resyncs.clear()
        await self.queue.stop()
