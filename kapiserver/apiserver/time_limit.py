"""The time limit of requests, of RPCs and of calls to webhooks, with one timer for all their tasks.

A timer of uvloop for each task, as `asyncio.timeout` sets it, would cost a twentieth of a GET and
of a webhook's call, and a tenth of an RPC (decisions 060 and 063). What takes long and happens
rarely uses `asyncio.timeout`.
"""

from __future__ import annotations

import asyncio
import math
from contextvars import Context
from types import TracebackType

from msgspec import Struct


class TimeLimit:
    """Limits the time of blocks: `with limit.within(seconds): ...`.

    A task that exceeds its time is cancelled; the block then raises `error`. A task that somebody
    else cancels gets CancelledError.
    """

    def __init__(self, error: type[Exception] = TimeoutError) -> None:
        self.error = error
        self.blocks: set[_Block] = set()
        """The blocks that tasks are in."""
        self.next_check = math.inf
        """When the timer expires, on the loop's clock; it is not later than the end of any block.
        It is not cancelled when a block ends, because the next block would set it again."""
        self._timer: asyncio.TimerHandle | None = None

    def within(self, seconds: float) -> _Block:
        """Return a context manager that limits the time of its block, from now on."""
        loop = asyncio.get_running_loop()  # once: each look at it asks the kernel for the process
        task = asyncio.current_task(loop)
        assert task is not None
        return _Block(self, loop.time() + seconds, task, task.cancelling())

    def check_at(self, end: float) -> None:
        """Set the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self.next_check = end
        loop = asyncio.get_running_loop()
        # Outside the context of the request, which the timer would keep.
        self._timer = loop.call_at(end, self._cancel_expired, context=Context())

    def _cancel_expired(self) -> None:
        now = asyncio.get_running_loop().time()
        for block in [block for block in self.blocks if block.end <= now]:
            block.cancel()
        self._timer, self.next_check = None, math.inf
        if self.blocks:
            self.check_at(min(block.end for block in self.blocks))


class _Block(Struct, eq=False):
    """One block of a task. `end` is on the loop's clock."""

    limit: TimeLimit
    end: float
    task: asyncio.Task[object]
    cancellations: int
    """The cancellations of the task before the block."""
    has_expired: bool = False

    def __enter__(self) -> None:
        limit = self.limit
        limit.blocks.add(self)
        if self.end < limit.next_check:
            limit.check_at(self.end)

    def __exit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.limit.blocks.discard(self)
        if self.has_expired:
            is_own = self.task.uncancel() <= self.cancellations
            if is_own and isinstance(error, asyncio.CancelledError):
                raise self.limit.error from None

    def cancel(self) -> None:
        """Cancel the task, whose time is over."""
        self.limit.blocks.discard(self)
        self.has_expired = True
        self.task.cancel()
