"""One run of a test with the mark `kube_explore`: its fixtures and its body drive a session."""

from __future__ import annotations

from typing import Any

from kapiserver.exploring.history import History
from kapiserver.exploring.running.in_process import ThreadLauncher
from kapiserver.exploring.running.session import Assignment, Session, Setup
from kapiserver.testing.fixtures.background import operator_arguments, running_operator
from kapiserver.testing.server import TestServer

SETUP = Setup(has_http_workload=True)
_NO_OPERATOR = "a test with the mark kube_explore must start an operator by kube_operator"


class TestRun:
    """One run of a marked test: its fixtures and its body drive a session."""

    __test__ = False  # not a test class of pytest

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._server: TestServer | None = None
        self.session: Session | None = None
        self.history = History(unreached=_NO_OPERATOR)

    def attach(self, server: TestServer) -> None:
        """Open a session on the server of the test."""
        self._server = server
        self.session = server.run(self._open(server))

    async def _open(self, server: TestServer) -> Session:
        session = Session(server, SETUP)
        await session.install()
        await session.begin(self._assignment)
        return session

    def run_operator(self, **arguments: Any) -> None:
        """Run a kopf operator in place of the fixture `kube_operator`; return when it is ready."""
        server, session = self._server, self.session
        assert server is not None
        assert session is not None
        arguments = operator_arguments("default", arguments)
        session.launcher = ThreadLauncher(lambda: running_operator(**arguments))
        server.run(session.launch())

    def finish(self, problem: str) -> None:
        """End the run when the test's body has ended; `problem` is its error."""
        if self._server is not None and self.session is not None:
            self.history = self._server.run(self.session.finish({"unreached": problem}))
