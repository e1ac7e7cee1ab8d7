"""The plans of an exploration: run by one or more runners, judged in their order.

First the operator is restarted before each step that has a checkpoint. Where that is not a fault, a
later plan may begin with that step, from the state that a plain run had there, instead of
repeating the workload. A plan that fails so is run again from the beginning: it counts if it fails
there, too, alone or together with the restart.

Plans are judged in their order, whoever runs them, so that a report depends on the seed, and not on
which runner was faster.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from zlib import crc32

from msgspec import Struct, structs

from kapiserver.exploring.findings import Exploration, Finding, Options, Progress
from kapiserver.exploring.history import History
from kapiserver.exploring.judging.causes import events_before
from kapiserver.exploring.judging.fault import Fault
from kapiserver.exploring.judging.oracles import Reference, Run, judge
from kapiserver.exploring.judging.states import Expectation
from kapiserver.exploring.planning.pairs import make_pairs
from kapiserver.exploring.planning.planner import Facts
from kapiserver.exploring.planning.plans import PLAIN, Injection, Plan, step_point
from kapiserver.exploring.planning.reduction import Certainty, reduce_plan, repeat
from kapiserver.exploring.planning.variations import variation_of, varied_steps
from kapiserver.exploring.runner import PlanRunner
from kapiserver.exploring.running.assignment import Assignment, Pace

LONG_PATIENCE = 6.0
"""Seconds for which the end of a run that repeats a failing plan waits for the expected state, so
that a slow machine is not a fault."""


class Lessons(Struct, frozen=True, kw_only=True):
    """What the plain runs teach.

    plans       the plans that their history suggests
    runs        how many there were
    """

    plans: Sequence[Plan]
    reference: Reference
    facts: Facts
    pace: Pace
    runs: int


class _Failure(Struct, frozen=True):
    """A run that failed, and the file of its recording, if there is one."""

    plan: Plan
    faults: Sequence[Fault]
    history: History
    recording: Path | None = None


class _Performance(Struct, frozen=True):
    """The run of a plan.

    history     None if the server refuses what the plan does, or its points did not come
    fresh       the state of a fresh installation of what the plan varies
    """

    history: History | None
    fresh: Expectation | None = None


class _Turns:
    """Lets those who have numbers go on in the order of the numbers."""

    def __init__(self) -> None:
        self._next = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def take(self, number: int) -> AsyncIterator[None]:
        """Wait until all lower numbers have had their turn."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._next == number)
        yield
        async with self._changed:
            self._next += 1
            self._changed.notify_all()


class Work:
    """What is left to run, and what was found."""

    def __init__(
        self,
        lessons: Lessons,
        options: Options,
        runners: Sequence[PlanRunner],
        result: Exploration,
    ) -> None:
        self._lessons = lessons
        self._options = options
        self._reference = lessons.reference
        self._pace = lessons.pace
        self._runners = runners
        self._result = result
        self.on_progress: Callable[[Progress], None] = lambda _: None
        """Called after each plan."""
        self._deadline = time.monotonic() + options.seconds
        self._known_signatures: set[object] = set()
        """Signatures of the faults that were repeated."""
        self._plain_faults: set[object] = set()
        """Signatures of the faults of the plain runs, which no plan shows again."""
        self._first_steps: set[int] = set()
        """Steps with which a run may begin: a restart of the operator is not a fault there."""
        self._fresh: dict[str, Expectation | None] = {}
        """The states of fresh installations, by the texts of variations."""
        shared = frozenset.intersection(*(frozenset(item.checkpoints) for item in runners))
        self._restarts = () if options.only else [_restart(step) for step in sorted(shared)]
        total = len(self._restarts) + len(lessons.plans)
        self._total = total if options.plans is None else min(total, options.plans)

    @property
    def left(self) -> int:
        """Plans with one injection that were not run."""
        return max(0, self._total - self._result.done)

    def judge_plain_run(self, history: History) -> None:
        """Record what is wrong without a plan."""
        faults = judge(self._run_to_judge(PLAIN, history))
        self._plain_faults = {fault.signature for fault in faults}
        if faults:
            runs = self._lessons.runs
            self._add(_Failure(PLAIN, faults, history), Certainty(runs, runs))

    def _run_to_judge(self, plan: Plan, history: History, fresh: Expectation | None = None) -> Run:
        return Run(
            plan=plan,
            history=history,
            fresh=fresh,
            reference=self._reference,
            invariants=self._options.invariants,
        )

    async def run(self) -> None:
        """Run plans until there are none, or the time is over. Raises OSError, ValueError."""
        limit = self._options.plans
        restarts = self._restarts[:limit]
        await self._run_all(restarts)
        pairs = () if self._options.only else make_pairs(self._lessons.plans)
        rest = None if limit is None else limit - len(restarts)
        await self._run_all(islice(_chained(self._lessons.plans, pairs), rest))
        self._result.left = self.left

    async def _run_all(self, plans: Iterable[Plan]) -> None:
        """Run plans in all runners."""
        numbered, turns = enumerate(plans), _Turns()
        first, *more_runs = [self._run_some(runner, numbered, turns) for runner in self._runners]
        if not more_runs:  # a marked test has no event loop
            return await first
        try:
            async with asyncio.TaskGroup() as group:
                for run in (first, *more_runs):
                    group.create_task(run)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _run_some(
        self, runner: PlanRunner, plans: Iterator[tuple[int, Plan]], turns: _Turns
    ) -> None:
        while time.monotonic() < self._deadline:
            number, plan = next(plans, (0, None))
            if plan is None:
                return
            first_step = self._first_step(plan)
            performance = await self._perform(runner, plan, self._pace, first_step)
            async with turns.take(number):
                self._result.done += 1
                if performance.history is None:
                    self._result.unreached += 1
                else:
                    await self._judge(runner, plan, performance, first_step)
                self._report_progress()

    def _report_progress(self) -> None:
        result = self._result
        self.on_progress(Progress(done=result.done, left=self.left, failed=result.failed))

    def _first_step(self, plan: Plan) -> int:
        """Return the step with which the run of a plan begins."""
        if plan in self._restarts:
            return plan.injections[0].point.number
        step = self._lessons.facts.first_step(plan)
        return max((item for item in self._first_steps if item <= step), default=0)

    async def _perform(
        self, runner: PlanRunner, plan: Plan, pace: Pace, first_step: int = 0
    ) -> _Performance:
        expectation = self._reference.expectation
        assignment = Assignment(
            # A run from a checkpoint begins with a restart anyway.
            plan=PLAIN if first_step and plan in self._restarts else plan,
            pace=pace,
            names=expectation.names,
            expected=expectation,
            tracebacks=self._reference.tracebacks,
            first_step=first_step,
        )
        fresh = None
        variation = variation_of(plan)
        # A test cannot have another object, and of an invalid value only the way back counts.
        if variation is not None and variation.is_valid and runner.steps:
            text = variation.to_text()
            if text not in self._fresh:
                changing = self._lessons.facts.steps_changing(variation.object)
                obj = expectation.objects[variation.object]
                steps = varied_steps(runner.steps, changing, variation, obj)
                history = await runner.run(Assignment(plan=PLAIN, pace=pace, steps=steps))
                if history.refused:
                    return _Performance(None)
                counts = not history.unreached and history.settled
                self._fresh[text] = expectation.with_objects(history.final) if counts else None
            fresh = self._fresh[text]
        history = await runner.run(structs.replace(assignment, varied=fresh))
        return _Performance(None if runner.is_pending else history, fresh)

    async def _judge(
        self, runner: PlanRunner, plan: Plan, performance: _Performance, first_step: int
    ) -> None:
        """Judge a run. A plan that fails in a new way is reduced and repeated."""
        failure = await self._failure(runner, plan, performance)
        is_restart = plan in self._restarts
        if failure is None:
            if is_restart:
                self._first_steps.add(first_step)
            return
        certainty = Certainty(1, 1)
        if not self._is_known(failure.faults):
            repeated = await self._repeat(runner, failure, 0 if is_restart else first_step)
            if repeated is None:
                self._result.unrepeated += 1
                return
            failure, certainty = repeated
        self._add(failure, certainty)

    async def _repeat(
        self, runner: PlanRunner, failure: _Failure, first_step: int
    ) -> tuple[_Failure, Certainty] | None:
        """Run a plan that has failed again, from the beginning, with the restart with which its run
        began and without; return None if it does not fail again."""
        patience = max(LONG_PATIENCE, self._pace.patience)
        pace = structs.replace(self._pace, patience=patience)
        failures = [failure]

        async def fails(other: Plan) -> bool:
            performance = await self._perform(runner, other, pace)
            again = await self._failure(runner, other, performance)
            failures.extend([again] if again is not None else [])
            return again is not None

        restart = _restart(first_step).injections if first_step else ()
        plan = await reduce_plan(Plan((*restart, *failure.plan.injections)), fails)
        certainty = await repeat(plan, fails)
        return None if certainty.failed == 1 else (failures[-1], certainty)

    async def _failure(
        self, runner: PlanRunner, plan: Plan, performance: _Performance
    ) -> _Failure | None:
        """Return what is wrong with a run, and save its recording; None if nothing is wrong, or if
        the points of the plan did not come."""
        if performance.history is None:
            return None
        faults = [
            fault
            for fault in judge(self._run_to_judge(plan, performance.history, performance.fresh))
            if fault.signature not in self._plain_faults
        ]
        if not faults:
            return None
        recording = None
        if self._options.recordings is not None:
            text = plan.to_text()
            recording = self._options.recordings / f"plan-{crc32(text.encode()):08x}.json.gz"
            await runner.record(recording, text)
        return _Failure(plan, faults, performance.history, recording)

    def _is_known(self, faults: Iterable[Fault]) -> bool:
        """Whether plans that were repeated have failed in the same ways."""
        return all(fault.signature in self._known_signatures for fault in faults)

    def _add(self, failure: _Failure, certainty: Certainty) -> None:
        self._known_signatures.update(fault.signature for fault in failure.faults)
        self._result.findings.append(
            Finding(
                plan=failure.plan,
                faults=failure.faults,
                events=events_before(failure.history, failure.faults[0].position),
                certainty=certainty,
                recording=failure.recording,
            )
        )


def _restart(step: int) -> Plan:
    """Return the plan that restarts the operator before a step."""
    return Plan((Injection("crash-idle", step_point(step)),))


def _chained(plans: Sequence[Plan], pairs: Iterable[Plan]) -> Iterator[Plan]:
    yield from plans
    yield from pairs
