"""Time slices: long work on the event loop yields to other tasks every few milliseconds.

Slices are measured in time and not in objects: encoding an object costs one microsecond if its
bytes are cached and three hundred if not. The performance counter is used without injecting a
clock, because only the order of tasks depends on it.
"""

from __future__ import annotations

import asyncio
from time import perf_counter

SLICE_SECONDS = 0.004
"""How long one piece of work runs before it yields."""


class TimeSlice:
    """Measures the current time slice of one piece of work."""

    __slots__ = ("_end",)

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Start a new slice."""
        self._end = perf_counter() + SLICE_SECONDS

    @property
    def expired(self) -> bool:
        """Whether the slice is used up."""
        return perf_counter() >= self._end

    async def yield_if_expired(self) -> None:
        """Yield to other tasks if the slice is used up, and start a new one."""
        if perf_counter() >= self._end:
            await asyncio.sleep(0)
            self.restart()
