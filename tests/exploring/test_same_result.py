"""The same seed gives the same plans, and with an operator in this process the same result."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from kapiserver.exploring.explore import explore
from kapiserver.exploring.findings import Options
from kapiserver.exploring.outputs import Report, count_text, write_text
from kapiserver.exploring.running.assignment import Setup
from kapiserver.exploring.running.operators.in_process import ThreadLauncher, running_function
from kapiserver.exploring.steps import read_workload
from tests.explore.corpus import FOLDER

# A killed operator does not close its connections.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

OPERATOR = "tests.explore.operators.in_process:run"
FORGETFUL = "tests.explore.operators.crashes.second_secret:TlsSecrets"


def _report(*, processes: int, seed: int = 0, plans: int = 6) -> str:
    """Return the report of an operator that forgets its second Secret when it is killed."""
    launcher = ThreadLauncher(partial(running_function, OPERATOR, (FORGETFUL,)))
    setup = Setup(
        launcher=launcher,
        steps=read_workload(FOLDER / "workloads" / "create.yaml"),
        sources=[str(FOLDER / "crds")],
    )
    options = Options(seconds=600, plans=plans, seed=seed, processes=processes)
    exploration = asyncio.run(explore(setup, options))
    assert not exploration.problem
    report = Report(exploration=exploration, command=lambda plan: plan.to_text())
    return f"{write_text(report)}{count_text(exploration)}"


def test_in_this_process() -> None:
    """Two explorations say the same."""
    report = _report(processes=1)
    assert "secrets default/db-internal-tls: is missing" in report
    assert _report(processes=1) == report


@pytest.mark.slow
def test_in_other_processes() -> None:
    """It does not matter how many servers run the plans."""
    report = _report(processes=1, plans=16, seed=1)
    assert _report(processes=2, plans=16, seed=1) == report
