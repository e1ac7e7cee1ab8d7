"""De-duplicating work queue with N workers and exponential backoff.

An item that is added twice before a worker takes it is reconciled once; an item that is added while
it is being reconciled is reconciled again afterwards. Knows no objects. Mirrors client-go's
util/workqueue.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, NamedTuple, TypeVar, cast

from kapiserver.apiserver.metrics import WorkQueueMetrics
from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.concurrency.clock import Clock, Timer

_log = logging.getLogger(__name__)

Item = TypeVar("Item", bound=Hashable)

_MAX_DOUBLINGS = 60
"""More would make a number that a float cannot hold, after many failures of an item."""


async def _do_nothing(_item: object) -> None:
    pass


class _Delay(NamedTuple):
    """The time at which a delayed item is queued, and the timer."""

    due: float
    timer: Timer
    is_regular: bool


class WorkQueue(Generic[Item]):
    """A queue and its workers, which are tasks that live while there are items.

    reconcile   handles one item; when it raises, the item is retried with exponential backoff
    workers     how many items are reconciled concurrently
    name        the name of the controller, for logs and metrics

    An item waits for `min_retry_seconds` after its first failure, twice as long after each further
    one, and for `max_retry_seconds` at most.
    """

    def __init__(
        self,
        reconcile: Callable[[Item], Awaitable[None]],
        clock: Clock,
        *,
        workers: int,
        name: str,
        metrics: WorkQueueMetrics | None = None,
        min_retry_seconds: float = 1.0,
        max_retry_seconds: float = 60.0,
    ) -> None:
        self._reconcile = reconcile
        self._clock = clock
        self._workers = workers
        self._name = name
        self._metrics = metrics or WorkQueueMetrics()
        self._min_retry_seconds = min_retry_seconds
        self._max_retry_seconds = max_retry_seconds
        self._waiting: dict[Item, float] = {}
        """When each item was added, in seconds of `time.perf_counter`."""
        self._processing: set[Item] = set()
        self._failures: dict[Item, int] = {}
        self._delayed: dict[Item, _Delay] = {}
        self._batched: set[Item] = set()
        """The items that `end_batches` queues."""
        self._tasks = BackgroundTasks[None]()
        self._stopping = False

    def add(self, item: Item) -> None:
        """Queue an item; if a worker has it now, it is reconciled once more afterwards."""
        if self._stopping:
            return
        if item not in self._waiting:
            self._waiting[item] = time.perf_counter()
            self._metrics.adds.add(self._name)
            self._metrics.depth.add(self._name)
        if len(self._tasks) < self._workers:
            # An empty context: the work does not count towards the request that added the item.
            self._tasks.start(self._run(), name=self._name, context=contextvars.Context())

    def add_after(self, item: Item, seconds: float, *, is_regular: bool = False) -> None:
        """Queue an item after a delay, or now without one. Of two delays of an item the one that
        ends first counts. A delay ends early when a worker takes the item for another reason:
        reconcile then asks for the next delay, if one is needed. `is_regular` says that the item is
        due at regular intervals, such as a heartbeat, and not for what has happened."""
        if seconds <= 0:
            self.add(item)
            return
        if self._stopping:
            return
        due, delay = self._clock.now() + seconds, self._delayed.get(item)
        if delay is None or due < delay.due:
            self._end_delay(item)
            timer = self._clock.call_later(seconds, lambda: self._add_delayed(item))
            self._delayed[item] = _Delay(due, timer, is_regular)

    def add_batched(self, item: Item, seconds: float) -> None:
        """Queue an item after a delay whose only purpose is that one reconcile covers a burst of
        changes."""
        if seconds > 0 and not self._stopping:
            self._batched.add(item)
        self.add_after(item, seconds)

    def end_batches(self) -> bool:
        """Queue the items of `add_batched` now; report whether there were some."""
        items = tuple(self._batched)
        for item in items:
            self.add(item)
        return bool(items)

    def _end_delay(self, item: Item) -> None:
        delay = self._delayed.pop(item, None)
        if delay is not None:
            delay.timer.cancel()

    def _add_delayed(self, item: Item) -> None:
        del self._delayed[item]
        self.add(item)

    @property
    def is_idle(self) -> bool:
        """Whether no item is queued or being reconciled. Items that wait for a delay or a retry do
        not count."""
        return not self._tasks

    @property
    def next_due(self) -> float | None:
        """The time at which the first item that waits for a delay or a retry is queued; None if
        none waits. Regular items do not count."""
        delays = self._delayed.values()
        return min((delay.due for delay in delays if not delay.is_regular), default=None)

    async def wait_idle(self) -> None:
        """Wait until the queue is idle."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    def clear(self) -> None:
        """Drop all queued items and their failure counts."""
        self._metrics.depth.add(self._name, -len(self._waiting))
        self._waiting.clear()
        self._batched.clear()
        self._failures.clear()

    async def stop(self) -> None:
        """Drop all items and cancel the workers, even in the middle of an item: a server that has
        lost leadership must not write any more, and the next leader lists everything again."""
        self._stopping = True
        self.clear()
        for item in tuple(self._delayed):
            self._end_delay(item)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._reconcile = _do_nothing  # the controller, which has the queue, is free

    async def _run(self) -> None:
        worker = cast("asyncio.Task[None]", asyncio.current_task())
        running = self._metrics.running.setdefault(self._name, {})
        while True:
            item = next((item for item in self._waiting if item not in self._processing), None)
            if item is None:
                # Here rather than in the done callback: an item added between the two would count
                # this task as a live worker, and wait for ever.
                self._tasks.discard(worker)
                return
            started = running[worker] = time.perf_counter()
            self._metrics.wait_seconds.observe(self._name, started - self._waiting.pop(item))
            self._metrics.depth.add(self._name, -1)
            self._processing.add(item)
            self._batched.discard(item)
            self._end_delay(item)
            try:
                await self._reconcile(item)
                self._failures.pop(item, None)
            except Exception as error:
                self._retry(item, error)
            finally:
                self._processing.discard(item)
                del running[worker]
                self._metrics.work_seconds.observe(self._name, time.perf_counter() - started)
            # A reconcile that only reads memory never suspends: let other tasks run.
            await asyncio.sleep(0)

    def _retry(self, item: Item, error: Exception) -> None:
        self._metrics.retries.add(self._name)
        failures = self._failures[item] = self._failures.get(item, 0) + 1
        doublings = min(failures - 1, _MAX_DOUBLINGS)
        seconds = min(self._min_retry_seconds * 2**doublings, self._max_retry_seconds)
        _log.info("%s: %s failed: %s; retrying in %g s", self._name, item, error, seconds)
        self.add_after(item, seconds)
