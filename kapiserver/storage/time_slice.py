"""Long work in turns: how long one part of it holds the event loop before others may run.

By time, as counting does not tell: the same object costs a microsecond where its bytes are at hand
and three hundred where they are made. Reads the processor's clock, not the time: nothing but who
runs first depends on it. Knows no work.
"""

from __future__ import annotations

import asyncio
from time import perf_counter

SLICE_SECONDS = 0.004
"""Of one piece of work; several may be under way at once."""


class TimeSlice:
    """One part after another of some long work."""

    __slots__ = ("_end",)

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """The next part begins."""
        self._end = perf_counter() + SLICE_SECONDS

    @property
    def expired(self) -> bool:
        """Whether it is for others to run now."""
        return perf_counter() >= self._end

    async def yield_if_expired(self) -> None:
        """Let others run if it is for them."""
        if perf_counter() >= self._end:
            await asyncio.sleep(0)
            self.restart()
