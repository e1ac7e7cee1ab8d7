"""Turns on the event loop: of all long work, one piece runs in each round of the loop.

Long work yields every few milliseconds (`time_slice.py`). If each of twenty lists ran its next
piece in every round of the loop, a small request would wait for twenty pieces each time that it
awaits something. So a piece waits for its turn here: one begins in each round, and users take
turns, as they do for threads (`fair_queue.py`). A user with twenty lists delays
another by one piece. While there is long work, threads get the interpreter's lock sooner
(`switch_interval.py`), above all the one that writes to SQLite.
"""

from __future__ import annotations

import asyncio
import threading

from kapiserver.storage.concurrency.fair_queue import FairQueue
from kapiserver.storage.concurrency.requester import REQUESTER
from kapiserver.storage.concurrency.switch_interval import SWITCH_OFTEN


class _Turns(threading.local):
    """The work that waits for a turn on the event loop of this thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_active = False
        """Whether `_start_next` runs in the next round."""

    def add(self, loop: asyncio.AbstractEventLoop, user: str, turn: asyncio.Future[None]) -> None:
        """Let a piece of a user's work wait for its turn."""
        if self._loop is not loop:  # work of an earlier loop of the thread has ended
            self._end()
            self._loop = loop
            self._queue: FairQueue[asyncio.Future[None]] = FairQueue(
                limit=0, limit_per_user=0, running_per_user=1
            )
        self._queue.add(user, turn, limited=False)
        if not self._is_active:
            self._is_active = True
            SWITCH_OFTEN.begin()
            loop.call_soon(self._start_next)

    def _start_next(self) -> None:
        """Let the next piece run, and another one in the next round."""
        while (started := self._queue.start_next()) is not None:
            user, turn = started
            self._queue.finish(user)
            if not turn.done():
                turn.set_result(None)
                assert self._loop is not None
                self._loop.call_soon(self._start_next)
                return
        self._end()

    def _end(self) -> None:
        if self._is_active:
            self._is_active = False
            SWITCH_OFTEN.end()


_turns = _Turns()


async def next_turn() -> None:
    """Let other tasks run, and return when it is the turn of the running task's user."""
    loop = asyncio.get_running_loop()
    turn = loop.create_future()
    _turns.add(loop, REQUESTER.get().user, turn)
    await turn
