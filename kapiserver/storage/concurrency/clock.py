"""The clock: wall time and timers, injected so that tests do not sleep.

`SystemClock` is the only place in this package that reads the wall clock. A test passes its own
`Clock` and advances it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A pending callback."""

    def cancel(self) -> None:
        """Cancel the callback. Idempotent."""


class Clock(Protocol):
    """Reads the time and schedules callbacks on the event loop."""

    def now(self) -> float:
        """Return the seconds since the epoch."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the running event loop after `seconds`."""


class MonotonicClock:
    """A clock whose time only grows, in seconds since some moment, and the running loop's timers.
    For what must not stand still while a test's clock does."""

    now = staticmethod(time.perf_counter)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)


class SystemClock:
    """The system's wall clock and the running loop's timers."""

    def now(self) -> float:
        return time.time()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)


async def wait(clock: Clock, seconds: float) -> None:
    """Wait until `seconds` of a clock have passed."""
    elapsed = asyncio.Event()
    timer = clock.call_later(seconds, elapsed.set)
    try:
        await elapsed.wait()
    finally:
        timer.cancel()
