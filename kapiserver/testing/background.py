"""Coroutines and kopf operators that run in a thread of the test's process until the test ends.

Each has an event loop of its own. `kopf.operator()` takes every task of its loop that began after
it for one of its own, and cancels those tasks at its end: on the loop of a test, the task in which
pytest ends an async fixture is one of them.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

START_SECONDS = 60.0
"""Time in which an operator must have run its startup handlers."""
END_SECONDS = 30.0
"""Time in which a coroutine must end when it is cancelled, and an operator when it is stopped."""

CoroutineFunction: TypeAlias = Callable[..., Coroutine[Any, Any, object]]

_log = logging.getLogger(__name__)


@asynccontextmanager
async def running_coroutine(
    function: CoroutineFunction, *arguments: Any, **keywords: Any
) -> AsyncIterator[None]:
    """Run a coroutine function until the block ends, and cancel it then. Raises its error at the
    end of the block, and RuntimeError if it goes on although it was cancelled."""
    name = getattr(function, "__name__", "the coroutine")
    task = asyncio.create_task(_logged(function(*arguments, **keywords), name))
    try:
        yield
    finally:
        task.cancel()
        await _end(task, name)


@asynccontextmanager
async def running_operator(**arguments: Any) -> AsyncIterator[None]:
    """Run `kopf.operator()` with these arguments until the block ends. The block begins when the
    operator's startup handlers have run. Raises the errors of the operator at the start or at the
    end of the block, TimeoutError if the operator is not ready in time, and RuntimeError if it ends
    neither when it is stopped nor when it is cancelled."""
    kopf = importlib.import_module("kopf")
    ready, stop = asyncio.Event(), asyncio.Event()
    operator = kopf.operator(ready_flag=ready, stop_flag=stop, **arguments)
    task = asyncio.create_task(_logged(operator, "kopf.operator()"))
    try:
        await _wait_until_ready(task, ready)
        yield
    finally:
        stop.set()
        await _end(task, "kopf.operator()")


async def _wait_until_ready(task: asyncio.Task[None], ready: asyncio.Event) -> None:
    """Return when the operator is ready. Raises its error if it ends before."""
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({task, waiting}, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        await task
        raise RuntimeError("kopf.operator() ended at once")
    if not ready.is_set():
        raise TimeoutError(f"kopf.operator() was not ready within {START_SECONDS:g} s")


async def _logged(coroutine: Coroutine[Any, Any, object], name: str) -> None:
    """Await the coroutine. Its error is logged at once, for the report of a test that waits for its
    work in vain."""
    try:
        await coroutine
    except Exception:
        _log.exception("%s failed", name)
        raise


async def _end(task: asyncio.Task[None], name: str) -> None:
    """Return when the task has ended; cancel it if it takes too long. Raises its error, and
    RuntimeError if it goes on after it was cancelled."""
    for _ in range(2):
        await asyncio.wait({task}, timeout=END_SECONDS)
        if task.done():
            if not task.cancelled():
                task.result()
            return
        task.cancel()
    raise RuntimeError(f"{name} did not end within {END_SECONDS:g} s after it was cancelled")
