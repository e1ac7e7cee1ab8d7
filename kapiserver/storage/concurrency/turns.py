"""Turns on the event loop: of all long work, one piece runs in every third round of the loop.

Long work yields every few milliseconds (`time_slice.py`). If each of twenty lists ran its next
piece in every round of the loop, a small request would wait for twenty pieces each time that it
awaits something. So a piece waits for its turn here, and users take turns, as they do for threads
(`fair_queue.py`). A user with twenty lists delays another by one piece. A write awaits something
five times, so that it would wait for five pieces if one ran in each round: the two rounds after a
piece have none. If nothing else is ready, such a round takes some microseconds. While there is long
work, threads get the interpreter's lock sooner (`switch_interval.py`), above all the one that
writes to SQLite.
"""

from __future__ import annotations

import asyncio
import threading
from typing import NamedTuple

from kapiserver.storage.concurrency.fair_queue import FairQueue
from kapiserver.storage.concurrency.requester import REQUESTER
from kapiserver.storage.concurrency.switch_interval import SWITCH_OFTEN

LONG_ROUNDS = 3
"""Rounds from one piece of some milliseconds to the next piece."""


class _Piece(NamedTuple):
    """A piece of work that waits. `rounds` is how many rounds after it the next piece runs."""

    turn: asyncio.Future[None]
    rounds: int


class _Turns(threading.local):
    """The work that waits for a turn on the event loop of this thread.

    is_active   whether there is work, so that `_start_next` runs in one of the next rounds
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_active = False

    def add(self, loop: asyncio.AbstractEventLoop, user: str, piece: _Piece) -> None:
        """Let a piece of a user's work wait for its turn."""
        if self._loop is not loop:  # work of an earlier loop of the thread has ended
            self._end()
            self._loop = loop
            self._queue = FairQueue[_Piece](limit=0, limit_per_user=0, running_per_user=1)
        self._queue.add(user, piece, limited=False)
        if not self.is_active:
            self.is_active = True
            SWITCH_OFTEN.begin()
            loop.call_soon(self._start_next)

    def _start_next(self) -> None:
        """Let the next piece run in the next round, and another one some rounds after that."""
        while (started := self._queue.start_next()) is not None:
            user, piece = started
            self._queue.finish(user)
            if not piece.turn.done():
                piece.turn.set_result(None)
                self._wait(piece.rounds)
                return
        self._end()

    def _wait(self, rounds: int) -> None:
        """Let the next piece run after this many rounds."""
        assert self._loop is not None
        if rounds > 1:
            self._loop.call_soon(self._wait, rounds - 1)
        else:
            self._loop.call_soon(self._start_next)

    def _end(self) -> None:
        if self.is_active:
            self.is_active = False
            SWITCH_OFTEN.end()


_turns = _Turns()


async def next_turn(rounds: int = LONG_ROUNDS) -> None:
    """Let other tasks run, and return when it is the turn of the running task's user. After the
    piece that follows, the next one runs `rounds` rounds later: 1 if it takes less than a
    millisecond."""
    loop = asyncio.get_running_loop()
    turn = loop.create_future()
    _turns.add(loop, REQUESTER.get().user, _Piece(turn, rounds))
    await turn


def has_long_work() -> bool:
    """Return whether long work takes turns on the event loop of this thread."""
    return _turns.is_active
