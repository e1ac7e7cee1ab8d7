"""Explores an operator: three plain runs, then plans until the time or the plans are over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from msgspec import Struct, field

from kapiserver.exploring.history import History
from kapiserver.exploring.oracles import Fault, Reference, Run, judge, learn_reference
from kapiserver.exploring.planner import Choice, make_plans
from kapiserver.exploring.plans import PLAIN, Plan
from kapiserver.exploring.session import Pace, Session, Setup, open_session
from kapiserver.exploring.states import learn_expectation

PLAIN_RUNS = 3
MIN_QUIET, MAX_QUIET = 0.15, 2.0
"""Bounds of the time without activity after which an operator has settled, in seconds."""
PATIENCE = 2.0
"""Seconds for which the end of a run waits for the expected state."""


class Options(Struct, frozen=True, kw_only=True):
    """The limits of an exploration.

    seconds     how long plans are started after the plain runs
    plans       how many plans are run at most; None: all
    sessions    how many servers run plans at the same time
    only        the plans to run in place of those of the planner
    """

    seconds: float = 60.0
    plans: int | None = None
    seed: int = 0
    sessions: int = 1
    only: Sequence[Plan] = ()


class Progress(Struct, frozen=True, kw_only=True):
    """How far an exploration is."""

    done: int
    left: int
    failed: int


class Finding(Struct, frozen=True, kw_only=True):
    """A plan that failed."""

    plan: Plan
    faults: Sequence[Fault]
    history: History


class Exploration(Struct, kw_only=True):
    """The result.

    problem     why the workload does not work without faults, or ""
    left        plans that were not run
    unreached   plans whose points did not come
    """

    problem: str = ""
    findings: list[Finding] = field(default_factory=list)
    done: int = 0
    left: int = 0
    unreached: int = 0


async def explore(
    setup: Setup, options: Options, on_progress: Callable[[Progress], None] = lambda _: None
) -> Exploration:
    """Explore an operator. Raises OSError, ValueError, StatusError for a setup that cannot work."""
    result = Exploration()
    async with AsyncExitStack() as stack:
        opening = [stack.enter_async_context(open_session(setup)) for _ in range(options.sessions)]
        sessions = [await session for session in opening]
        histories = await _plain_runs(sessions)
        result.problem = _problem_of(histories)
        if result.problem:
            return result
        expectation = learn_expectation(histories)
        reference = learn_reference(histories, expectation)
        faults = judge(Run(plan=PLAIN, history=histories[0], reference=reference))
        if faults:
            result.findings.append(Finding(plan=PLAIN, faults=faults, history=histories[0]))
        choice = Choice(
            seed=options.seed,
            stale_reads=setup.stale_reads,
            has_earlier_version=setup.earlier_version is not None,
        )
        plans = list(options.only) or make_plans(histories[0], expectation.names, choice)
        work = _Work(
            plans[: options.plans], time.monotonic() + options.seconds, result, on_progress
        )
        pace = _learned_pace(histories[0], max(item.tracer.longest_gap for item in sessions))
        async with asyncio.TaskGroup() as group:
            for session in sessions:
                group.create_task(work.run(session, pace, reference))
        result.left = len(work.plans)
    return result


async def _plain_runs(sessions: Sequence[Session]) -> list[History]:
    """Run the workload as it is; return the histories."""
    histories: list[History] = []
    while len(histories) < PLAIN_RUNS and not _problem_of(histories):
        rest = sessions[: PLAIN_RUNS - len(histories)]
        histories += await asyncio.gather(*(session.run(PLAIN, Pace()) for session in rest))
    return histories


def _learned_pace(history: History, longest_gap: float) -> Pace:
    """Return the pace of an operator that has been quiet for so many seconds while it worked."""
    quiet = min(MAX_QUIET, max(MIN_QUIET, 2 * longest_gap))
    first_step = next(mark.position for mark in history.marks if mark.step == 0)
    watches = sum(watch.position < first_step for watch in history.watches)
    return Pace(quiet=quiet, watches=watches, patience=PATIENCE)


def _problem_of(histories: Sequence[History]) -> str:
    """Return why plain runs are no reference, or ""."""
    for history in histories:
        if history.unreached:
            return history.unreached
        if history.exits:
            return f"the operator exited with status {history.exits[0].status}:\n" + "\n".join(
                history.output.splitlines()[-15:]
            )
        if not any(request.instance for request in history.requests):
            return "the operator sent no request:\n" + "\n".join(history.output.splitlines()[-15:])
        if not history.settled:
            return "the operator does not settle"
    return ""


class _Work:
    """The plans that sessions take one after the other."""

    def __init__(
        self,
        plans: Sequence[Plan],
        deadline: float,
        result: Exploration,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self.plans = list(plans)
        self._deadline = deadline
        self._result = result
        self._on_progress = on_progress

    async def run(self, session: Session, pace: Pace, reference: Reference) -> None:
        """Run plans until there are none, or the time is over."""
        result, expectation = self._result, reference.expectation
        while self.plans and time.monotonic() < self._deadline:
            plan = self.plans.pop(0)
            history = await session.run(
                plan,
                pace,
                expectation.names.normalise,
                lambda state: not expectation.differences(state),
            )
            result.done += 1
            if session.injector.pending:
                result.unreached += 1
            else:
                faults = judge(Run(plan=plan, history=history, reference=reference))
                if faults:
                    result.findings.append(Finding(plan=plan, faults=faults, history=history))
            self._on_progress(
                Progress(done=result.done, left=len(self.plans), failed=len(result.findings))
            )
