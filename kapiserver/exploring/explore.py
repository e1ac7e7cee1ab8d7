"""Explores an operator: plain runs, then plans until the time or the plans are over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from kapiserver.api.types import Tree
from kapiserver.exploring.findings import Exploration, Options, Progress
from kapiserver.exploring.history import History
from kapiserver.exploring.judging.oracles import learn_reference
from kapiserver.exploring.judging.states import learn_expectation
from kapiserver.exploring.planning.planner import Choice, learn_facts, make_plans
from kapiserver.exploring.planning.plans import PLAIN
from kapiserver.exploring.planning.variations import make_variations
from kapiserver.exploring.runner import PlanRunner
from kapiserver.exploring.running.assignment import Assignment, Pace, Setup
from kapiserver.exploring.running.session import open_session
from kapiserver.exploring.running.worker import open_worker
from kapiserver.exploring.work import Lessons, Work
from kapiserver.testing.state.manifests import read_manifests

PLAIN_RUNS = 3
MIN_QUIET, MAX_QUIET = 0.03, 2.0
"""Bounds of the time for which an operator rests to have settled, in seconds of its time."""
PATIENCE = 2.0
"""Seconds for which the end of a run waits for the expected state."""
SKIPPED_QUIET, SKIPPED_PATIENCE = 1.0, 90.0
"""The same for an operator whose time is skipped: kopf tries again after a minute."""


async def explore(
    setup: Setup, options: Options, on_progress: Callable[[Progress], None] = lambda _: None
) -> Exploration:
    """Explore an operator. Raises OSError, ValueError, StatusError for a setup that cannot work."""
    result = Exploration()
    async with AsyncExitStack() as stack:
        opening = open_session if options.processes == 1 else open_worker
        runners: list[PlanRunner] = [
            await stack.enter_async_context(opening(setup)) for _ in range(options.processes)
        ]
        histories = await _plain_runs(runners)
        result.problem = problem_of(histories)
        if result.problem:
            return result
        work = plan_work(setup, options, histories, runners, result)
        work.on_progress = on_progress
        await work.run()
    return result


def plan_work(
    setup: Setup,
    options: Options,
    histories: Sequence[History],
    runners: Sequence[PlanRunner],
    result: Exploration,
) -> Work:
    """Return the plans that the histories of plain runs suggest, with what is wrong in these runs
    in the result. Raises OSError, ValueError."""
    expectation = learn_expectation(histories)
    definitions = _definitions(setup, histories[0]) if options.vary else ()
    facts = learn_facts(histories[0], expectation.names)
    choice = Choice(
        variations=make_variations(definitions, histories[0]),
        seed=options.seed,
        stale_reads=setup.stale_reads,
        has_earlier_version=setup.earlier_version is not None,
    )
    reference = learn_reference(histories, expectation)
    lessons = Lessons(
        plans=list(options.only) or make_plans(facts, choice),
        reference=reference,
        facts=facts,
        pace=_learned_pace(runners, histories[0]),
        runs=len(histories),
    )
    work = Work(lessons, options, runners, result)
    work.judge_plain_run(histories[0])
    return work


def _definitions(setup: Setup, history: History) -> list[Tree]:
    """Return the CustomResourceDefinitions that an administrator installs, and those that are there
    at the end of a plain run. Raises OSError, ValueError."""
    objects = [*read_manifests(setup.sources), *history.final.values()]
    return [obj for obj in objects if obj["kind"] == "CustomResourceDefinition"]


async def _plain_runs(runners: Sequence[PlanRunner]) -> list[History]:
    """Run the workload as it is, at least once in each runner; return the histories."""
    histories: list[History] = []
    rest = runners
    while rest and not problem_of(histories):
        assignment = Assignment(plan=PLAIN, pace=Pace())
        histories += await asyncio.gather(*(runner.run(assignment) for runner in rest))
        rest = runners[: max(0, PLAIN_RUNS - len(histories))]
    return histories


def _learned_pace(runners: Sequence[PlanRunner], history: History) -> Pace:
    """Return the pace of an operator that has waited before it went on as the runners say."""
    longest_rest = max(runner.longest_rest for runner in runners)
    quiet, patience = max(MIN_QUIET, 2 * longest_rest), PATIENCE
    if any(runner.is_in_process for runner in runners):
        quiet, patience = max(quiet, SKIPPED_QUIET), SKIPPED_PATIENCE
    first_step = next(mark.position for mark in history.marks if mark.step == 0)
    watches = sum(watch.position < first_step for watch in history.watches)
    return Pace(quiet=min(MAX_QUIET, quiet), watches=watches, patience=patience)


def problem_of(histories: Sequence[History]) -> str:
    """Return why plain runs cannot be a reference, or ""."""
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
