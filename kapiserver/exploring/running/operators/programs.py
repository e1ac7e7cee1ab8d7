"""The program of an operator: started with a kubeconfig, killed, stopped, its output kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from kapiserver.exploring.running.operators.activity import sample

MAX_OUTPUT_BYTES = 1 << 20
"""Bytes of output that are kept of one program, the last ones."""
STOP_SECONDS = 5.0
"""Time in which a program must end after SIGTERM, before it is killed."""
SAMPLE_SECONDS = 0.005
"""Time between two looks at the threads of a program."""


class Program(Protocol):
    """One running instance of an operator."""

    @property
    def exit_status(self) -> int | None:
        """The exit status, None while it runs."""

    @property
    def output(self) -> str:
        """What it has written so far."""

    async def kill(self) -> None:
        """End it at once, without a chance to clean up; return when it has ended. Idempotent."""

    async def stop(self) -> None:
        """End it as a rolling update does; return when it has ended. Idempotent."""

    def pause(self) -> None:
        """Stop its execution until `resume`."""

    def resume(self) -> None:
        """Let it run on after `pause`."""

    async def rest(self, seconds: float) -> float:
        """Let a part of these seconds of the program's time go by. Return how much went by while
        it waited for a response, an event or a timer; 0 if it worked."""


class Launcher(Protocol):
    """Starts instances of one operator."""

    @property
    def is_in_process(self) -> bool:
        """Whether the programs run in this process. Then time goes by at once while they rest, and
        they connect without TLS."""

    async def launch(self, kubeconfig: Path, on_exit: Callable[[int], None]) -> Program:
        """Start an instance. `on_exit` is called with its status when it has ended, unless it was
        killed or stopped. Raises OSError, ValueError when it cannot be started."""


class CommandLauncher:
    """Starts a command in a process group of its own, with KUBECONFIG and other variables in its
    environment."""

    is_in_process = False

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self._command = tuple(command)
        self._environment = environment or {}

    async def launch(self, kubeconfig: Path, on_exit: Callable[[int], None]) -> Program:
        """Start the command. Raises OSError."""
        variables = {**os.environ, "PYTHONUNBUFFERED": "1", **self._environment}
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**variables, "KUBECONFIG": str(kubeconfig)},
            start_new_session=True,
        )
        return _Command(process, on_exit)


class _Command:
    """A process, and those that it has started."""

    def __init__(self, process: asyncio.subprocess.Process, on_exit: Callable[[int], None]) -> None:
        self._process = process
        self._on_exit = on_exit
        self._output = bytearray()
        self._is_ended_by_us = False
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while data := await self._process.stdout.read(1 << 16):
            self._output += data
            del self._output[:-MAX_OUTPUT_BYTES]
        status = await self._process.wait()
        if not self._is_ended_by_us:
            self._on_exit(status)

    @property
    def exit_status(self) -> int | None:
        """The exit status, None while it runs."""
        return self._process.returncode

    @property
    def output(self) -> str:
        """What it has written so far."""
        return self._output.decode(errors="replace")

    async def kill(self) -> None:
        """Kill the process group with SIGKILL."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """Send SIGTERM, and SIGKILL when the process has not ended in time."""
        await self._end(signal.SIGTERM)

    async def _end(self, first_signal: int) -> None:
        self._is_ended_by_us = True
        self._signal(first_signal)
        done, _ = await asyncio.wait({self._task}, timeout=STOP_SECONDS)
        if first_signal != signal.SIGKILL or not done:
            self._signal(signal.SIGKILL)  # what the process has started may have stayed
            await self._task

    def pause(self) -> None:
        """Stop the processes with SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the processes run on with SIGCONT."""
        self._signal(signal.SIGCONT)

    async def rest(self, seconds: float) -> float:
        """Wait a moment. Time in which a thread of the program works does not count, so that a busy
        machine makes no difference; where the system does not say it, all time counts."""
        loop = asyncio.get_running_loop()
        start, before = loop.time(), sample(self._process.pid)
        await asyncio.sleep(min(seconds, SAMPLE_SECONDS))
        after = sample(self._process.pid)
        worked = before is not None and after is not None and not before.is_same_rest(after)
        return 0.0 if worked else loop.time() - start

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
