"""Shared reads of the newest revision, when the store is closed meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from kapiserver.storage.errors import Unavailable
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.kv.revision_reads import RevisionReads


class _Store:
    """A store whose reads never end."""

    def __init__(self) -> None:
        self.closed = False
        self._has_begun = asyncio.Event()
        self.reads = RevisionReads(self._read, self._check_open)

    async def _read(self) -> Revision:
        self._has_begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    def _check_open(self) -> None:
        if self.closed:
            raise Unavailable("the store is closed")

    async def call(self) -> tuple[asyncio.Task[Revision], asyncio.Task[Revision]]:
        """Return a caller, and the read for which it waits and which has not begun."""
        running = asyncio.create_task(self.reads.newest())
        await self._has_begun.wait()
        caller = asyncio.create_task(self.reads.newest())
        await asyncio.sleep(0)
        running.cancel()
        assert self.reads.waiting is not None
        return caller, self.reads.waiting


async def test_a_cancelled_read() -> None:
    """A caller whose read is cancelled hears that the store is closed."""
    store = _Store()
    caller, read = await store.call()
    store.closed = True
    read.cancel()
    with pytest.raises(Unavailable):
        await caller


@pytest.mark.parametrize("order", ["caller first", "read first"])
async def test_a_cancelled_caller(order: str) -> None:
    """A caller that is cancelled ends, also if its read is cancelled at the same time: a task that
    goes on after an error of the store would never end, and `close` waits for it."""
    store = _Store()
    caller, read = await store.call()
    store.closed = True
    for task in (caller, read) if order == "caller first" else (read, caller):
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert caller.cancelled()
