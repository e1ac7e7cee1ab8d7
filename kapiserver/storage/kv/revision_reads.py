"""Reads of the newest revision of a store that another process serves. Concurrent callers share
them. Knows no connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kapiserver.storage.concurrency.rounds import wait_while_busy
from kapiserver.storage.kv.contract import Revision

GATHER_SECONDS = 0.001
"""How long a read waits for more callers while the event loop is busy."""


class RevisionReads:
    """Callers that arrive during a read share the next one: the running read may be older than a
    write that they know."""

    def __init__(
        self, read: Callable[[], Awaitable[Revision]], check_open: Callable[[], None]
    ) -> None:
        """`read` reads the revision; `check_open` raises Unavailable when the store is closed."""
        self._read = read
        self._check_open = check_open
        self._lock = asyncio.Lock()
        self.waiting: asyncio.Task[Revision] | None = None
        """The read that has not begun, which the store cancels when it closes."""

    async def newest(self) -> Revision:
        """Return the newest revision. Raises Unavailable."""
        self._check_open()
        if self.waiting is None:
            self.waiting = asyncio.get_running_loop().create_task(self._run())
            self.waiting.add_done_callback(_retrieve_exception)
        try:
            return await asyncio.shield(self.waiting)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is None or not caller.cancelling():
                self._check_open()  # the store was closed: the read was cancelled, not the caller
            raise

    async def _run(self) -> Revision:
        async with self._lock:
            await wait_while_busy(GATHER_SECONDS)
            self.waiting = None  # later callers need another read
            return await self._read()


def _retrieve_exception(task: asyncio.Task[Revision]) -> None:
    """Retrieve the exception, in case every waiter was cancelled."""
    if not task.cancelled():
        task.exception()
