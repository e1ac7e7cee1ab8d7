"""A time limit that all tasks of one kind share, with one timer.

A timer of uvloop for each call, as `asyncio.timeout` sets it, would cost a tenth of an RPC and more
than a twentieth of the call of a webhook (decisions 060 and 063).
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class TimeLimit:
    """Limits the time of its block, in each task that enters it, to `seconds`.

    Raises TimeoutError in a task that exceeds it. A task enters it once at a time.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends: dict[asyncio.Task[object], float] = {}
        """The end of each task's time, by the loop's clock, in ascending order."""
        self._expired: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        end = self._ends[task] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(end, self._cancel_expired)

    def __exit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._ends.pop(task, None)
        if task in self._expired:
            self._expired.remove(task)
            if task.uncancel() <= 0 and isinstance(error, asyncio.CancelledError):
                raise TimeoutError from error

    def _cancel_expired(self) -> None:
        """Cancel the tasks whose time is over, and wait for the next."""
        loop = asyncio.get_running_loop()
        self._timer = None
        for task, end in list(self._ends.items()):
            if end > loop.time():
                self._timer = loop.call_at(end, self._cancel_expired)
                break
            del self._ends[task]
            self._expired.add(task)
            task.cancel()
