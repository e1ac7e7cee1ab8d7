"""The pytest plugin of the mark `kube_explore`: explores the operator of a test.

Pytest loads this module in each run in which kapiserver is installed, so it imports no
server until a test has the mark.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from kapiserver.exploring.marked.mark import MARKER, PLAN_OPTION, TEST_RUN


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("kapiserver", "test servers").addoption(
        PLAN_OPTION,
        metavar="PLAN",
        help="Run this plan alone in tests with the mark kube_explore, as their reports name it.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(seconds=20, plans=None, seed=0, vary=False): run the test again and again, each "
        "time with something done to the operator of kube_operator, kube_background or "
        "kube_command, and fail if that shows a fault.",
    )


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a marked test under plans."""
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return None
    from kapiserver.exploring.marked.marked_tests import explore_test

    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in explore_test(item, nextitem, **marker.kwargs):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Connect the fixtures of a marked test with its run."""
    value = yield
    run = request.node.stash.get(TEST_RUN, None)
    if run is not None and fixturedef.argname == "kube_apiserver":
        run.attach(value)
    if run is not None and fixturedef.argname in run.fixtures:
        value = run.fixtures[fixturedef.argname]
        assert fixturedef.cached_result is not None
        fixturedef.cached_result = (value, fixturedef.cached_result[1], None)
    return value


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """End the run of a marked test when its body has ended, before its fixtures do."""
    run = pyfuncitem.stash.get(TEST_RUN, None)
    if run is None:
        return (yield)
    try:
        result = yield
    except Exception as error:
        run.finish(f"the test failed: {error}")
        raise
    run.finish("")
    return result
