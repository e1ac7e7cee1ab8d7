"""Rounds of the event loop: short work begins while a round has time for it.

A write takes some tenths of a millisecond before it awaits the store. If sixteen clients send one
each, all sixteen begin in the same round of the loop, and a GET that comes meanwhile waits for all
of them, twice: until it is read, and until its task runs. So writes that begin in one round share
ROUND_SECONDS. The others take turns by user, one in each round (`turns.py`), beside the long work
of lists.
"""

from __future__ import annotations

import asyncio
import threading

from kapiserver.storage.concurrency.time_slice import TimeSlice
from kapiserver.storage.concurrency.turns import Turns

ROUND_SECONDS = 0.001
"""How long writes begin in one round."""
BUSY_SECONDS = 0.0003
"""A round that takes longer had other work."""


class _Round:
    """The present round of an event loop, and the short work that waits for a later one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.turns = Turns(loop)
        self._time = TimeSlice(ROUND_SECONDS)
        self._has_begun = False
        """Whether short work has begun in this round."""

    async def join(self) -> None:
        """Return when a piece of work may begin."""
        if self.turns.has_work:
            await self.turns.wait()
        elif not self._has_begun:
            self._has_begun = True
            self._time.restart()
            self.turns.loop.call_soon(self._end)
        elif self._time.expired:
            await self.turns.wait()

    def _end(self) -> None:
        self._has_begun = False


class _Thread(threading.local):
    """The round of the event loop of this thread."""

    round: _Round | None = None


_thread = _Thread()


async def join_round() -> None:
    """Return when short work of the running task's user may begin: at once, if this round of the
    event loop has time for it."""
    loop, present = asyncio.get_running_loop(), _thread.round
    if present is None or present.turns.loop is not loop:
        present = _thread.round = _Round(loop)
    await present.join()


async def wait_while_busy(seconds: float) -> None:
    """Return when a round of the event loop is short, so that no other work is ready, or after so
    many seconds. A call that others can share waits for those whom the loop is about to begin."""
    limit = TimeSlice(seconds)
    while not limit.expired:
        present = TimeSlice(BUSY_SECONDS)
        await asyncio.sleep(0)
        if not present.expired:
            return
