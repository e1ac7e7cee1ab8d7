"""Explores the operator of a test with the mark `kube_explore`: the test is the workload.

The test runs three times as it is, and then once for each plan, each time with fresh fixtures. Each
of its writes is a step. The operator is that of the fixture `kube_operator`, `kube_background` or
`kube_command`.
"""

from __future__ import annotations

import shlex
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from _pytest.runner import runtestprotocol

from kapiserver.exploring.explore import (
    PLAIN_RUNS,
    plan_work,
    problem_of,
)
from kapiserver.exploring.findings import Exploration, Options
from kapiserver.exploring.history import History
from kapiserver.exploring.marked.mark import PLAN_OPTION, RECORD_OPTION, TEST_RUN
from kapiserver.exploring.marked.test_run import SETUP, TestRun
from kapiserver.exploring.outputs import Report, count_text, write_text
from kapiserver.exploring.planning.plans import PLAIN, Plan, parse_plan
from kapiserver.exploring.running.assignment import Assignment, Pace

T = TypeVar("T")
PLAIN_PACE = Pace(quiet=0.5)
LAST_RECORDING = "last-run.json.gz"


class ItemRunner:
    """Runs a test again and again; its coroutines do not wait."""

    def __init__(
        self, item: pytest.Item, nextitem: pytest.Item | None, recordings: Path | None
    ) -> None:
        self._item = item
        self._nextitem = nextitem
        self._recording = None if recordings is None else recordings / LAST_RECORDING
        self.steps = ()
        self.checkpoints = frozenset[int]()
        self.is_in_process = False
        self.reports: list[pytest.TestReport] = []
        """The reports of the last run."""
        self.is_pending = False
        self.longest_rest = 0.0
        """How long the operator waited before it went on, in seconds of its time."""

    async def run(self, assignment: Assignment) -> History:
        """Run the test under a plan and return what happened."""
        run = self._item.stash[TEST_RUN] = TestRun(assignment, self._recording)
        self._item._initrequest()  # type: ignore[attr-defined]
        self.reports = runtestprotocol(self._item, log=False, nextitem=self._nextitem)
        del self._item.stash[TEST_RUN]
        if run.session is not None:
            self.is_pending = run.session.is_pending
            self.is_in_process = run.session.is_in_process
            self.longest_rest = max(self.longest_rest, run.session.tracer.longest_rest)
        return run.history

    async def record(self, path: Path, name: str) -> None:  # noqa: ARG002 - a runner
        """Give the recording of the last run a name."""
        assert self._recording is not None
        self._recording.rename(path)

    def close(self) -> None:
        """Remove the recording of the last run."""
        if self._recording is not None:
            self._recording.unlink(missing_ok=True)


def explore_test(
    item: pytest.Item,
    nextitem: pytest.Item | None,
    *,
    seconds: float = 20.0,
    plans: int | None = None,
    seed: int = 0,
    vary: bool = False,
) -> list[pytest.TestReport]:
    """Run a test as it is and under plans; return its reports. It fails if a plan fails."""
    folder = item.config.getoption(RECORD_OPTION)
    plan = item.config.getoption(PLAN_OPTION)
    options = Options(
        seconds=seconds,
        plans=plans,
        seed=seed,
        vary=vary,
        only=[parse_plan(plan)] if plan else (),
        recordings=Path(folder) if folder else None,
    )
    runner = ItemRunner(item, nextitem, options.recordings)
    try:
        return _explore(item, runner, options)
    finally:
        runner.close()


def _explore(item: pytest.Item, runner: ItemRunner, options: Options) -> list[pytest.TestReport]:
    histories = []
    for _ in range(PLAIN_RUNS):
        histories.append(_run_now(runner.run(Assignment(plan=PLAIN, pace=PLAIN_PACE))))
        if any(not report.passed for report in runner.reports):
            return runner.reports
    reports = runner.reports
    if problem := problem_of(histories):
        return _failed(reports, f"the test cannot be explored: {problem}")
    result = Exploration()
    work = plan_work(SETUP, options, histories, [runner], result)
    _run_now(work.run())
    if not result.findings:
        return reports

    def command(failed: Plan) -> str:
        folder = options.recordings
        record = [] if folder is None else [f"{RECORD_OPTION}={folder}"]
        return shlex.join(["pytest", item.nodeid, *record, PLAN_OPTION, failed.to_text()])

    text = write_text(Report(exploration=result, command=command))
    return _failed(reports, f"{text}\n{count_text(result)}")


def _run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that does not wait. A test may run an event loop of its own,
    so none may run around it."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise RuntimeError("the coroutine waits")


def _failed(reports: list[pytest.TestReport], text: str) -> list[pytest.TestReport]:
    """Return the reports of a test with a failure."""
    for report in reports:
        if report.when == "call":
            report.outcome, report.longrepr = "failed", text
    return reports
