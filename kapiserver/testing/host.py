"""The interface of the TestServer that the parts of the harness use."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from kapiserver.app import RunningServer

T = TypeVar("T")


class Host(Protocol):
    """A server and its event loop; TestServer implements it."""

    @property
    def is_running(self) -> bool:
        """Whether the server runs."""

    @property
    def running(self) -> RunningServer:
        """The running server. Raises RuntimeError when there is none."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's loop, wait, and return its result. Raises its errors, and
        RuntimeError on the server's own loop."""

    async def run_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's loop from any loop, and return its result. Raises its
        errors."""

    def call(self, function: Callable[[], T]) -> T:
        """Call a function that does not wait on the server's loop, and return its result; from any
        thread, that of the loop included."""
