"""One run of a test with the mark `kube_explore`: its fixtures and its body drive a session."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from kapiserver.exploring.history import History
from kapiserver.exploring.running.assignment import Assignment, Setup
from kapiserver.exploring.running.operators.in_process import ThreadLauncher
from kapiserver.exploring.running.operators.programs import CommandLauncher, Launcher
from kapiserver.exploring.running.session import Session
from kapiserver.testing.fixtures.background import (
    operator_arguments,
    running_coroutine,
    running_operator,
)
from kapiserver.testing.fixtures.commands import check_command
from kapiserver.testing.server import TestServer

SETUP = Setup(has_http_workload=True)
_NO_OPERATOR = (
    "a test with the mark kube_explore must use the fixture kube_apiserver, and start an operator "
    "by kube_operator, kube_background or kube_command"
)


class TestRun:
    """One run of a marked test: its fixtures and its body drive a session.

    recording   the file for the recording of the run, or None
    """

    __test__ = False  # not a test class of pytest

    def __init__(self, assignment: Assignment, recording: Path | None) -> None:
        self._assignment = assignment
        self._recording = recording
        self._server: TestServer | None = None
        self.session: Session | None = None
        self.history = History(unreached=_NO_OPERATOR)
        self.fixtures: Mapping[str, Callable[..., None]] = {
            "kube_operator": self._run_operator,
            "kube_background": self._run_coroutine,
            "kube_command": self._run_command,
        }
        """What replaces the fixtures that start an operator."""

    def attach(self, server: TestServer) -> None:
        """Open a session on the server of the test."""
        self._server = server
        self.session = server.run(self._open(server))

    async def _open(self, server: TestServer) -> Session:
        session = Session(server, SETUP)
        await session.install()
        await session.begin(self._assignment)
        return session

    def _run_operator(self, **arguments: Any) -> None:
        """Run a kopf operator; return when it is ready."""
        arguments = operator_arguments("default", arguments)
        self._launch(ThreadLauncher(lambda _: running_operator(**arguments)))

    def _run_coroutine(
        self,
        function: Callable[..., Coroutine[Any, Any, object]],
        *arguments: Any,
        **keywords: Any,
    ) -> None:
        """Run a coroutine function; return when it has sent a request."""
        self._launch(ThreadLauncher(lambda _: running_coroutine(function, *arguments, **keywords)))

    def _run_command(self, *command: str, **environment: str) -> None:
        """Run a command; return when it has sent a request."""
        check_command(command)
        self._launch(CommandLauncher(command, environment))

    def _launch(self, launcher: Launcher) -> None:
        if self._server is None or self.session is None:
            raise RuntimeError(_NO_OPERATOR)
        self.session.instances.launcher = launcher
        self._server.run(self.session.launch())

    def finish(self, problem: str) -> None:
        """End the run when the test's body has ended; `problem` is its error."""
        if self._server is not None and self.session is not None:
            self.history = self._server.run(self.session.finish({"unreached": problem}))
            if self._recording is not None:
                name = self._assignment.plan.to_text()
                self._server.run(self.session.record(self._recording, name))
