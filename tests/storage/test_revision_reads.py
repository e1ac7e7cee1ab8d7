"""Shared reads of the newest revision."""

from __future__ import annotations

import asyncio

import pytest

from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.errors import Unavailable
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.kv.revision_reads import RevisionReads


class _Store:
    """A store whose reads end when a test says so.

    begun   the reads that have begun
    """

    def __init__(self) -> None:
        self.begun: asyncio.Queue[asyncio.Future[Revision]] = asyncio.Queue()
        self._tasks = BackgroundTasks[None]()
        self._reads = RevisionReads(self._read, self._tasks)

    async def _read(self) -> Revision:
        read: asyncio.Future[Revision] = asyncio.get_running_loop().create_future()
        self.begun.put_nowait(read)
        return await read

    async def call(self) -> asyncio.Future[Revision]:
        """Return a caller that waits."""
        (caller,) = await self.calls(1)
        return caller

    async def calls(self, number: int) -> list[asyncio.Future[Revision]]:
        """Return callers that wait for the same read."""
        callers = [self._reads.newest() for _ in range(number)]
        await asyncio.sleep(0)
        return callers

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._reads.end(Unavailable("the store is closed"))


async def test_callers_during_a_read_share_the_next_one() -> None:
    """A read serves those that called before it began."""
    store = _Store()
    first = await store.call()
    read = await store.begun.get()
    later = await store.calls(3)
    read.set_result(Revision(5))
    assert await first == 5
    assert not any(caller.done() for caller in later)
    (await store.begun.get()).set_result(Revision(6))
    assert await asyncio.gather(*later) == [6, 6, 6]


@pytest.mark.parametrize("error", [Unavailable("no answer"), RuntimeError("a fault")])
async def test_a_failed_read(error: Exception) -> None:
    """All callers of a read get its error; the next read is another one."""
    store = _Store()
    callers = await store.calls(3)
    (await store.begun.get()).set_exception(error)
    assert await asyncio.gather(*callers, return_exceptions=True) == [error] * 3
    caller = await store.call()
    (await store.begun.get()).set_result(Revision(7))
    assert await caller == 7


async def test_a_store_that_closes() -> None:
    """Callers hear that the store is closed: of the running read, of the next one, and those that
    called a moment before."""
    running, late = _Store(), _Store()
    callers = await running.calls(2)
    await running.begun.get()
    callers += [await running.call(), await late.call()]
    for store in (running, late):
        await store.close()
    for caller in callers:
        with pytest.raises(Unavailable, match="closed"):
            await caller


async def test_a_cancelled_caller() -> None:
    """A caller that is cancelled ends, and leaves the read to the others."""
    store = _Store()
    cancelled = [await store.call()]
    read = await store.begun.get()
    caller = await store.call()
    cancelled.append(await store.call())
    for task in cancelled:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    read.set_result(Revision(5))
    (await store.begun.get()).set_result(Revision(6))
    assert await caller == 6
