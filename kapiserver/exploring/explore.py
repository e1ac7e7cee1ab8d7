"""Explores an operator: three plain runs, then plans until the time or the plans are over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from itertools import combinations, islice
from pathlib import Path
from typing import Protocol
from zlib import crc32

from msgspec import Struct, field, structs

from kapiserver.api.types import Tree
from kapiserver.exploring.history import History
from kapiserver.exploring.judging.causes import Event, events_before
from kapiserver.exploring.judging.invariants import Invariant
from kapiserver.exploring.judging.oracles import Fault, Reference, Run, judge, learn_reference
from kapiserver.exploring.judging.states import Expectation, learn_expectation
from kapiserver.exploring.planning.planner import Choice, make_plans
from kapiserver.exploring.planning.plans import PLAIN, Plan
from kapiserver.exploring.planning.reduction import Certainty, reduce_plan, repeat
from kapiserver.exploring.planning.variations import make_variations, variation_of, varied_steps
from kapiserver.exploring.running.session import Assignment, Pace, Session, Setup, open_session
from kapiserver.exploring.steps import Step
from kapiserver.testing.state.manifests import read_manifests

PLAIN_RUNS = 3
MIN_QUIET, MAX_QUIET = 0.15, 2.0
"""Bounds of the time without activity after which an operator has settled, in seconds."""
PATIENCE = 2.0
"""Seconds for which the end of a run waits for the expected state."""
LONG_PATIENCE = 6.0
"""The same for a run that repeats a failing plan, so that a slow machine is no fault."""
MAX_PAIRS = 1000
"""Plans with two injections, when all plans with one are done."""


class PlanRunner(Protocol):
    """What runs plans one after the other: a session, or a test with the mark kube_explore."""

    @property
    def steps(self) -> Sequence[Step]:
        """The steps of the workload."""

    @property
    def is_pending(self) -> bool:
        """Whether the points of the last plan did not come."""

    async def run(self, assignment: Assignment) -> History:
        """Run the workload under a plan and return what happened."""

    def record(self, path: Path, name: str) -> None:
        """Write a recording of the last run. Raises OSError."""


class Options(Struct, frozen=True, kw_only=True):
    """The limits of an exploration.

    seconds     how long plans are started after the plain runs
    plans       how many plans are run at most; None: all
    sessions    how many servers run plans at the same time
    vary        whether plans change properties of custom resources, too
    only        the plans to run in place of those of the planner
    recordings  the folder for recordings of failing plans
    """

    seconds: float = 60.0
    plans: int | None = None
    seed: int = 0
    sessions: int = 1
    vary: bool = False
    only: Sequence[Plan] = ()
    invariants: Sequence[Invariant] = ()
    recordings: Path | None = None


class Progress(Struct, frozen=True, kw_only=True):
    """How far an exploration is."""

    done: int
    left: int
    failed: int


class Finding(Struct, frozen=True, kw_only=True):
    """A plan that failed.

    events      the events before the gravest fault
    recording   the file of the recording, or None
    """

    plan: Plan
    faults: Sequence[Fault]
    events: Sequence[Event]
    certainty: Certainty
    recording: Path | None = None


class Exploration(Struct, kw_only=True):
    """The result.

    problem     why the workload does not work without faults, or ""
    left        plans that were not run
    unreached   plans whose points did not come
    unrepeated  plans that failed once, and did not fail when they were repeated
    """

    problem: str = ""
    findings: list[Finding] = field(default_factory=list)
    done: int = 0
    left: int = 0
    unreached: int = 0
    unrepeated: int = 0


async def explore(
    setup: Setup, options: Options, on_progress: Callable[[Progress], None] = lambda _: None
) -> Exploration:
    """Explore an operator. Raises OSError, ValueError, StatusError for a setup that cannot work."""
    result = Exploration()
    async with AsyncExitStack() as stack:
        opening = [stack.enter_async_context(open_session(setup)) for _ in range(options.sessions)]
        sessions = [await session for session in opening]
        histories = await _plain_runs(sessions)
        result.problem = problem_of(histories)
        if result.problem:
            return result
        gap = max(session.tracer.longest_gap for session in sessions)
        work = plan_work(setup, options, histories, gap, result)
        work.on_progress = on_progress
        async with asyncio.TaskGroup() as group:
            for session in sessions:
                group.create_task(work.run(session))
        result.left = work.left
    return result


def plan_work(
    setup: Setup,
    options: Options,
    histories: Sequence[History],
    longest_gap: float,
    result: Exploration,
) -> Work:
    """Return the plans that the histories of plain runs suggest, with what is wrong in these runs
    in the result. `longest_gap` is how long an operator was quiet while it worked, in seconds.
    Raises OSError, ValueError."""
    expectation = learn_expectation(histories)
    definitions = _definitions(setup, histories[0]) if options.vary else ()
    choice = Choice(
        variations=make_variations(definitions, histories[0]),
        seed=options.seed,
        stale_reads=setup.stale_reads,
        has_earlier_version=setup.earlier_version is not None,
    )
    plans = list(options.only) or make_plans(histories[0], expectation.names, choice)
    reference = learn_reference(histories, expectation)
    work = Work(plans, options, reference, _learned_pace(histories[0], longest_gap), result)
    work.judge_plain_run(histories[0])
    return work


def _definitions(setup: Setup, history: History) -> list[Tree]:
    """Return the CustomResourceDefinitions that an administrator installs, and those that are there
    at the end of a plain run. Raises OSError, ValueError."""
    objects = [*read_manifests(setup.sources), *history.final.values()]
    return [obj for obj in objects if obj["kind"] == "CustomResourceDefinition"]


async def _plain_runs(sessions: Sequence[Session]) -> list[History]:
    """Run the workload as it is; return the histories."""
    histories: list[History] = []
    while len(histories) < PLAIN_RUNS and not problem_of(histories):
        rest = sessions[: PLAIN_RUNS - len(histories)]
        histories += await asyncio.gather(
            *(session.run(Assignment(plan=PLAIN, pace=Pace())) for session in rest)
        )
    return histories


def _learned_pace(history: History, longest_gap: float) -> Pace:
    """Return the pace of an operator that has been quiet for so many seconds while it worked."""
    quiet = min(MAX_QUIET, max(MIN_QUIET, 2 * longest_gap))
    first_step = next(mark.position for mark in history.marks if mark.step == 0)
    watches = sum(watch.position < first_step for watch in history.watches)
    return Pace(quiet=quiet, watches=watches, patience=PATIENCE)


def problem_of(histories: Sequence[History]) -> str:
    """Return why plain runs are no reference, or ""."""
    for history in histories:
        output = "\n".join(history.output.splitlines()[-15:])
        if history.exits:
            return f"the operator exited with status {history.exits[0].status}:\n{output}"
        if not any(request.instance for request in history.requests):
            return f"the operator sent no request:\n{output}"
        if history.unreached:
            logged = f"\nthe operator wrote:\n{output}" if output else ""
            return f"{history.unreached}{logged}"
        if not history.settled:
            return "the operator does not settle"
    return ""


class _Failure(Struct, frozen=True):
    """A run that failed."""

    plan: Plan
    faults: Sequence[Fault]
    history: History
    recording: Path | None = None


class _Performance(Struct, frozen=True):
    """The run of a plan.

    history     None if the server refuses what the plan does
    fresh       the state of a fresh installation of what the plan varies
    """

    history: History | None
    fresh: Expectation | None = None


class Work:
    """The plans that sessions take one after the other, and what they find."""

    def __init__(
        self,
        plans: Sequence[Plan],
        options: Options,
        reference: Reference,
        pace: Pace,
        result: Exploration,
    ) -> None:
        self._options = options
        self._reference = reference
        self._pace = pace
        self._result = result
        self.on_progress: Callable[[Progress], None] = lambda _: None
        """Called after each plan."""
        self._deadline = time.monotonic() + options.seconds
        self._known: set[object] = set()
        """Signatures of the faults that were repeated."""
        pairs = () if options.only else _pairs(plans)
        self._plans = islice(_chained(plans, pairs), options.plans)
        limit = len(plans) if options.plans is None else min(len(plans), options.plans)
        self._total = limit

    @property
    def left(self) -> int:
        """Plans with one injection that were not run."""
        return max(0, self._total - self._result.done)

    def judge_plain_run(self, history: History) -> None:
        """Record what is wrong without a plan."""
        faults = judge(self._run(PLAIN, history))
        if faults:
            self._add(_Failure(PLAIN, faults, history), Certainty(PLAIN_RUNS, PLAIN_RUNS))

    def _run(self, plan: Plan, history: History, fresh: Expectation | None = None) -> Run:
        return Run(
            plan=plan,
            history=history,
            fresh=fresh,
            reference=self._reference,
            invariants=self._options.invariants,
        )

    async def run(self, session: PlanRunner) -> None:
        """Run plans until there are none, or the time is over."""
        while time.monotonic() < self._deadline:
            plan = next(self._plans, None)
            if plan is None:
                return
            performance = await self._perform(session, plan, self._pace)
            self._result.done += 1
            if performance.history is None or session.is_pending:
                self._result.unreached += 1
            else:
                await self._judge(session, plan, performance)
            self._report_progress()

    def _report_progress(self) -> None:
        result = self._result
        self.on_progress(Progress(done=result.done, left=self.left, failed=len(result.findings)))

    async def _perform(self, session: PlanRunner, plan: Plan, pace: Pace) -> _Performance:
        expectation = self._reference.expectation
        assignment = Assignment(plan=plan, pace=pace, names=expectation.names, expected=expectation)
        variation = variation_of(plan)
        if variation is None or not session.steps:  # a test cannot be run with another object
            return _Performance(await session.run(assignment))
        obj = expectation.objects[variation.object]
        steps = varied_steps(session.steps, variation, obj)
        fresh = await session.run(Assignment(plan=PLAIN, pace=pace, steps=steps))
        if fresh.refused:
            return _Performance(None)
        counts = variation.is_valid and not fresh.unreached and fresh.settled
        varied = expectation.with_objects(fresh.final) if counts else None
        return _Performance(await session.run(structs.replace(assignment, varied=varied)), varied)

    async def _judge(self, session: PlanRunner, plan: Plan, performance: _Performance) -> None:
        """Judge a run. A plan that fails in a new way is reduced and repeated."""
        failure = self._failure(session, plan, performance)
        if failure is None:
            return
        certainty = Certainty(1, 1)
        if not self._is_known(failure.faults):
            pace = Pace(quiet=self._pace.quiet, watches=self._pace.watches, patience=LONG_PATIENCE)
            failures = [failure]

            async def fails(other: Plan) -> bool:
                again = await self._perform(session, other, pace)
                repeated_failure = self._failure(session, other, again)
                failures.extend([repeated_failure] if repeated_failure is not None else [])
                return repeated_failure is not None

            plan = await reduce_plan(plan, fails)
            certainty = await repeat(plan, fails)
            if certainty.failed == 1:
                self._result.unrepeated += 1
                return
            failure = failures[-1]
        self._add(failure, certainty)

    def _failure(
        self, session: PlanRunner, plan: Plan, performance: _Performance
    ) -> _Failure | None:
        """Return what is wrong with a run, and save its recording; None if nothing is wrong, or if
        the points of the plan did not come."""
        history = performance.history
        if history is None or session.is_pending:
            return None
        faults = judge(self._run(plan, history, performance.fresh))
        if not faults:
            return None
        recording = None
        if self._options.recordings is not None:
            name = f"plan-{crc32(plan.to_text().encode()):08x}.json.gz"
            recording = self._options.recordings / name
            session.record(recording, plan.to_text())
        return _Failure(plan, faults, history, recording)

    def _is_known(self, faults: Iterable[Fault]) -> bool:
        """Whether plans that were repeated have failed in the same ways."""
        return all(fault.signature in self._known for fault in faults)

    def _add(self, failure: _Failure, certainty: Certainty) -> None:
        self._known.update(fault.signature for fault in failure.faults)
        self._result.findings.append(
            Finding(
                plan=failure.plan,
                faults=failure.faults,
                events=events_before(failure.history, failure.faults[0].position),
                certainty=certainty,
                recording=failure.recording,
            )
        )


def _chained(plans: Sequence[Plan], pairs: Iterable[Plan]) -> Iterator[Plan]:
    yield from plans
    yield from pairs


def _pairs(plans: Sequence[Plan]) -> Iterator[Plan]:
    """Return plans with the injections of two plans, which must have different points."""
    single = [plan for plan in plans if variation_of(plan) is None]
    for first, second in islice(combinations(single, 2), MAX_PAIRS):
        if first.injections[0].point != second.injections[0].point:
            yield Plan((*first.injections, *second.injections))
