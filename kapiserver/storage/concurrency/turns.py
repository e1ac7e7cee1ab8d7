"""Turns on the event loop: of all long work, one piece runs in each round of the loop.

Long work yields every few milliseconds (`time_slice.py`). If each of twenty lists ran its next
piece in every round of the loop, a small request would wait for twenty pieces each time that it
awaits something. So a piece waits for its turn here: one begins in each round, and users take
turns, as they do for threads (`fair_queue.py`). A user with twenty lists delays
another by one piece.
"""

from __future__ import annotations

import asyncio
import threading

from kapiserver.storage.concurrency.fair_queue import FairQueue
from kapiserver.storage.concurrency.requester import REQUESTER


class _Turns(threading.local):
    """The work that waits for a turn on the event loop of this thread."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Forget an earlier loop of the thread, whose work has ended."""
        self.loop = loop
        self.is_scheduled = False
        self.queue: FairQueue[asyncio.Future[None]] = FairQueue(
            limit=0, limit_per_user=0, running_per_user=1
        )

    def start_next(self) -> None:
        """Let the next piece run, and another one in the next round."""
        queue = self.queue
        while (started := queue.start_next()) is not None:
            user, turn = started
            queue.finish(user)
            if not turn.done():
                turn.set_result(None)
                break
        self.is_scheduled = len(queue) > 0
        if self.is_scheduled:
            assert self.loop is not None
            self.loop.call_soon(self.start_next)


_turns = _Turns()


async def next_turn() -> None:
    """Let other tasks run, and return when it is the turn of the running task's user."""
    loop, turns = asyncio.get_running_loop(), _turns
    if turns.loop is not loop:
        turns.begin(loop)
    turn = loop.create_future()
    turns.queue.add(REQUESTER.get().user, turn, limited=False)
    if not turns.is_scheduled:
        turns.is_scheduled = True
        loop.call_soon(turns.start_next)
    await turn
