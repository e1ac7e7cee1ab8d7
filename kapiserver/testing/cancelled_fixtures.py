"""Finishes the fixtures of a test after a CancelledError.

pytest goes on with the other fixtures when the end of a fixture raises an Exception, but not when
it raises CancelledError, which is none. The servers of such a test would live on, and pytest would
hand them to the next tests. `kopf.operator()` in an async fixture causes that: it cancels the task
in which pytest ends the fixture.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

_MESSAGE = (
    "the end of {fixture} was cancelled. Does it run kopf.operator()? At its end, kopf waits 5 s "
    "and cancels all tasks of its event loop that began after it, also the one in which pytest "
    "ends the fixture. Run the operator with the fixture kube_operator, or another coroutine with "
    "kube_background: they have an event loop and a thread of their own. The other fixtures of "
    "this test have ended, and its server has stopped."
)


def is_cancellation(error: BaseException) -> bool:
    """Whether the error is a CancelledError, or a group with one."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(asyncio.CancelledError) is not None
    return isinstance(error, asyncio.CancelledError)


def finish_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Finish the fixtures of the test that are left, and the collectors that `nextitem` does not
    need. Raises the failure that says what has happened."""
    message = _MESSAGE.format(fixture=_async_fixtures(item))
    for fixture in _fixtures(item):
        try:
            fixture.finish(item._request)  # type: ignore[attr-defined]
        except BaseException as error:
            message += f"\nThe end of the fixture {fixture.argname} raised {error!r}."
    try:
        item.session._setupstate.teardown_exact(nextitem)
    except Exception as error:
        message += f"\nThe end of a fixture of several tests raised {error!r}."
    raise pytest.fail.Exception(message, pytrace=False) from None


def _fixtures(item: pytest.Item) -> Iterator[Any]:
    """Yield the definitions of the test's own fixtures. Pytest has no public name for them."""
    definitions = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
    for overridden in definitions.values():
        yield from (fixture for fixture in overridden if fixture.scope == "function")


def _async_fixtures(item: pytest.Item) -> str:
    names = [
        fixture.argname
        for fixture in _fixtures(item)
        if inspect.isasyncgenfunction(inspect.unwrap(fixture.func))
    ]
    text = ", ".join(dict.fromkeys(names))
    return f"the async fixture {text}" if text else "a fixture"
