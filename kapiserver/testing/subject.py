"""The base class of what a test controls, and the two forms of a control that waits.

A control that waits for the server is written once, as a coroutine method whose name ends in
`_async`. `on_server_loop` lets it run on the server's loop, whichever loop the caller has, and
`synchronous` makes the form for tests without `await` from it:

    class State(Subject):
        @on_server_loop
        async def restore_async(self, snapshot: Snapshot) -> None:
            ...

        restore = synchronous(restore_async)

Type checkers see the parameters and the result of both forms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from kapiserver.apiserver.context import Server
from kapiserver.app import RunningServer

P = ParamSpec("P")
T = TypeVar("T")


class CoroutineRunner(Protocol):
    """A server or a cluster with an event loop of its own."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on that loop, wait, and return its result. Raises its errors, and
        RuntimeError on that loop."""

    async def run_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on that loop from any loop, and return its result. Raises its errors."""


class ServerLoop(CoroutineRunner, Protocol):
    """A server and its event loop; TestServer implements it."""

    @property
    def is_running(self) -> bool:
        """Whether the server runs."""

    @property
    def running(self) -> RunningServer:
        """The running server. Raises RuntimeError when there is none."""

    def call(self, function: Callable[[], T]) -> T:
        """Call a function that does not wait on the server's loop, and return its result; from any
        thread, that of the loop included."""


class Subject:
    """Something of a server that a test controls: its time, its faults, its objects.

    To add a subject, write a class that derives from this one, in a module of the folder of
    `testing/` that fits; create it in `Controls.__init__` under the name that tests use, as in
    `server.pods`; and give it a module in `testing/control_api/` with operations for tests in other
    languages. If it holds something that `reset` must forget, clear it there.
    """

    def __init__(self, loop: ServerLoop) -> None:
        self._server_loop = loop

    @property
    def _server(self) -> Server:
        return self._server_loop.running.cluster.server


class HasLoop(Protocol):
    """An object whose methods run on the loop of a server or of a cluster, such as a Subject."""

    @property
    def _server_loop(self) -> CoroutineRunner: ...


S = TypeVar("S", bound=HasLoop)


def on_server_loop(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the method such that it runs on the server's loop and does not block the caller's."""

    @functools.wraps(method)
    async def run(subject: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await subject._server_loop.run_async(method(subject, *args, **kwargs))

    return run


def synchronous(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], T]:
    """Return the form of a method that blocks its caller until the server has done the work. It
    raises RuntimeError on the server's own loop."""

    @functools.wraps(method)
    def run(subject: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return subject._server_loop.run(method(subject, *args, **kwargs))

    for attribute in ("__name__", "__qualname__"):
        setattr(run, attribute, getattr(run, attribute).removesuffix("_async"))
    return run
