"""Notifies waiters of activity in a server: a write, a request, a fault."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class Activity:
    """The waiters of one server; used on the server's loop."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        """Wake all waiters, in the next turn of the loop."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, deadline: float | None) -> bool:
        """Return True after the next activity, False at the deadline (time of the loop)."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.add(waiter)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await waiter
                return True
            return False
        finally:
            self._waiters.discard(waiter)

    async def wait_until(self, predicate: Callable[[], Awaitable[T]], seconds: float) -> T | None:
        """Return the first true value of a predicate, which is called again after each activity;
        None if it has none within this many real seconds."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not (value := await predicate()):
            if not await self.wait(deadline):
                return await predicate() or None
        return value
