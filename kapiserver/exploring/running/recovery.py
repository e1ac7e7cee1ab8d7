"""Waits until an operator has recovered from what a plan did, as long as patience lasts.

After a refusal or a crash an operator may try again later. A run goes on when the state is the one
that a plain run had, or when the operator has rested for long without reaching it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from kapiserver.api.types import Tree
from kapiserver.exploring.history import ObjectRef
from kapiserver.exploring.judging.states import Expectation
from kapiserver.exploring.running.assignment import Pace
from kapiserver.exploring.running.injecting.injector import Injector
from kapiserver.exploring.running.operators.instances import POLL_SECONDS
from kapiserver.exploring.running.results import read_state
from kapiserver.exploring.running.retries import MAX_RETRY_SECONDS, seconds_to_retry
from kapiserver.exploring.running.settling import Settling
from kapiserver.exploring.running.tracer import Tracer
from kapiserver.exploring.steps import Wait
from kapiserver.testing.server import TestServer
from kapiserver.testing.state.memory_store import Snapshot

MAX_ATTEMPTS = 5
"""How often an operator may go on before the moment of its next attempt is no reason to wait any
more: it has failed each time."""


class _Patience:
    """How long to wait for an operator that rests.

    seconds     of rest after which the wait is over
    rested      for how long the operator has rested
    attempts    how often it went on
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.begin()

    def begin(self) -> None:
        """Begin to count again."""
        self.rested, self.attempts = 0.0, 0

    def note(self, rest: float) -> None:
        """Note that the operator has rested for this many seconds; 0.0: it went on."""
        self.rested += rest
        self.attempts += not rest

    @property
    def is_over(self) -> bool:
        """Whether the operator has rested for long enough."""
        return self.rested >= self.seconds


class Recovery:
    """Waits for the operator of one server; `begin` begins a run."""

    def __init__(
        self, server: TestServer, tracer: Tracer, settling: Settling, injector: Injector
    ) -> None:
        self._server = server
        self._tracer = tracer
        self._settling = settling
        self._injector = injector
        self.begin(Pace(), None)

    def begin(self, pace: Pace, clean: Snapshot | None) -> None:
        """Begin a run with a pace. `clean` is what the server has before the workload, which is in
        no state that a run has; None before the first run."""
        self._pace = pace
        self._clean = clean
        self._has_given_up = False
        """Whether the operator did not recover from what a plan did."""

    async def wait(self, step: Wait) -> None:
        """Wait for the condition of a step. Raises AssertionError when its time is over, or when
        the operator has rested for long without it and nothing that a plan does lasts any more."""
        # Under a plan, the operator may try again after a minute.
        seconds = step.seconds + (MAX_RETRY_SECONDS if self._pace.patience else 0.0)
        waiting = asyncio.create_task(self._wait_for(step, seconds))
        try:
            await self._rest_while(waiting, step.seconds)
            if waiting.done():
                await waiting
            else:
                await self._wait_for(step, POLL_SECONDS)
        except AssertionError as error:
            _, _, details = str(error).partition("\n")
            raise AssertionError(f"the condition was not met\n{details}") from None
        finally:
            waiting.cancel()

    async def _rest_while(self, waiting: asyncio.Task[None], seconds: float) -> None:
        """Return when a task is done, or patience is over: that of the pace, or these seconds of
        a plain run, or until the operator has tried again."""
        patience = _Patience(self._pace.patience or seconds)
        while not waiting.done() and not self._settling.look_for_loops():
            await asyncio.sleep(POLL_SECONDS)
            patience.note(await self._settling.rest_on())
            if waiting.done():
                return
            if await self._injector.on_quiet(is_blocked=True):
                patience.begin()
            if patience.is_over:
                self._extend(patience, await self._state())
                if patience.is_over:
                    return

    async def _wait_for(self, step: Wait, seconds: float) -> None:
        target = step.target
        await self._server.objects.wait_for_async(
            str(target), step.condition, namespace=target.namespace, timeout=seconds
        )

    async def wait_for_objects(
        self, expected: Iterable[ObjectRef], normalise: Callable[[ObjectRef], ObjectRef]
    ) -> None:
        """Wait until the run has created the objects that a plain run had created, if a plan has
        done something."""
        if self._has_given_up or not self._injector.has_disturbed:
            return
        references = set(map(normalise, expected))
        rested = 0.0
        while rested < self._pace.patience and not self._settling.look_for_loops():
            if set(map(normalise, self._tracer.created_objects())) == references:
                return
            rested += await self._settling.rest_on()
        self._has_given_up = True

    async def objects(self, expected: Expectation | None) -> dict[ObjectRef, Tree]:
        """Return the objects, when they are as expected, or patience is over and the operator has
        tried again. If the operator has not recovered within this time before, it gets no more."""
        patience = _Patience(0.0 if self._has_given_up else self._pace.patience)
        while True:
            objects = await self._state()
            if expected is None or not expected.differences(objects):
                return objects
            self._extend(patience, objects)
            if patience.is_over or self._settling.look_for_loops():
                return objects
            patience.note(await self._settling.rest_on())

    def _extend(self, patience: _Patience, objects: Mapping[ObjectRef, Tree]) -> None:
        """Wait until the operator has tried again, if the objects say when it will; not in a plain
        run, and not if it has logged an error of its program: whatever it does then, the run has
        failed."""
        if patience.attempts > MAX_ATTEMPTS:
            return
        if not self._pace.patience or self._settling.has_program_error:
            return
        seconds = seconds_to_retry(objects.values(), time.time())
        if seconds:
            longest = MAX_RETRY_SECONDS + self._pace.patience
            needed = min(longest, patience.rested + seconds + self._pace.patience)
            patience.seconds = max(patience.seconds, needed)

    async def _state(self) -> dict[ObjectRef, Tree]:
        assert self._clean is not None
        return await read_state(self._server, self._clean)
