"""Fixtures of the end-to-end tests: a running server, a namespace in it, kubectl."""

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.every_kind import Api, events
from tests.e2e.programs import Kubectl, Server, generations, kubectls, run, start, stop
from tests.storage.etcd_server import Member, running_member

SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests of this worker; each test has its own namespace."""
    running = start(tmp_path_factory.mktemp("server"))
    yield running
    stop(running)


@pytest.fixture(scope="module")
def etcd() -> Iterator[Member]:
    """An etcd member that the tests of a module share."""
    with running_member() as member:
        yield member


@pytest.fixture
def own_etcd() -> Iterator[Member]:
    """An etcd member of one test."""
    with running_member() as member:
        yield member


def generations_of(name: str) -> list[Any]:
    """A parameter for each version of a program; all but the newest are slow tests."""
    numbered = enumerate(generations(name))
    marks = [[], [pytest.mark.slow]]
    return [
        pytest.param(path, id=("newest", "oldest")[at], marks=marks[at]) for at, path in numbered
    ]


@pytest.fixture(scope="session", params=generations_of("kubectl"))
def kubectl_program(request: pytest.FixtureRequest) -> Path:
    """The newest kubectl, and the oldest."""
    return request.param


@pytest.fixture(params=[{}, SPDY], ids=["websocket", "spdy"])
def transport(request: pytest.FixtureRequest) -> dict[str, str]:
    """What makes the newest kubectl speak WebSocket, or SPDY as older ones do."""
    return request.param


@pytest.fixture(scope="session", params=generations_of("helm"))
def helm_program(request: pytest.FixtureRequest) -> Path:
    """The newest helm, and the oldest."""
    return request.param


@pytest.fixture
def namespace(server: Server) -> Iterator[str]:
    """A new namespace, once it has its service account, which pods need."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    path = f"/api/v1/namespaces/{name}/serviceaccounts?fieldSelector=metadata.name=default"
    with closing(Api(server)) as connection:
        connection("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        with connection.watch(path) as stream:
            events(stream, 1)
    return name


@pytest.fixture
def kubectl(server: Server, kubectl_program: Path, namespace: str) -> Kubectl:
    """`kubectl(*arguments, stdin="", fails=False)`, in the test's namespace."""
    return _in_namespace(kubectl_program, server, namespace)


@pytest.fixture
def newest(server: Server, namespace: str) -> Kubectl:
    """The newest kubectl only, for features that others do not have."""
    return _in_namespace(kubectls()[0], server, namespace)


def _in_namespace(program: Path, server: Server, namespace: str) -> Kubectl:
    def call(*arguments: str, **options: Any) -> str:
        return run(program, server, "-n", namespace, *arguments, **options)

    return call


@pytest.fixture
def api(server: Server, namespace: str) -> Iterator[Api]:
    """A keep-alive connection.

    Each test opens its own: the server closes a connection that is idle for 90 seconds, as one
    for the whole session is while the worker runs other tests."""
    with closing(Api(server)) as connection:
        yield connection


@pytest.fixture
def core(namespace: str) -> str:
    """The path of the core group's objects in the namespace."""
    return f"/api/v1/namespaces/{namespace}"
