"""Waits until an operator has settled: nothing is left to do for it at this time of the clock.

Then no request of it is open, no data is on its way to it, and its programs wait; only such time
counts. The plain runs show how long the operator may wait before it goes on.
"""

from __future__ import annotations

import asyncio

from kapiserver.exploring.judging.loops import MAX_SAME_WRITES, endless_loops
from kapiserver.exploring.judging.oracles import tracebacks
from kapiserver.exploring.running.assignment import Pace
from kapiserver.exploring.running.injecting.injector import Injector
from kapiserver.exploring.running.network import is_in_flight
from kapiserver.exploring.running.operators.instances import POLL_SECONDS, Instances
from kapiserver.exploring.running.tracer import Tracer
from kapiserver.testing.server import TestServer

START_REST_SECONDS = 0.25
"""Time for which an instance that has just started must rest: client-go looks each 100 ms whether
its caches are filled, and does nothing before."""
SHORT_REST_SECONDS = 0.01
"""Time in which an operator that has got an event is seen to work."""
FAILED_SECONDS = 3.0
"""Time in which an operator must settle if it has logged an error of its program."""
BUSY_SECONDS = 10.0
"""Real time without activity after which an operator has settled although it computes."""


class Settling:
    """Waits for the operator of one server; `begin` begins a run."""

    def __init__(
        self, server: TestServer, tracer: Tracer, instances: Instances, injector: Injector
    ) -> None:
        self._server = server
        self._tracer = tracer
        self._instances = instances
        self._injector = injector
        self.begin(Pace())

    def begin(self, pace: Pace, known_errors: frozenset[str] = frozenset()) -> None:
        """Begin a run with a pace. Plain runs have these errors of the program, too."""
        self._pace = pace
        self._known_errors = known_errors
        self._settled_at = -1
        """The count of activities when the operator had settled the last time."""
        self.is_endless = False
        """Whether it is certain that the operator will not settle; the run ends then."""
        self._next_look = 2 * MAX_SAME_WRITES
        """The number of writes of the operator at which to look for endless loops."""

    @property
    def has_settled(self) -> bool:
        """Whether nothing has happened since the operator had settled."""
        return self._settled_at == self._tracer.activity

    @property
    def has_program_error(self) -> bool:
        """Whether the operator has logged an error of its program. Then the run has failed,
        whatever the operator does later."""
        return not self._known_errors.issuperset(tracebacks(self._instances.output))

    async def settle(self) -> bool:
        """Return True when nothing is left to do, False at the time limit, and as soon as it is
        certain that the operator will not settle."""
        if self.has_settled and not self._has_work():
            return True
        loop = asyncio.get_running_loop()
        start = loop.time()
        while not self.look_for_loops():
            seconds = loop.time() - start
            if seconds > self._pace.settle or (seconds > FAILED_SECONDS and self.has_program_error):
                self.is_endless = True
                return False
            if self._has_work() or self._is_active():
                await asyncio.sleep(POLL_SECONDS)
                continue
            activity = self._tracer.activity
            # The server may have an event for the operator that it has not sent yet.
            await self._server.settle_async()
            is_quiet = await self.rest_until(self._quiet_seconds())
            is_quiet = is_quiet and self._tracer.activity == activity
            if is_quiet and not await self._injector.on_quiet():
                self._settled_at = activity
                self._instances.has_new = False
                return True
        return False

    def _quiet_seconds(self) -> float:
        """Return for how long the operator must have rested to have settled."""
        quiet = max(self._pace.quiet, self._tracer.rested + SHORT_REST_SECONDS)
        return max(quiet, START_REST_SECONDS) if self._instances.has_new else quiet

    def look_for_loops(self) -> bool:
        """Report whether the operator is in an endless loop, or the record of the run is full."""
        if self._tracer.operator_writes >= self._next_look and not self.is_endless:
            self._next_look = self._tracer.operator_writes * 3 // 2
            self.is_endless = bool(endless_loops(self._tracer.history()))
        return self.is_endless or self._tracer.is_full

    async def rest_until(self, seconds: float) -> bool:
        """Return True when the operator has rested for these seconds since the last activity, and
        False when it works, or work for it is on its way."""
        tracer, activity = self._tracer, self._tracer.activity
        if self._has_work() or self._has_data_in_flight():
            await asyncio.sleep(POLL_SECONDS)
            return False
        while tracer.rested < seconds:
            if self._has_work():
                await asyncio.sleep(POLL_SECONDS)
                return False
            passed = await self._instances.rest(seconds - tracer.rested)
            if self._has_work() or tracer.activity != activity:
                return False
            tracer.rested += passed
            if self._is_idle_for(BUSY_SECONDS + seconds):
                break
        return True

    async def rest_on(self) -> float:
        """Let a settled operator rest for as long again; return for how long it has rested. If it
        goes on, return 0.0 when it has settled."""
        before = self._tracer.rested
        if not await self.rest_until(before + self._pace.quiet):
            await self.settle()
        return max(0.0, self._tracer.rested - before)

    def _is_active(self) -> bool:
        """Whether something has just happened, so that the operator may be about to work."""
        return not self._is_idle_for(POLL_SECONDS)

    def _is_idle_for(self, seconds: float) -> bool:
        """Whether nothing has happened for this many real seconds."""
        return asyncio.get_running_loop().time() - self._tracer.last_activity > seconds

    def _has_data_in_flight(self) -> bool:
        """Whether the operator has yet to receive something, or the server, and may still do so."""
        return is_in_flight() and not self._is_idle_for(BUSY_SECONDS)

    def _has_work(self) -> bool:
        """Whether work for the operator is on its way, or it waits for the server."""
        is_busy = self._tracer.open_requests or self._instances.is_changing
        return bool(is_busy) or self._injector.gates.backlog
