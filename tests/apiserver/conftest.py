"""A server in a thread of this process, and a plain HTTP client for it."""

import asyncio
import contextlib
import http.client
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.app import serve

JSON = "application/json"


@dataclass(frozen=True)
class Response:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return self.json["message"]

    @property
    def warnings(self) -> list[str]:
        return self.headers.get_all("Warning") or []


class Api:
    """An HTTP client for one server. It encodes bodies as JSON and sends bytes unchanged.

    Its connections serve one request after another, since a new one costs as much as the request.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self._idle: list[http.client.HTTPConnection] = []

    def __enter__(self) -> "Api":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. A later request opens another."""
        while self._idle:
            self._idle.pop().close()

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        type: str = JSON,
        accept: str = JSON,
        headers: dict[str, str] | None = None,
    ) -> Response:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent_headers = {"Accept": accept} | (headers or {})
        if data is not None and type:
            sent_headers["Content-Type"] = type
        if self._idle:
            with contextlib.suppress(ConnectionError):  # the server has closed an idle connection
                return self._send(self._idle.pop(), method, path, data, sent_headers)
        return self._send(self._connection(), method, path, data, sent_headers)

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        data: bytes | None,
        headers: dict[str, str],
    ) -> Response:
        is_reusable = False
        try:
            connection.request(method, path, body=data, headers=headers)
            response = connection.getresponse()
            body = response.read()
            is_reusable = response.status != 101 and not response.will_close
        finally:
            if is_reusable:
                self._idle.append(connection)
            else:
                connection.close()
        return Response(response.status, response.headers, body)

    def get(self, path: str, **options: Any) -> Response:
        return self("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any) -> Response:
        return self("POST", path, body, **options)

    def put(self, path: str, body: Any, **options: Any) -> Response:
        return self("PUT", path, body, **options)

    def patch(self, path: str, body: Any, type: str = "merge", **options: Any) -> Response:
        type = {
            "json": "application/json-patch+json",
            "merge": "application/merge-patch+json",
            "strategic": "application/strategic-merge-patch+json",
        }.get(type, type)
        return self("PATCH", path, body, type=type, **options)

    def delete(self, path: str, body: Any = None, **options: Any) -> Response:
        return self("DELETE", path, body, **options)

    def watch(self, path: str, *, accept: str = JSON) -> "Stream":
        connection = self._connection()
        connection.request("GET", path, headers={"Accept": accept})
        return Stream(connection, connection.getresponse())


class Stream:
    """An open watch. `event` reads the next event."""

    def __init__(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> None:
        self.connection = connection
        self.response = response

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.response.close()
        self.connection.close()

    def event(self) -> Any:
        line = self.response.readline()
        return json.loads(line) if line else None

    def events(self, count: int) -> list[Any]:
        return [self.event() for _ in range(count)]


def run_server(started: "threading.Event", ended: "list[Any]", config: Config) -> None:
    async def run() -> None:
        stop = asyncio.Event()
        async with serve(config) as running:
            ended.extend((asyncio.get_running_loop(), stop, running))
            started.set()
            await stop.wait()
        for _ in range(20):  # later turns of the loop close the connections accepted last
            await asyncio.sleep(0)

    try:
        asyncio.run(run())
    finally:
        started.set()


class Server:
    """A server that runs in a thread. `api` is its client, `end` stops it."""

    def __init__(self, **settings: Any) -> None:
        """Start a server; `settings` are the arguments of its Config."""
        started, handles = threading.Event(), []
        config = Config.of(secure_port=None, insecure_port=0, shutdown_timeout=1, **settings)
        self._thread = threading.Thread(
            target=run_server, args=(started, handles, config), daemon=True
        )
        self._thread.start()
        started.wait(60)
        self.loop, self._stop, self.running = handles
        self.api = Api(int(self.running.url.rpartition(":")[2]))

    def compact(self) -> None:
        """Compact the store at its current revision."""

        async def run() -> None:
            kv = self.running.cluster.kv
            await kv.compact(await kv.current_revision())

        asyncio.run_coroutine_threadsafe(run(), self.loop).result(60)

    def stored(self, key: str) -> bytes:
        """Return the value of a key of the store."""

        async def run() -> bytes:
            item = (await self.running.cluster.kv.get(key)).item
            assert item is not None, key
            return item.value

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(60)

    def begin_end(self) -> None:
        """Tell the server to drain, without waiting."""
        self.loop.call_soon_threadsafe(self._stop.set)

    def end(self) -> None:
        """Drain the server and wait until its thread ends."""
        self.api.close()
        if self._thread.is_alive():
            self.begin_end()
        self._thread.join(60)


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server for one test, which the test may stop."""
    server = Server()
    yield server
    server.end()


@pytest.fixture
def make_server() -> Iterator[Callable[..., Server]]:
    """A function that starts servers with the given settings; they stop after the test."""
    servers: list[Server] = []

    def make(**settings: Any) -> Server:
        servers.append(Server(**settings))
        return servers[-1]

    yield make
    for server in servers:
        server.end()


def api_of_new_server() -> Iterator[Api]:
    """The function of a fixture `api` for a module whose tests add many API groups."""
    server = Server()
    yield server.api
    server.end()


@pytest.fixture(scope="session")
def api() -> Iterator[Api]:
    """The server that tests share."""
    yield from api_of_new_server()


_numbers = itertools.count(1)


@pytest.fixture
def namespace(api: Api) -> str:
    """The name of a new namespace for one test."""
    name = f"test-{next(_numbers)}"
    response = api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    assert response.status == 201, response.body
    return name


@pytest.fixture
def core(namespace: str) -> str:
    """The path of the core resources in that namespace."""
    return f"/api/v1/namespaces/{namespace}"


@pytest.fixture
def apps(namespace: str) -> str:
    """The path of the apps resources in that namespace."""
    return f"/apis/apps/v1/namespaces/{namespace}"


@pytest.fixture
def deployment(api: Api, apps: str) -> str:
    """The path of a new Deployment `d` with one replica and a container `c`."""
    body = {
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }
    assert api.post(f"{apps}/deployments", body).status == 201
    return f"{apps}/deployments/d"


@pytest.fixture
def no_errors(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The test logs no error: a handler of changes that fails would lose them."""
    yield
    assert not [record for record in caplog.get_records("call") if record.levelname == "ERROR"]
