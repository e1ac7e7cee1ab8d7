"""Time as the layers above the codecs see it: injected, so that no test sleeps.

`SystemClock` is the only place in this package that asks the machine for the time of day. A test
passes its own `Clock` and moves it by hand.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """Something that will happen, unless cancelled before."""

    def cancel(self) -> None:
        """Make it not happen. Idempotent."""


class Clock(Protocol):
    """Tells the time and calls back later, on the event loop."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the running event loop that many seconds from now."""


class SystemClock:
    """The machine's clock and the running loop's timers."""

    def now(self) -> float:
        return time.time()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)
