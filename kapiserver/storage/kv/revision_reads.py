"""Reads of the newest revision of a store that another process serves. Concurrent callers share
them. Knows no connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kapiserver.api.errors import drop_tracebacks
from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.concurrency.rounds import wait_while_busy
from kapiserver.storage.errors import StorageError, Unavailable
from kapiserver.storage.kv.contract import Revision

GATHER_SECONDS = 0.001
"""How long a read waits for more callers while the event loop is busy."""


class RevisionReads:
    """Callers that arrive during a read share the next one: the running read may be older than a
    write that they know."""

    def __init__(
        self, read: Callable[[], Awaitable[Revision]], tasks: BackgroundTasks[None]
    ) -> None:
        """`read` reads the revision; `tasks` are those that the store cancels when it closes."""
        self._read = read
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._is_running = False
        self._callers: list[asyncio.Future[Revision]] = []
        """Those that wait for a read which has not begun."""

    def newest(self) -> asyncio.Future[Revision]:
        """Return a future for the newest revision, or for Unavailable."""
        caller: asyncio.Future[Revision] = self._loop.create_future()
        self._callers.append(caller)
        if not self._is_running:
            self._is_running = True
            self._tasks.start(self._run())
        return caller

    def end(self, error: StorageError) -> None:
        """Fail all callers whose read has not begun."""
        _fail(self._callers, error)

    async def _run(self) -> None:
        """Read as long as there are callers."""
        try:
            while self._callers:
                await wait_while_busy(GATHER_SECONDS)
                callers, self._callers = self._callers, []  # later callers need another read
                await self._read_for(callers)
        finally:
            self._is_running = False

    async def _read_for(self, callers: list[asyncio.Future[Revision]]) -> None:
        try:
            revision = await self._read()
        except asyncio.CancelledError:
            _fail(callers, Unavailable("the store is closed"))
            raise
        except Exception as error:
            drop_tracebacks(error)
            _fail(callers, error)
        else:
            for caller in callers:
                if not caller.done():  # it was cancelled
                    caller.set_result(revision)


def _fail(callers: list[asyncio.Future[Revision]], error: Exception) -> None:
    for caller in callers:
        if not caller.done():
            caller.set_exception(error)
