"""An operator that runs in a thread of this process, with an event loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from kapiserver.apiserver.filters.recovery import error_response
from kapiserver.apiserver.serving.connection_limits import ConnectionLimits
from kapiserver.apiserver.serving.server import LOOPBACK, HttpServer
from kapiserver.exploring.running.operators.operator_loop import Idleness, OperatorLoop
from kapiserver.exploring.running.operators.programs import SAMPLE_SECONDS, Program
from kapiserver.testing.fixtures.background import running_coroutine
from kapiserver.testing.fixtures.environment import use_kubeconfig
from kapiserver.testing.history.settling import run_ready_tasks
from kapiserver.testing.loop_thread import LoopThread
from kapiserver.testing.server import TestServer

START_SECONDS = 30.0
"""Time in which an operator must wait for something after its start."""
WORK_SECONDS = 0.1
"""Time for which a rest waits while the operator works; then it is said to work."""
TURNS = 5
"""Turns of the server's loop in which it reads what an idle operator has sent, and begins with the
request."""


OnExit: TypeAlias = Callable[[int], None]


@asynccontextmanager
async def serving_without_tls(server: TestServer) -> AsyncIterator[str]:
    """Serve a server on one more port until the block ends; yield its URL. Clients there show their
    tokens, but need no handshake of TLS for each connection. Raises OSError."""
    cluster = server.running.cluster
    http = HttpServer(
        cluster.handle,
        partial(error_response, cluster.server),
        ConnectionLimits(),
        reuse_port=False,
        front=cluster.server.config.serving.http,
    )
    port = await http.listen_plain(LOOPBACK, 0)
    try:
        yield f"http://{LOOPBACK}:{port}"
    finally:
        await http.drain(0)


@asynccontextmanager
async def running_function(
    reference: str, arguments: Sequence[str], on_exit: OnExit
) -> AsyncIterator[None]:
    """Run a coroutine function, named `module:function`, with texts as arguments, until the block
    ends. `on_exit` is called with 0 or 1 when the function returns or raises by itself. Raises
    ImportError, and ValueError if the module has no such function."""
    module, _, name = reference.partition(":")
    function = getattr(import_module(module), name, None)
    if function is None:
        raise ValueError(f"{module} has no function {name!r}; write module:function")
    async with running_coroutine(_run, function, arguments, on_exit):
        yield


async def _run(
    function: Callable[..., Awaitable[object]], arguments: Sequence[str], on_exit: OnExit
) -> None:
    try:
        await function(*arguments)
    except Exception:
        on_exit(1)
        raise
    on_exit(0)


class ThreadLauncher:
    """Starts instances that an async context manager runs while it is open. KUBECONFIG is theirs
    until the context is open and they wait for something."""

    is_in_process = True

    def __init__(self, context: Callable[[OnExit], AbstractAsyncContextManager[object]]) -> None:
        self._context = context
        self._launching = asyncio.Lock()
        """Held while KUBECONFIG is that of an instance."""

    async def launch(self, kubeconfig: Path, on_exit: OnExit) -> Program:
        """Start an instance; return when its context is open. Raises its errors."""
        server_loop = asyncio.get_running_loop()
        loops: list[OperatorLoop] = []

        def report_exit(status: int) -> None:
            server_loop.call_soon_threadsafe(on_exit, status)

        def new_loop() -> OperatorLoop:
            loops.append(OperatorLoop())
            return loops[0]

        thread = LoopThread(
            self._context(report_exit), name="explored-operator", loop_factory=new_loop
        )
        async with self._launching:
            with use_kubeconfig(kubeconfig):
                await asyncio.to_thread(thread.start)
                program = _Thread(thread, loops[0])
                await program.idleness(0.0, limit=START_SECONDS)
        return program


class _Thread:
    """A thread. It cannot be killed: it is cancelled, and the server drops its requests."""

    def __init__(self, thread: LoopThread, loop: OperatorLoop) -> None:
        self._thread = thread
        self._loop = loop
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

    async def rest(self, seconds: float) -> float:
        """Move the time of its loop to its next timer, if no response makes it work before. While a
        function runs in an executor, real time goes by."""
        wakes = self._loop.wakes_of_wait
        if wakes is None:
            before = await self.idleness(0.0)
            if before is None:
                return 0.0
            if before.executes:
                return await _sleep(min(seconds, SAMPLE_SECONDS))
            wakes = before.wakes
        await run_ready_tasks(TURNS)
        after = await self.idleness(seconds, wakes)
        return 0.0 if after is None else after.skipped

    async def idleness(
        self, seconds: float, wakes: int | None = None, *, limit: float = WORK_SECONDS
    ) -> Idleness | None:
        """Return what its loop is like when it is idle, None if it works until the time limit."""
        try:
            future = asyncio.wrap_future(self._loop.rest(seconds, wakes))
        except RuntimeError:  # the loop is closed
            return Idleness(0, seconds)
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(future, limit)
        return None


async def _sleep(seconds: float) -> float:
    """Sleep; return for how long."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    await asyncio.sleep(seconds)
    return loop.time() - start


class _ErrorLog(logging.Handler):
    """Keeps the errors that are logged, with their tracebacks."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.lines.append(f"{self.format(record)}\n")
