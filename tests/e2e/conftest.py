"""Fixtures of the end-to-end tests: a running server, a namespace in it, kubectl."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    """The newest kubectl, and the oldest."""
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
    return _in_namespace(kubectl_program, server, namespace)


@pytest.fixture
def newest(server: Server, namespace: str) -> Kubectl:
    """The newest kubectl alone, for what others do not know yet."""
    return _in_namespace(kubectls()[0], server, namespace)


def _in_namespace(program: Path, server: Server, namespace: str) -> Kubectl:
    def call(*arguments: str, **options: Any) -> str:
        return run(program, server, "-n", namespace, *arguments, **options)

    return call
