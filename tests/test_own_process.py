"""Tests with the mark `own_process` run in a fresh interpreter."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[1]
CONFTEST = "from tests.conftest import pytest_addoption, pytest_collection_modifyitems"
INI = f"""
[pytest]
pythonpath = {ROOT}
markers =
    own_process: as in our tests
addopts = -p no:asyncio -p no:hypothesispytest -p no:anyio
"""
TESTS = """
import os

import pytest

PROCESSES = []


@pytest.mark.own_process
@pytest.mark.parametrize("number", range(3))
def test_together(number):
    PROCESSES.append(os.getpid())
    assert PROCESSES == [os.getpid()] * (number + 1)


@pytest.mark.own_process
@pytest.mark.parametrize("number", range(3))
def test_of_two_values(number):
    assert not PROCESSES
    assert number != 1


@pytest.mark.own_process("shared")
def test_first():
    PROCESSES.append(os.getpid())


@pytest.mark.own_process("shared")
def test_second():
    assert PROCESSES == [os.getpid()]


@pytest.mark.own_process
@pytest.mark.skipif(True, reason="another system")
def test_of_another_system():
    pass


@pytest.mark.own_process
def test_that_crashes():
    os._exit(7)


def test_here():
    assert not PROCESSES
"""


@pytest.fixture
def run(pytester: pytest.Pytester) -> pytest.Pytester:
    """A directory of tests, with the hooks of `tests/conftest.py`."""
    pytester.makeini(INI)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_marked=TESTS)
    return pytester


def test_processes(run: pytest.Pytester) -> None:
    """The cases of a test, and tests whose marks have the same name, share a process, whose output
    is the failure. Tests without the mark stay in pytest's process."""
    result = run.runpytest_subprocess("-q", "-rs", timeout=300)
    result.assert_outcomes(passed=3, failed=2, skipped=1)
    result.stdout.fnmatch_lines(
        ["FAILED test_marked.py::test_of_two_values?1? - assert 1 != 1", "1 failed, 2 passed in *"]
    )
    result.stdout.fnmatch_lines(["The test's own process ended with 7:", "*another system"])


def test_selected_cases(run: pytest.Pytester) -> None:
    """The process runs the selected cases only, here those that pass."""
    result = run.runpytest_subprocess("-q", "-k", "two_values and not 1", timeout=300)
    result.assert_outcomes(passed=1, deselected=9)


def test_in_process(run: pytest.Pytester) -> None:
    """With `--in-process`, pytest runs the tests itself."""
    result = run.runpytest_subprocess("-q", "--in-process", "-k", "together or here", timeout=300)
    result.assert_outcomes(passed=3, failed=1, deselected=7)
