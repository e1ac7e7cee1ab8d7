"""Concurrent clients of one store over HTTP: every object is a linearizable register.

Clients read, list, create, replace and delete a few objects through all servers of a store at once.
tests/linearizability.py checks the history of their calls.
"""

import contextlib
import http.client
import itertools
import json
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.conftest import Server
from tests.e2e.cluster import serving, wait_for_workers, workers
from tests.linearizability import Operation, linearizable, register
from tests.storage.etcd_server import Member, free_port, shared_etcd
from tests.storage.postgresql_server import Server as PostgresqlServer
from tests.storage.postgresql_server import binaries, shared_postgresql

needs_postgresql = pytest.mark.skipif(binaries() is None, reason="no PostgreSQL is installed")

KEYS = ("a", "b", "c")
MAPS = "/api/v1/namespaces/default/configmaps"
REQUIRED_KINDS = {"get", "create", "put", "delete"}
"""The kinds of calls that must have succeeded before a run is checked."""
TIMEOUT_SECONDS = 60.0
REFUSED = -1
_prefixes = itertools.count(1)


@dataclass
class Client:
    """A client with a connection to one server at a time, and its history."""

    name: str
    ports: Sequence[Callable[[], int]]
    chance: random.Random
    history: dict[str, list[Operation]] = field(default_factory=lambda: {key: [] for key in KEYS})
    last_versions: dict[str, int] = field(default_factory=dict)
    connection: http.client.HTTPConnection | None = None
    writes: int = 0

    def step(self) -> None:
        """Send one random call to a random server."""
        if self.connection is None or self.chance.random() < 0.2:
            self.leave()
            port = self.chance.choice(self.ports)()
            self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        weights = (6, 3, 3, 4, 2, 2)
        kinds = (self.get, self.list, self.create, self.replace, self.overwrite, self.delete)
        (kind,) = self.chance.choices(kinds, weights)
        kind(self.chance.choice(KEYS))

    def get(self, key: str) -> None:
        self._note(key, "get", None, *self._call("GET", f"{MAPS}/{key}"))

    def list(self, _key: str) -> None:
        limit = self.chance.choice(("", "?limit=2"))
        called, returned, code, page = self._call("GET", MAPS + limit)
        items = {item["metadata"]["name"]: item for item in page.get("items", ())}
        if code == 200 and limit and "continue" in page["metadata"]:
            # The next page has the revision of the first, whenever it is read.
            token = page["metadata"]["continue"]
            _, _, code, next_page = self._call("GET", f"{MAPS}{limit}0&continue={token}")
            items |= {item["metadata"]["name"]: item for item in next_page.get("items", ())}
        if code != 200:
            return
        for key in KEYS:
            outcome = (200, items[key]) if key in items else (404, {})
            self._note(key, "get", None, called, returned, *outcome)

    def create(self, key: str) -> None:
        body = self._body(key, self._value())
        self._note(key, "create", body["data"]["v"], *self._call("POST", MAPS, body))

    def replace(self, key: str) -> None:
        """Replace the version that this client saw last."""
        if key in self.last_versions:
            self._put(key, self._value(), self.last_versions[key])

    def overwrite(self, key: str) -> None:
        """Replace any version, at times with the value that may be stored already."""
        self._put(key, self.chance.choice(("same", self._value())), None)

    def delete(self, key: str) -> None:
        self._note(key, "delete", None, *self._call("DELETE", f"{MAPS}/{key}"))

    def leave(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _put(self, key: str, value: str, expected: int | None) -> None:
        body = self._body(key, value)
        if expected is not None:
            body["metadata"]["resourceVersion"] = str(expected)
        self._note(key, "put", (value, expected), *self._call("PUT", f"{MAPS}/{key}", body))

    def _value(self) -> str:
        self.writes += 1
        return f"{self.name}-{self.writes}"

    def _body(self, key: str, value: str) -> Any:
        return {"metadata": {"name": key}, "data": {"v": value}}

    def _call(self, method: str, path: str, body: Any = None) -> tuple[float, float, int, Any]:
        """The times of the call and of its return, the status (0 without a response, REFUSED
        without a connection) and the body."""
        content = None if body is None else json.dumps(body)
        called = time.monotonic()
        try:
            assert self.connection is not None
            self.connection.request(method, path, content, {"Content-Type": "application/json"})
            response = self.connection.getresponse()
            code, outcome = response.status, json.loads(response.read())
        except ConnectionRefusedError:
            self.leave()
            code, outcome = REFUSED, {}
        except (OSError, http.client.HTTPException):
            self.leave()
            code, outcome = 0, {}
        return called, time.monotonic(), code, outcome

    def _note(
        self,
        key: str,
        kind: str,
        argument: Any,
        called: float,
        returned: float,
        code: int,
        response: Any,
    ) -> None:
        if code == REFUSED:  # no server has seen the call
            return
        outcome = None
        if code in (200, 201):
            if kind == "delete":
                outcome = ("ok", None, "")
                self.last_versions.pop(key, None)
            else:
                version = int(response["metadata"]["resourceVersion"])
                outcome = ("ok", version, response["data"]["v"])
                self.last_versions[key] = version
        elif code == 404:
            outcome = ("absent", None, "")
        elif code == 409:
            outcome = ("exists" if kind == "create" else "conflict", None, "")
        else:
            assert code in (0, 429, 500, 503, 504), (code, response)
            if kind == "get":
                return
        returned_at = returned if outcome is not None else None
        self.history[key].append(Operation(kind, called, returned_at, argument, outcome, self.name))


def run_clients(
    ports: Sequence[Callable[[], int]], count: int, seconds: float, disturb: Callable[[], None]
) -> dict[str, list[Operation]]:
    """Run clients while something happens, and on a busy machine until the run is worth checking;
    return the history of each object."""
    clients = [Client(f"c{number}", ports, random.Random(number)) for number in range(count)]
    deadline = time.monotonic() + seconds
    failed: list[BaseException] = []

    def work(client: Client) -> None:
        try:
            while time.monotonic() < deadline or not (
                _succeeded(clients) >= REQUIRED_KINDS
                or time.monotonic() > deadline + TIMEOUT_SECONDS
            ):
                client.step()
                if client.connection is None:  # the server is restarting
                    time.sleep(0.01)
        except BaseException as error:
            failed.append(error)
        finally:
            client.leave()

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        disturb()
    finally:
        for thread in threads:
            thread.join(2 * TIMEOUT_SECONDS)
    if failed:
        raise failed[0]
    assert _succeeded(clients) >= REQUIRED_KINDS
    return {
        key: [operation for client in clients for operation in client.history[key]] for key in KEYS
    }


def _succeeded(clients: Sequence[Client]) -> set[str]:
    """The kinds of calls that have succeeded."""
    operations = (
        operation
        for client in clients
        for history in client.history.values()
        for operation in history
    )
    return {
        operation.kind
        for operation in operations
        if operation.outcome and operation.outcome[0] == "ok"
    }


def check(histories: dict[str, list[Operation]]) -> None:
    """Assert that the history of each object is linearizable."""
    for key, history in histories.items():
        text = "\n".join(map(str, sorted(history, key=lambda operation: operation.called)))
        assert linearizable(history, register, None), f"no order explains {key}:\n{text}"


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    """Starts servers, and stops them at the end."""
    with ExitStack() as stack:

        def start(**settings: Any) -> Server:
            server = Server(**settings)
            stack.callback(server.end)
            return server

        yield start


def over_etcd(*members: Member) -> dict[str, str]:
    return {
        "storage": "etcd:" + ",".join(member.url for member in members),
        "etcd_prefix": f"/linear-{next(_prefixes)}-{time.monotonic_ns()}",
    }


def over_postgresql(server: PostgresqlServer) -> dict[str, str]:
    return {
        "storage": server.url,
        "postgresql_schema": f"linear_{next(_prefixes)}_{time.monotonic_ns()}",
    }


def no_faults() -> None:
    """Does nothing."""


def port_of(server: Server) -> Callable[[], int]:
    return lambda: server.api.port


def test_one_server_over_sqlite(start: Callable[..., Server], tmp_path: Path) -> None:
    """Objects of one server over SQLite are linearizable."""
    server = start(storage=f"sqlite:{tmp_path / 'store.db'}")
    check(run_clients([port_of(server)], 6, 1.0, no_faults))


def test_two_servers_over_etcd(start: Callable[..., Server]) -> None:
    """Objects of two servers over one etcd are linearizable, whichever server a client uses."""
    settings = over_etcd(shared_etcd())
    servers = [start(**settings), start(**settings)]
    check(run_clients([port_of(server) for server in servers], 6, 2.0, no_faults))


@pytest.mark.parametrize("backend", ["sqlite", "etcd"])
def test_while_servers_restart(backend: str, start: Callable[..., Server], tmp_path: Path) -> None:
    """Objects are linearizable while servers restart."""
    if backend == "sqlite":
        settings, count = {"storage": f"sqlite:{tmp_path / 'store.db'}"}, 1
    else:
        settings, count = over_etcd(shared_etcd()), 2
    servers = [start(**settings) for _ in range(count)]

    def restart() -> None:
        for round_number in range(4):
            at = round_number % count
            time.sleep(0.2)
            servers[at].end()
            servers[at] = start(**settings)

    ports = [lambda at=at: servers[at].api.port for at in range(count)]
    check(run_clients(ports, 5, 1.6, restart))


@pytest.mark.slow
def test_while_workers_are_killed(tmp_path: Path) -> None:
    """Objects of a server with several workers are linearizable while workers are killed, and no
    connection is refused."""
    port = free_port()
    flags = ("--workers=3", f"--insecure-port={port}")
    prefix = f"/linear-{next(_prefixes)}-{time.monotonic_ns()}"
    with serving(tmp_path / "workers", shared_etcd(), prefix, *flags) as server:
        refused = []

        def kill() -> None:
            for chance in range(6):
                time.sleep(0.2)
                victim = random.Random(chance).choice(workers(server))
                os.kill(victim, signal.SIGKILL)
                wait_for_workers(server, 3, but=victim)

        def ask() -> int:
            with contextlib.suppress(ConnectionResetError):  # it may reach a worker that is killed
                try:
                    socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS).close()
                except ConnectionRefusedError as error:
                    refused.append(error)
            return port

        check(run_clients([ask], 6, 5.0, kill))
        assert not refused


@needs_postgresql
@pytest.mark.slow
def test_two_servers_over_postgresql(start: Callable[..., Server]) -> None:
    """Objects of two servers over one PostgreSQL are linearizable."""
    settings = over_postgresql(shared_postgresql())
    servers = [start(**settings), start(**settings)]
    check(run_clients([port_of(server) for server in servers], 6, 10.0, no_faults))


@needs_postgresql
@pytest.mark.slow
def test_while_postgresql_crashes(start: Callable[..., Server]) -> None:
    """Objects of two servers are linearizable while PostgreSQL crashes, and servers restart."""
    server = PostgresqlServer()
    server.start()
    try:
        settings = over_postgresql(server)
        servers = [start(**settings), start(**settings)]

        def kill() -> None:
            for round_number in range(4):
                time.sleep(1.5)
                server.crash()
                time.sleep(1)
                at = round_number % 2
                servers[at].end()
                servers[at] = start(**settings)

        ports = [lambda at=at: servers[at].api.port for at in range(2)]
        check(run_clients(ports, 6, 15, kill))
    finally:
        server.remove()


@pytest.mark.slow
def test_while_leaders_change(start: Callable[..., Server]) -> None:
    """Objects are linearizable while the leader of a cluster of three is killed repeatedly."""
    peers = {name: free_port() for name in ("one", "two", "three")}
    members = [Member(name, peers) for name in peers]
    with contextlib.ExitStack() as stack:
        for member in members:
            stack.callback(member.remove)
            member.start()
        for member in members:
            member.wait()
        settings = over_etcd(*members)
        servers = [start(**settings), start(**settings)]

        def kill() -> None:
            for member in members * 2:
                time.sleep(1.5)
                member.kill()
                time.sleep(1)
                member.start()
                member.wait()

        check(run_clients([port_of(server) for server in servers], 6, 18, kill))


@pytest.mark.slow
def test_for_longer(start: Callable[..., Server]) -> None:
    """Objects of two servers over one etcd are linearizable with more clients, for half a
    minute."""
    settings = over_etcd(shared_etcd())
    servers = [start(**settings), start(**settings)]
    check(run_clients([port_of(server) for server in servers], 12, 30, no_faults))
