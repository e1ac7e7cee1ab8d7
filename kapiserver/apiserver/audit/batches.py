"""Collects events into batches and sends these at a limited rate.

Knows no destination. Mirrors plugin/pkg/audit/buffered of k8s.io/apiserver and the token bucket of
client-go's util/flowcontrol.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from kapiserver.apiserver.audit.backend import MAX_QUEUED_BYTES
from kapiserver.apiserver.audit.event import AuditEvent
from kapiserver.storage.concurrency.clock import Clock, Timer

MAX_CONCURRENT = 10
"""Batches that are sent at a time."""


class BatchSettings(Struct, frozen=True, kw_only=True):
    """How events are collected and sent.

    buffer_size     events that may wait
    max_size        events in a batch
    max_wait        seconds until an event is sent in a batch that is not full
    qps, burst      batches a second, and at once; 0 batches a second means no limit
    """

    buffer_size: int
    max_size: int
    max_wait: float
    qps: float
    burst: int


class Batches:
    """A queue of events, and the tasks that send them.

    send    sends one batch; must not raise
    """

    def __init__(
        self,
        send: Callable[[Sequence[AuditEvent]], Awaitable[None]],
        settings: BatchSettings,
        clock: Clock,
    ) -> None:
        self._send = send
        self._settings = settings
        self._clock = clock
        self._bucket = TokenBucket(settings.qps, settings.burst, clock)
        self._waiting: deque[AuditEvent] = deque()
        self._waiting_bytes = 0
        self._due = 0
        """Waiting events that are sent without waiting for a full batch."""
        self._timer: Timer | None = None
        self._stopped = False
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, event: AuditEvent) -> bool:
        """Queue an event; return False if the queue is full or stopped."""
        if self._stopped or len(self._waiting) >= self._settings.buffer_size:
            return False
        if self._waiting_bytes + event.body_bytes > MAX_QUEUED_BYTES:
            return False
        self._waiting.append(event)
        self._waiting_bytes += event.body_bytes
        self._send_due()
        return True

    async def stop(self, seconds: float) -> None:
        """Send the queued events. Give up after `seconds`, and leave the rest in the queue."""
        self._due = len(self._waiting)
        self._send_due()
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while self._tasks and (remaining := end - loop.time()) > 0:
            await asyncio.wait(self._tasks, timeout=remaining)
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_timer(self) -> None:
        self._timer = None
        self._due = len(self._waiting)
        self._send_due()

    def _send_due(self) -> None:
        """Start to send full batches and due ones, and a timer for the other events."""
        size = self._settings.max_size
        while len(self._tasks) < MAX_CONCURRENT and (self._due > 0 or len(self._waiting) >= size):
            batch = [self._waiting.popleft() for _ in range(min(size, len(self._waiting)))]
            self._due = max(0, self._due - len(batch))
            self._waiting_bytes -= sum(event.body_bytes for event in batch)
            # An empty context: sending does not count towards the request of the event.
            task = asyncio.get_running_loop().create_task(
                self._run(batch), name="audit batch", context=contextvars.Context()
            )
            self._tasks.add(task)
            task.add_done_callback(self._on_done)
        if self._waiting and self._timer is None:
            self._timer = self._clock.call_later(self._settings.max_wait, self._on_timer)

    async def _run(self, batch: Sequence[AuditEvent]) -> None:
        try:
            await self._bucket.take()
        except asyncio.CancelledError:
            self._waiting.extendleft(reversed(batch))
            raise
        await self._send(batch)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._stopped:
            self._send_due()


class TokenBucket:
    """Limits a rate: `burst` tokens at once, `qps` new ones a second."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps = qps
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._time = clock.now()

    def reserve(self) -> float:
        """Take a token; return the seconds until it exists, 0 if it does."""
        if self._qps <= 0:
            return 0.0
        now = self._clock.now()
        elapsed = max(0.0, now - self._time)
        self._tokens = min(self._burst, self._tokens + elapsed * self._qps) - 1
        self._time = now
        return max(0.0, -self._tokens / self._qps)

    async def take(self) -> None:
        """Wait for a token; callers get tokens in the order of their calls."""
        seconds = self.reserve()
        if seconds <= 0:
            return
        over = asyncio.Event()
        timer = self._clock.call_later(seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()
