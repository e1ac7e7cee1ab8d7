"""Coroutines and kopf operators that run in a thread of the test's process until the test ends.

Each has an event loop of its own. `kopf.operator()` takes every task of its loop that began after
it for one of its own, and cancels those tasks at its end: on the loop of a test, the task in which
pytest ends an async fixture is one of them.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from weakref import WeakSet

START_SECONDS = 30.0
"""Time in which an operator must have run its startup handlers."""
END_SECONDS = 30.0
"""Time in which a coroutine or an operator must end when it is cancelled."""

_registries_with_login = WeakSet[Any]()
"""Registries of handlers that log in by KUBECONFIG."""

CoroutineFunction: TypeAlias = Callable[..., Coroutine[Any, Any, object]]

_log = logging.getLogger(__name__)


@asynccontextmanager
async def running_coroutine(
    function: CoroutineFunction, *arguments: Any, **keywords: Any
) -> AsyncIterator[None]:
    """Run a coroutine function until the block ends, and cancel it then. Raises its error at the
    end of the block, RuntimeError if it goes on although it was cancelled, and TypeError if the
    function returns no coroutine."""
    name = getattr(function, "__name__", "the coroutine")
    coroutine = function(*arguments, **keywords)
    if not inspect.iscoroutine(coroutine):
        raise TypeError(f"{name} is not a coroutine function")
    task = asyncio.create_task(_logged(coroutine, name))
    try:
        yield
    finally:
        await _end(task, name)


@asynccontextmanager
async def running_operator(**arguments: Any) -> AsyncIterator[None]:
    """Run `kopf.operator()` with these arguments until the block ends. The block begins when the
    operator's startup handlers have run. The operator logs in by the variable KUBECONFIG, because a
    registry of a test often has no login handler.

    Raises the errors of the operator at the start or at the end of the block, TimeoutError if the
    operator is not ready in time, and RuntimeError if it goes on although it was cancelled.
    """
    kopf = importlib.import_module("kopf")
    ready, stop = asyncio.Event(), asyncio.Event()
    registry = arguments.setdefault("registry", kopf.get_default_registry())
    if registry not in _registries_with_login:
        kopf.on.login(id="kube_operator", registry=registry)(kopf.login_with_kubeconfig)
        _registries_with_login.add(registry)
    operator = kopf.operator(ready_flag=ready, stop_flag=stop, **arguments)
    task = asyncio.create_task(_logged(operator, "kopf.operator()"))
    try:
        await _wait_until_ready(task, ready)
        yield
    finally:
        # With the flag alone, kopf waits 5 s for tasks that do not end. Without the flag, it kills
        # the process when its end takes long.
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
        raise TimeoutError(
            f"kopf.operator() was not ready within {START_SECONDS:g} s; its log says which startup "
            "handler fails"
        )


async def _logged(coroutine: Coroutine[Any, Any, object], name: str) -> None:
    """Await the coroutine. Its error is logged at once, for the report of a test that waits for its
    work in vain."""
    try:
        await coroutine
    except Exception:
        _log.exception("%s failed", name)
        raise


async def _end(task: asyncio.Task[None], name: str) -> None:
    """Cancel the task, and return when it has ended. Raises its error, and RuntimeError if it goes
    on."""
    task.cancel()
    await asyncio.wait({task}, timeout=END_SECONDS)
    if not task.done():
        raise RuntimeError(f"{name} did not end within {END_SECONDS:g} s after it was cancelled")
    if not task.cancelled():
        task.result()
