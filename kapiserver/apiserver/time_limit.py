"""The time limit of requests, of RPCs and of calls to webhooks, with one timer for all their tasks.

A timer of uvloop for each task, as `asyncio.timeout` sets it, would cost a twentieth of a GET and
of a webhook's call, and a tenth of an RPC (decisions 060 and 063). What takes long and happens
rarely uses `asyncio.timeout`.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from types import TracebackType


class TimeLimit:
    """Limits the time of blocks: `with limit.within(seconds): ...`.

    A task that exceeds its time is cancelled; the block then raises `error`. A task that somebody
    else cancels gets CancelledError.
    """

    def __init__(self, error: type[Exception] = TimeoutError) -> None:
        self.error = error
        self.blocks: set[_Block] = set()
        """The blocks that tasks are in."""
        self._timer: asyncio.TimerHandle | None = None

    def within(self, seconds: float) -> _Block:
        """Return a context manager that limits the time of its block."""
        return _Block(self, seconds)

    def set_timer(self, end: float) -> None:
        """Let the timer expire at `end`, on the loop's clock, or before. It is not cancelled when
        the block ends: the next one would have to set it again."""
        if self._timer is not None:
            if self._timer.when() <= end:
                return
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        # Outside the context of the request, which the timer would keep.
        self._timer = loop.call_at(end, self._cancel_expired, context=Context())

    def _cancel_expired(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for block in [block for block in self.blocks if block.end <= now]:
            block.cancel()
        if self.blocks:
            self.set_timer(min(block.end for block in self.blocks))


class _Block:
    """One block of a task. `end` is on the loop's clock."""

    __slots__ = ("_cancellations", "_has_expired", "_limit", "_seconds", "_task", "end")

    def __init__(self, limit: TimeLimit, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._has_expired = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancellations = task.cancelling()
        self.end = asyncio.get_running_loop().time() + self._seconds
        self._limit.blocks.add(self)
        self._limit.set_timer(self.end)

    def __exit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._limit.blocks.discard(self)
        if not self._has_expired:
            return
        is_own = self._task.uncancel() <= self._cancellations
        if is_own and isinstance(error, asyncio.CancelledError):
            raise self._limit.error from None

    def cancel(self) -> None:
        """Cancel the task, whose time is over."""
        self._limit.blocks.discard(self)
        self._has_expired = True
        self._task.cancel()
