"""Callers that wait until the watches of a store have received the events up to a revision.

The events of a write of another server usually arrive within a millisecond, and then the store
calls back. If they do not come, the revision may be of a key that no watch covers, a caller may
have named a revision that does not exist yet, or the connection that delivers events may hang:
after GRACE_SECONDS the store is asked to deliver everything there is. Knows no connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec import Struct

from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.errors import StorageError
from kapiserver.storage.kv.contract import Revision

GRACE_SECONDS = 0.05
"""How long events may be on their way before the store is asked for them."""
MAX_SECONDS = 20.0
"""How long the store may take for that."""


class _Waiting(Struct, frozen=True):
    revision: Revision
    overdue: float
    call_back: Callable[[], None]


class DeliveryWaits:
    """The waiting callers of one store, in the order in which they came."""

    def __init__(
        self, tasks: BackgroundTasks[None], make_current: Callable[[], Awaitable[None]]
    ) -> None:
        """`make_current` returns when the watches have received the events of all writes that were
        acknowledged before its call, or the store has done what it can for that. Raises
        StorageError."""
        self._tasks = tasks
        self._make_current = make_current
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, revision: Revision, call_back: Callable[[], None]) -> None:
        """Call back when events up to this revision were delivered, or did not come. The caller
        then looks again."""
        overdue = self._loop.time() + GRACE_SECONDS
        self._waiting.append(_Waiting(revision, overdue, call_back))
        if self._timer is None:
            self._timer = self._loop.call_at(overdue, self._check)

    def delivered(self, revision: Revision) -> None:
        """Call back those who wait for this revision or an earlier one."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, deque()
        reached: list[_Waiting] = []
        for waiter in waiting:
            (reached if waiter.revision <= revision else self._waiting).append(waiter)
        for waiter in reached:
            waiter.call_back()

    def stop(self) -> None:
        """Call nobody any more."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        """Ask the store if a caller waits for too long, else look again when one may."""
        if not self._waiting:
            self._timer = None
        elif self._waiting[0].overdue > self._loop.time():
            self._timer = self._loop.call_at(self._waiting[0].overdue, self._check)
        else:
            self._tasks.start(self._deliver_to_all())

    async def _deliver_to_all(self) -> None:
        newest = max((waiter.revision for waiter in self._waiting), default=Revision(0))
        with suppress(StorageError, TimeoutError):
            async with asyncio.timeout(MAX_SECONDS):
                await self._make_current()
        self.delivered(newest)
        self._check()
