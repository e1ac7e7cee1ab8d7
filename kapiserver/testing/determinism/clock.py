"""The clock of a test server: real time that a test freezes and advances.

Everything with a date or a time to live reads it: timestamps, ages in tables, TTLs of Events,
tokens, certificates, leases, compaction, backoff of controllers. Limits of connections do not,
because clients count them in real time: request and watch time-outs, TLS, keep-alive, webhook
calls, the Date header.
"""

from __future__ import annotations

import asyncio
import time
from bisect import insort
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from kapiserver.storage.concurrency.clock import Clock
from kapiserver.testing.durations import Duration, parse_seconds
from kapiserver.testing.subject import ServerLoop, Subject, on_server_loop, synchronous

SHORT_SECONDS = 5.0
"""While the clock is frozen, timers of at most this many seconds run in real time: batches and
first retries of controllers. Without them a frozen server would never count a quota."""
MAX_STEPS = 1000
"""Steps of one advance; timers that fall due within one step see the same time."""


class ServerTimer:
    """A callback that falls due at a time of the clock."""

    __slots__ = ("callback", "clock", "due", "handle", "seconds")

    def __init__(
        self, clock: TestClock, seconds: float, due: float, callback: Callable[[], None]
    ) -> None:
        self.clock = clock
        self.seconds = seconds
        self.due = due
        self.callback = callback
        self.handle: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        """Cancel the callback. Idempotent."""
        self.clock.discard(self)

    def disarm(self) -> None:
        """Stop waiting in real time."""
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None


class TestClock(Subject, Clock):
    """The time and the timers of one test server.

    start   the time at the start in seconds since the epoch; None: the real time, which flows. A
            clock with a start is frozen and deterministic: short timers run when the server has
            settled, not in real time
    """

    __test__ = False  # not a test class of pytest

    def __init__(
        self,
        loop: ServerLoop,
        settle: Callable[[], Awaitable[None]],
        *,
        start: float | None = None,
    ) -> None:
        super().__init__(loop)
        self._settle = settle
        """Returns when the server has done the work that is due."""
        self._start = start
        self._frozen_at = start
        self._offset = time.time() - time.monotonic()
        self._timers: list[ServerTimer] = []

    def now(self) -> float:
        """Return the time of the server in seconds since the epoch."""
        return time.monotonic() + self._offset if self._frozen_at is None else self._frozen_at

    @property
    def time(self) -> datetime:
        """The time of the server, in UTC."""
        return datetime.fromtimestamp(self.now(), UTC)

    @property
    def frozen(self) -> bool:
        """Whether the time stands still."""
        return self._frozen_at is not None

    def freeze(self) -> None:
        """Stop the time. Timers of more than SHORT_SECONDS wait for `advance` or `resume`.
        Idempotent."""
        self._server_loop.call(lambda: self._set(self.now()))

    def resume(self) -> None:
        """Let the time flow on from where it stands. Idempotent."""
        self._server_loop.call(lambda: self._set(None))

    @on_server_loop
    async def advance_async(self, duration: Duration) -> None:
        """Move the time forward, and return when the work that fell due is done.

        duration    text such as `10m`, `1h30m`, `250ms`, `7d`, seconds, or a timedelta

        Timers run in their order, and the server does what each causes before the next. Work that
        waits for a webhook or for a client may still run. Raises ValueError.
        """
        seconds = parse_seconds(duration)
        await self._settle()  # earlier work must not see the new time
        was_frozen, target = self.frozen, self.now() + seconds
        self._set(self.now())
        try:
            while self._timers and self._timers[0].due <= target:
                step = min(target, self.now() + seconds / MAX_STEPS)
                self._set_time(max(self._timers[0].due, step))
                for timer in [timer for timer in self._timers if timer.due <= self.now()]:
                    if timer in self._timers:  # no callback has cancelled it
                        self._fire(timer)
                await self._settle()
            self._set_time(target)
        finally:
            if not was_frozen:
                self._set(None)
        await self._settle()

    advance = synchronous(advance_async)

    def restart(self) -> None:
        """Begin again at the start, for a server that starts again."""
        if self._start is not None:
            self._frozen_at = self._start
            self._timers = []

    # Timers, on the server's loop.

    def call_later(self, seconds: float, callback: Callable[[], None]) -> ServerTimer:
        """Call `callback` on the server's loop after this many seconds of this clock."""
        timer = ServerTimer(self, seconds, self.now() + seconds, callback)
        insort(self._timers, timer, key=_due)
        self._arm(timer)
        return timer

    def discard(self, timer: ServerTimer) -> None:
        """Forget a timer. Idempotent."""
        timer.disarm()
        self._timers = [item for item in self._timers if item is not timer]

    def _arm(self, timer: ServerTimer) -> None:
        """Start to wait in real time, unless the timer waits for an advance."""
        timer.disarm()
        if self._frozen_at is None:
            wait = timer.due - self.now()
        elif timer.seconds <= SHORT_SECONDS and self._start is None:
            wait = timer.seconds
        else:
            return
        loop = asyncio.get_running_loop()
        timer.handle = loop.call_later(max(0.0, wait), self._fire, timer)

    def fire_short_timers(self) -> bool:
        """Call the callbacks of the short timers that a frozen, deterministic clock has now, in
        their order; report whether there were some."""
        if self._frozen_at is None or self._start is None:
            return False
        timers = [timer for timer in self._timers if timer.seconds <= SHORT_SECONDS]
        for timer in timers:
            if timer in self._timers:  # another one may have cancelled it
                self._fire(timer)
        return bool(timers)

    def _fire(self, timer: ServerTimer) -> None:
        self.discard(timer)
        timer.callback()

    def _set(self, frozen_at: float | None) -> None:
        """Freeze the time at a moment, or let it flow (None)."""
        now = self.now()
        self._frozen_at = frozen_at
        if frozen_at is None:
            self._offset = now - time.monotonic()
        for timer in self._timers:
            self._arm(timer)

    def _set_time(self, now: float) -> None:
        """Set the frozen time; timers that wait in real time go on waiting."""
        self._frozen_at = now


def _due(timer: ServerTimer) -> float:
    return timer.due
