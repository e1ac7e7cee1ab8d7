"""Settings of all tests.

Hypothesis has no deadline for an example, because a busy machine is not a bug, and tries the same
examples in each run, so that a run fails for a change only; `--hypothesis-profile=explore` tries
others. Clients of other projects leave sockets open; the test that used one collects them, and so
does the end of each module, so that no later test gets the warning. `test_leaks` and
`test_nothing_left` find what the server leaves open. The garbage collector does not visit the
modules and the items of the tests, which live as long as the process and are half a million
objects: it does not run until all are collected, where it took a third of the time. After each
module the objects that are left, such as those of caches, are exempt too. Tests that judge the
whole process have one of their own: see `own_process.py`. `-n auto` starts one worker more than
there are cores, because some tests wait for programs and timers.
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests import own_process

settings.register_profile(
    "explore",
    settings.default,
    derandomize=False,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("same", settings.get_profile("explore"), derandomize=True)
settings.load_profile("same")


MAX_NEW_OBJECTS = 20_000
"""New objects that start a collection, as in a server."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs all tests in this process."""
    help_text = f"run tests with the mark {own_process.MARK} in this process, for a debugger"
    parser.addoption(own_process.OPTION, action="store_true", help=help_text)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Return the number of workers of `-n auto`; None leaves it to a variable of pytest-xdist."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give the selected tests with the mark `own_process` processes of their own, and those that
    ignore open sockets a fixture that collects them; for each other test it would take 0.2 ms."""
    for item in items:
        if isinstance(item, pytest.Function) and _ignores_open_sockets(item):
            item.fixturenames.insert(0, "_collect_open_sockets")
    if not config.getoption(own_process.OPTION):
        own_process.replace_marked(items)


def pytest_collectstart() -> None:
    """Start no garbage collection while tests are imported."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exempt all objects so far from garbage collection, and collect less often."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(MAX_NEW_OBJECTS)


@pytest.fixture(scope="module", autouse=True)
def _collect_sockets_of_module() -> Iterator[None]:
    """Collect garbage after a module, without warnings about sockets."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    gc.freeze()


@pytest.fixture
def _collect_open_sockets() -> Iterator[None]:
    """Collect garbage after a test that ignores warnings about it."""
    yield
    gc.collect()


def _ignores_open_sockets(item: pytest.Item) -> bool:
    marks = item.iter_markers("filterwarnings")
    return any("PytestUnraisableExceptionWarning" in text for mark in marks for text in mark.args)
