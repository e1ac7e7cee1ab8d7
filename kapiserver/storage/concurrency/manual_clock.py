"""A clock that its owner moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


def _nothing() -> None:
    pass


@dataclass(slots=True)
class ManualTimer:
    """A callback with its time on a `ManualClock`."""

    at: float
    callback: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True
        self.callback = _nothing  # as a timer of asyncio, it keeps nothing in memory


@dataclass(slots=True)
class ManualClock:
    """A clock whose time a test or a program sets, for what takes a `Clock`, such as
    `ApiServer.serve`."""

    time: float = 1_700_000_000.0
    timers: list[ManualTimer] = field(default_factory=list)

    def now(self) -> float:
        return self.time

    def call_later(self, seconds: float, callback: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(self.time + seconds, callback)
        self.timers.append(timer)
        return timer

    def advance(self, seconds: float) -> None:
        """Move the time forward, and call the callbacks that fall due, in order."""
        self.time += seconds
        due = sorted((t for t in self.timers if t.at <= self.time), key=lambda t: t.at)
        self.timers = [t for t in self.timers if t.at > self.time]
        for timer in due:
            if not timer.cancelled:
                timer.callback()
