"""`kapiserver explore` finds the fault of each operator of the corpus, and none in its twin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.toolchains import FETCH, install, suite_folder
from tests.explore.corpus import (
    CASES,
    FOLDER,
    GO,
    NODE,
    Case,
    in_process_words,
    python_command,
    run_case,
)

FAST = {"crashes/second_secret": 3}
"""Cases of `make test`, with the number of their plans, whose operators run in the process of the
server; the others take a minute each."""
SECONDS = 60
"""More than a fault needs, on a busy machine, too."""

Command = Callable[[Case], list[str]]


@pytest.fixture(scope="session")
def go_operators() -> Path:
    folder = suite_folder("go_operators", "go", suites=FOLDER)
    install(folder, "go", "build", "-o", "operators", ".")
    return folder / "operators"


@pytest.fixture(scope="session")
def node_operators() -> Path:
    folder = suite_folder("node_operators", "node", "npm", suites=FOLDER)
    install(folder, *FETCH["node"])
    return folder


@pytest.fixture
def command(request: pytest.FixtureRequest) -> Command:
    """A function that returns the command of a case; it skips the test without the toolchain."""

    def command_of(case: Case) -> list[str]:
        if case.language == GO:
            return [str(request.getfixturevalue("go_operators")), case.name]
        if case.language == NODE:
            folder = request.getfixturevalue("node_operators")
            program = f"{case.name.replace('-', '_')}.js"
            return [str(folder / "node_modules" / ".bin" / "node"), str(folder / program)]
        return in_process_words(case) if case.name in FAST else python_command(case)

    return command_of


def _fast_options(case: Case) -> tuple[str, ...]:
    return ("--in-process", "--plans", str(FAST[case.name])) if case.name in FAST else ()


each_case = pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=() if case.name in FAST else pytest.mark.slow)
        for case in CASES
    ],
)


@each_case
def test_fault(case: Case, command: Command) -> None:
    """The report names what was done to the operator, and what is wrong then."""
    report = run_case(
        case, command(case), repaired=False, seconds=SECONDS, more=_fast_options(case)
    )
    assert report.shows(case), report.text


@each_case
def test_twin(case: Case, command: Command) -> None:
    """Nothing is reported about the operator without the fault."""
    report = run_case(case, command(case), repaired=True, more=_fast_options(case))
    assert report.status == 0, report.text
