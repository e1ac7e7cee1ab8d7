"""Sessions in processes of their own, so that each has a CPU.

A process is spawned, not forked, on every system. It gets assignments by a pipe and sends histories
back. It ends when the pipe is closed, so that none stays behind when this process is killed, and at
SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from kapiserver.api.resource_client import StatusError
from kapiserver.exploring.history import History
from kapiserver.exploring.running.assignment import Assignment, Setup
from kapiserver.exploring.running.session import Session, open_session
from kapiserver.exploring.steps import Step

END_SECONDS = 10.0
"""Time in which a process must end when its pipe is closed, or after SIGTERM, before it is
killed."""


class _Recording(Struct, frozen=True):
    """Asks for a recording of the last run."""

    path: Path
    name: str


class _Outcome(Struct, frozen=True):
    """What a run was like. `history` is None after a recording, `error` says why there is none."""

    history: History | None = None
    error: OSError | ValueError | None = None
    is_pending: bool = False
    longest_rest: float = 0.0
    checkpoints: frozenset[int] = frozenset()
    is_in_process: bool = False


_Request: TypeAlias = Assignment | _Recording


class Worker:
    """A session in another process. `open_worker` makes one."""

    def __init__(self, connection: Connection, steps: Sequence[Step]) -> None:
        self._connection = connection
        self._thread = ThreadPoolExecutor(1, "exploration")
        self.steps = steps
        self._last = _Outcome()
        self.is_busy = False
        """Whether the process has an assignment."""

    @property
    def checkpoints(self) -> AbstractSet[int]:
        """The steps with which a run may begin."""
        return self._last.checkpoints

    @property
    def is_pending(self) -> bool:
        """Whether the last plan could not be done: `Session.is_pending` says why."""
        return self._last.is_pending

    @property
    def is_in_process(self) -> bool:
        """Whether the operator runs in the process of its server: its time can be skipped."""
        return self._last.is_in_process

    @property
    def longest_rest(self) -> float:
        """How long an operator waited before it went on, in seconds of its time."""
        return self._last.longest_rest

    async def run(self, assignment: Assignment) -> History:
        """Run the workload under a plan. Raises OSError, ValueError."""
        self._last = await self._call(assignment)
        assert self._last.history is not None
        return self._last.history

    async def record(self, path: Path, name: str) -> None:
        """Write a recording of the last run. Raises OSError."""
        await self._call(_Recording(path, name))

    async def _call(self, request: _Request) -> _Outcome:
        loop = asyncio.get_running_loop()
        outcome = await loop.run_in_executor(self._thread, self._exchange, request)
        if outcome.error is not None:
            raise outcome.error
        return outcome

    def _exchange(self, request: _Request) -> _Outcome:
        self.is_busy = True
        try:
            self._connection.send(request)
            outcome: _Outcome = self._connection.recv()
        except (EOFError, OSError) as error:
            raise OSError("a process of the exploration has ended") from error
        self.is_busy = False
        return outcome

    def disconnect(self) -> None:
        """Close the pipe; a process without an assignment ends."""
        self._connection.close()

    def close(self) -> None:
        """Wait for the thread, which waits for the process."""
        self._thread.shutdown()


@contextmanager
def process_settings() -> Iterator[None]:
    """Change the settings of this process for an exploration, until the block ends.

    SIGTERM ends the process like SIGINT, so that sessions stop their operators, which have process
    groups of their own. What operators in this process print goes to standard error, because
    standard output is for the report. Servers log errors only, because webhooks that fail and
    requests that wait are plans. Call it in the main thread.
    """
    log = logging.getLogger("kapiserver")
    level, handler = log.level, signal.getsignal(signal.SIGTERM)
    log.setLevel(logging.ERROR)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        signal.signal(signal.SIGTERM, handler)
        log.setLevel(level)


@asynccontextmanager
async def open_worker(setup: Setup) -> AsyncIterator[Worker]:
    """Start a process with a session. Raises OSError."""
    context = multiprocessing.get_context("spawn")
    connection, process_end = context.Pipe()
    process = context.Process(
        target=_serve, args=(process_end, setup), name="exploration", daemon=True
    )
    process.start()
    process_end.close()
    worker = Worker(connection, setup.steps)
    try:
        yield worker
    finally:
        worker.disconnect()
        if worker.is_busy:  # the thread reads from the pipe, so that it is still open
            process.terminate()
        await asyncio.to_thread(process.join, END_SECONDS)
        process.kill()
        process.join()
        worker.close()


def _serve(connection: Connection, setup: Setup) -> None:
    ends = contextlib.suppress(KeyboardInterrupt, EOFError, ConnectionError)
    with ends, process_settings():
        asyncio.run(_serve_session(connection, setup))


async def _serve_session(connection: Connection, setup: Setup) -> None:
    """Run what comes until the pipe is closed. Raises EOFError, ConnectionError then."""
    try:
        async with open_session(setup) as session:
            while True:
                request = await asyncio.to_thread(connection.recv)
                connection.send(await _perform(session, request))
    except (OSError, ValueError, StatusError) as error:
        if isinstance(error, ConnectionError):
            raise
        connection.send(_Outcome(error=ValueError(str(error))))


async def _perform(session: Session, request: _Request) -> _Outcome:
    history = None
    try:
        if isinstance(request, _Recording):
            await session.record(request.path, request.name)
        else:
            history = await session.run(request)
    except OSError as error:
        return _Outcome(error=OSError(str(error)))
    except ValueError as error:
        return _Outcome(error=ValueError(str(error)))
    return _Outcome(
        history=history,
        is_pending=session.is_pending,
        longest_rest=session.longest_rest,
        checkpoints=frozenset(session.checkpoints),
        is_in_process=session.is_in_process,
    )
