"""The event loop of an operator in this process: it says when the operator waits, and skips the
time for which it would wait.

The loop is idle when no callback and no socket is ready. Its time runs as the real time does; while
it is idle, `rest` moves its time forward to the next timer. So an operator that tries again after a
minute does so at once, and a run takes no longer than its work.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar, TypeVarTuple, Unpack

from msgspec import Struct

from kapiserver.testing.loop_thread import ThreadLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Idleness(Struct, frozen=True):
    """The loop at a moment at which it was idle.

    wakes       how often sockets and timers have woken it
    skipped     seconds by which its time was moved
    executes    whether a function runs in an executor; then the time is not moved
    """

    wakes: int
    skipped: float
    executes: bool = False


class _Rest(Struct, frozen=True, eq=False):
    """A request to move the time by this many seconds at most, if `wakes` is still the same."""

    seconds: float
    wakes: int | None
    idleness: Future[Idleness]


class _Selector(selectors.DefaultSelector):
    """Counts how often sockets and timers wake the loop, and calls `on_idle` before it would wait;
    a true result ends the wait."""

    on_idle: Callable[[float | None], bool]

    def __init__(self) -> None:
        super().__init__()
        self.wakes = 0
        self.is_waiting = False
        """Whether the loop waits for sockets that receive, and for its next timer."""
        self._pipe: int | None = None
        """The file by which other threads wake the loop: asyncio registers it first."""
        self._sending: set[int] = set()
        """The files for which the loop waits to connect them, or to send what is left of data."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Register a file, as `selectors` says."""
        key = super().register(fileobj, events, data)
        if self._pipe is None:
            self._pipe = key.fd
        self._note(key)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Change for what a file is registered, as `selectors` says."""
        key = super().modify(fileobj, events, data)
        self._note(key)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Forget a file, as `selectors` says."""
        key = super().unregister(fileobj)
        self._sending.discard(key.fd)
        return key

    def _note(self, key: selectors.SelectorKey) -> None:
        if key.events & selectors.EVENT_WRITE:
            self._sending.add(key.fd)
        else:
            self._sending.discard(key.fd)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the files that are ready, as `selectors` says."""
        events = super().select(0)
        if not events and (timeout is None or timeout > 0):
            if not self._sending and self.on_idle(timeout):
                return []
            self.is_waiting = not self._sending
            events = super().select(timeout)
            self.is_waiting = False
            self.wakes += not events  # a timer ended the wait
        self.wakes += any(key.fd != self._pipe for key, _ in events)
        return events


class OperatorLoop(ThreadLoop):
    """An event loop whose time can be skipped; only `rest` and `wakes_of_wait` are for other
    threads."""

    def __init__(self) -> None:
        self._skipped = 0.0
        self._executions = 0
        """Functions that run in executors."""
        self._rests: list[_Rest] = []
        self._waker = _Selector()
        self._waker.on_idle = self._on_idle
        super().__init__(self._waker)

    def time(self) -> float:
        """Return the time of timers, in seconds."""
        return super().time() + self._skipped

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run a function in a thread; time is not moved until it returns."""
        future = super().run_in_executor(executor, func, *args)
        self._executions += 1
        future.add_done_callback(self._on_executed)
        return future

    def _on_executed(self, _: object) -> None:
        self._executions -= 1

    @property
    def wakes_of_wait(self) -> int | None:
        """How often sockets and timers have woken the loop before it began to wait; None if it does
        not wait, or if a function runs in an executor."""
        wakes = self._waker.wakes
        return wakes if self._waker.is_waiting and not self._executions else None

    def rest(self, seconds: float, wakes: int | None = None) -> Future[Idleness]:
        """Return what the loop was like when it was idle the next time. If nothing has woken it
        since `wakes`, its time is moved to its next timer, by this many seconds at most. Raises
        RuntimeError when the loop is closed."""
        rest = _Rest(seconds, wakes, Future())
        self.call_soon_threadsafe(self._rests.append, rest)
        return rest.idleness

    def _on_idle(self, timeout: float | None) -> bool:
        """Answer those who wait for the loop to be idle; report whether its time was moved."""
        if not self._rests:
            return False
        rests, self._rests = self._rests, []
        wakes = self._waker.wakes
        skipped = 0.0
        for rest in rests:
            if rest.wakes == wakes and not self._executions:
                limit = rest.seconds if timeout is None else min(rest.seconds, timeout)
                skipped = max(skipped, limit)
        self._skipped += skipped
        for rest in rests:
            if rest.idleness.set_running_or_notify_cancel():
                rest.idleness.set_result(Idleness(wakes, skipped, self._executions > 0))
        return skipped > 0
