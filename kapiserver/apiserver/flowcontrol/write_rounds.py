"""Rounds of writes: in which round of the event loop a write begins while others are in flight.

Sixteen writes of one user that are in one transaction get their responses in one round of the loop.
Their clients send the next ones together, and all sixteen begin in one round, which takes 7 ms.
Another user's write awaits something five times, and each time it may wait for such a round, and
for a piece of the lists that take turns meanwhile. So while several users write and long work takes
turns, one write of each user begins in a round, and the others of that user wait. A user with one
write at a time never waits.

Writes that begin together share transactions and packets: in rounds, sixteen connections of one
user write half as fast on a loop that has nothing else to do. Therefore nobody waits without long
work, or before two users have written within CONTENTION_SECONDS. Then a write begins in the next
round, so that reads that have come with it begin first. Writes that wait have seats, which bound
their number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from kapiserver.storage.concurrency.fair_queue import FairQueue
from kapiserver.storage.concurrency.turns import has_long_work

CONTENTION_SECONDS = 1.0
"""How long several users count as writing after one of them took over from another."""


class WriteRounds:
    """The writes that begin in this round of the event loop, and those that wait for later ones."""

    def __init__(
        self, now: Callable[[], float], has_long_work: Callable[[], bool] = has_long_work
    ) -> None:
        """`now` returns seconds since some moment, and only grows."""
        self._now = now
        self._has_long_work = has_long_work
        self._last_user = ""
        self._last_time = -inf
        self._contended_until = -inf
        self._queue = FairQueue[asyncio.Future[None]](limit=0, limit_per_user=0, running_per_user=1)
        """The writes that wait. One that has begun counts as running until the next round."""
        self._begun: list[str] = []
        """The users whose write has begun in this round."""

    async def join(self, user: str) -> None:
        """Return in the round in which a write of a user may begin."""
        now = self._now()
        if user != self._last_user:
            if now < self._last_time + CONTENTION_SECONDS:
                self._contended_until = now + CONTENTION_SECONDS
            self._last_user = user
        self._last_time = now
        if now >= self._contended_until or not self._has_long_work():
            await asyncio.sleep(0)
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue.add(user, turn, limited=False)
        self._begin_writes()
        await turn

    def _begin_writes(self) -> None:
        """Let a waiting write of each user begin who has begun none in this round."""
        while (started := self._queue.start_next()) is not None:
            user, turn = started
            if turn.done():  # the request was cancelled
                self._queue.finish(user)
                continue
            turn.set_result(None)
            if not self._begun:
                asyncio.get_running_loop().call_soon(self._next_round)
            self._begun.append(user)

    def _next_round(self) -> None:
        for user in self._begun:
            self._queue.finish(user)
        self._begun.clear()
        self._begin_writes()
