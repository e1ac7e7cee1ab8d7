"""A check that a controller repeats. Knows no objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.workqueue import WorkQueue
from kapiserver.storage.concurrency.clock import Timer


class PeriodicCheck:
    """Runs a check every `seconds`. A failed check is retried with exponential backoff.

    check   checks all objects
    item    what is checked, for the log
    name    the name of the controller, for logs and metrics
    """

    def __init__(
        self,
        context: ControllerContext,
        check: Callable[[], Awaitable[None]],
        *,
        item: str,
        seconds: float,
        name: str,
    ) -> None:
        self._clock = context.server.clock
        self._item = item
        self._seconds = seconds
        self._queue: WorkQueue[str] = context.work_queue(lambda _: check(), workers=1, name=name)
        self._timer: Timer | None = None

    def start(self, delay_seconds: float = 0.0) -> None:
        """Run the first check now, or after a delay."""
        if delay_seconds:
            self._timer = self._clock.call_later(delay_seconds, self._add)
        else:
            self._add()

    async def stop(self) -> None:
        """Stop, and cancel the check in progress."""
        if self._timer is not None:
            self._timer.cancel()
        await self._queue.stop()

    def _add(self) -> None:
        self._queue.add(self._item)
        self._timer = self._clock.call_later(self._seconds, self._add)
