"""Turns on the event loop: of all long work, one piece runs in each round of the loop.

Long work yields every few milliseconds (`time_slice.py`). If each of twenty lists ran its next
piece in every round of the loop, a small request would wait for twenty pieces each time that it
awaits something. So a piece waits for its turn here: one begins in each round, and users take
turns, as they do for threads (`fair_queue.py`). A user with twenty lists delays
another by one piece. Short work waits for its turn in `rounds.py`.
"""

from __future__ import annotations

import asyncio
import threading

from kapiserver.storage.concurrency.fair_queue import FairQueue
from kapiserver.storage.concurrency.requester import REQUESTER


class Turns:
    """The work of one kind that waits for a turn on an event loop.

    has_work    whether work waits, so that one piece goes on in the next round
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.has_work = False
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue(
            limit=0, limit_per_user=0, running_per_user=1
        )

    async def wait(self) -> None:
        """Return when it is the turn of the running task's user."""
        turn = self.loop.create_future()
        self._queue.add(REQUESTER.get().user, turn, limited=False)
        if not self.has_work:
            self.has_work = True
            self.loop.call_soon(self._start_next)
        await turn

    def _start_next(self) -> None:
        """Let the next piece run, and another one in the next round."""
        queue = self._queue
        while (started := queue.start_next()) is not None:
            user, turn = started
            queue.finish(user)
            if not turn.done():
                turn.set_result(None)
                break
        self.has_work = len(queue) > 0
        if self.has_work:
            self.loop.call_soon(self._start_next)


class _Thread(threading.local):
    """The turns on the event loop of this thread; those on an earlier loop are forgotten, because
    its work has ended."""

    turns: Turns | None = None


_thread = _Thread()


async def next_turn() -> None:
    """Let other tasks run, and return when it is the turn of the running task's user."""
    loop, turns = asyncio.get_running_loop(), _thread.turns
    if turns is None or turns.loop is not loop:
        turns = _thread.turns = Turns(loop)
    await turns.wait()
