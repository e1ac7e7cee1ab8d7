"""An operator that runs in a thread of this process, with an event loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from kapiserver.exploring.running.programs import Program
from kapiserver.testing.fixtures.environment import use_kubeconfig
from kapiserver.testing.loop_thread import LoopThread


class ThreadLauncher:
    """Starts instances that an async context manager runs while it is open. KUBECONFIG is theirs
    until the context is open."""

    def __init__(self, context: Callable[[], AbstractAsyncContextManager[object]]) -> None:
        self._context = context

    async def launch(
        self,
        kubeconfig: Path,
        on_exit: Callable[[int], None],  # noqa: ARG002 - a thread does not exit
    ) -> Program:
        """Start an instance; return when its context is open. Raises its errors."""
        thread = LoopThread(self._context(), name="explored-operator")
        with use_kubeconfig(kubeconfig):
            await asyncio.to_thread(thread.start)
        return _Thread(thread)


class _Thread:
    """A thread. It cannot be killed: it is cancelled, and the server drops its requests."""

    def __init__(self, thread: LoopThread) -> None:
        self._thread = thread
        self._log = _ErrorLog()
        logging.getLogger().addHandler(self._log)

    @property
    def exit_status(self) -> int | None:
        """None: a thread has no status."""
        return None

    @property
    def output(self) -> str:
        """The errors that were logged while it ran."""
        return "".join(self._log.lines)

    async def kill(self) -> None:
        """Cancel it."""
        await self.stop()

    async def stop(self) -> None:
        """Cancel it; return when it has ended."""
        with contextlib.suppress(Exception):  # a cancelled operator may fail
            await asyncio.to_thread(self._thread.stop)
        logging.getLogger().removeHandler(self._log)

    def pause(self) -> None:
        """Do nothing: the server holds its requests back."""

    def resume(self) -> None:
        """Do nothing: the server lets its requests pass."""


class _ErrorLog(logging.Handler):
    """Keeps the errors that are logged, with their tracebacks."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.lines.append(f"{self.format(record)}\n")
