"""Time slices: long work on the event loop yields to other tasks every few milliseconds, and goes
on when its turn comes (`turns.py`).

Slices are measured in time and not in objects: encoding an object costs one microsecond if its
bytes are cached and three hundred if not. The performance counter is used without injecting a
clock, because only the order of tasks depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from kapiserver.storage.concurrency.turns import next_turn

SLICE_SECONDS = 0.002
"""How long one piece of work runs before it yields."""

_unlimited_blocks = 0
"""How many blocks of `unlimited_slices` are running."""


@contextmanager
def unlimited_slices() -> Iterator[None]:
    """Let no slice of the process expire until the block ends, for test servers whose tasks must
    have the same order in each run."""
    global _unlimited_blocks
    _unlimited_blocks += 1
    try:
        yield
    finally:
        _unlimited_blocks -= 1


class TimeSlice:
    """Measures the current time slice of one piece of work, or of several in turn."""

    __slots__ = ("_end", "_seconds")

    def __init__(self, seconds: float = SLICE_SECONDS) -> None:
        self._seconds = seconds
        self.restart()

    def restart(self) -> None:
        """Start a new slice."""
        self._end = math.inf if _unlimited_blocks else perf_counter() + self._seconds

    @property
    def expired(self) -> bool:
        """Whether the slice is used up."""
        return perf_counter() >= self._end

    async def yield_if_expired(self) -> None:
        """Yield to other tasks if the slice is used up, and start a new one."""
        if perf_counter() >= self._end:
            await next_turn()
            self.restart()
