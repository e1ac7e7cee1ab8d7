"""TestServer: on a thread of its own, on the caller's loop, and what it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import trio

from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.host import Host
from kapiserver.testing import TestServer


def _get(server: TestServer, path: str) -> Any:
    """GET with a synchronous client, as the administrator."""
    request = urllib.request.Request(server.url + path)
    request.add_header("Authorization", f"Bearer {server.token}")
    context = ssl.create_default_context(cafile=server.ca) if server.ca is not None else None
    with urllib.request.urlopen(request, context=context) as response:
        return json.load(response)


def _namespace(name: str) -> Tree:
    return {"metadata": {"name": name}}


def _server_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "kapiserver"]


def test_synchronous_client() -> None:
    """A synchronous client in the same thread as the test gets responses."""
    with TestServer() as server:
        assert _get(server, "/api/v1/namespaces/default")["metadata"]["name"] == "default"
        assert "server: https://127.0.0.1:" in server.kubeconfig_text


def test_client_on_any_loop() -> None:
    """An async test uses the server of a thread from its own loop, and its internal client."""

    async def run() -> None:
        with TestServer() as server:
            async with server.client() as client:
                await client.resource("v1", "namespaces").create({"metadata": {"name": "x"}})
            namespaces = server.internal_client().resource("v1", "namespaces")
            assert (await server.run_async(namespaces.get("x")))["metadata"]["name"] == "x"
            assert server.run(namespaces.get("x"))["metadata"]["name"] == "x"

    asyncio.run(run())


def test_on_the_callers_loop() -> None:
    """`async with` starts no thread; only `run`, which would block the loop, is refused."""

    async def run() -> None:
        before = _server_threads()
        async with TestServer() as server:
            assert _server_threads() == before
            namespaces = server.internal_client().resource("v1", "namespaces")
            assert (await server.run_async(namespaces.get("default")))["kind"] == "Namespace"
            with pytest.raises(RuntimeError, match="use `await`"):
                server.run(namespaces.get("default"))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


def test_shared_host() -> None:
    """Test servers on one loop share a host. One with a seed runs long work on the loop."""

    async def run() -> None:
        host = Host()
        seeded = TestServer(host=host, seed=1)
        async with TestServer(host=host) as first, TestServer(host=host) as second, seeded as third:
            for server in (first, second, third):
                assert server.running.cluster.server.memory_limit is host.memory_limit
            offloaders = [each.running.cluster.server.offloader for each in (first, second, third)]
            assert [each is host.offloader for each in offloaders] == [True, True, False]
            await first.internal_client().resource("v1", "namespaces").create(_namespace("x"))
            with pytest.raises(StatusError, match='namespaces "x" not found'):
                await second.internal_client().resource("v1", "namespaces").get("x")
        with pytest.raises(RuntimeError, match="a host belongs to one event loop"):
            TestServer(host=host).start()

    asyncio.run(run())


def test_on_a_loop_of_trio() -> None:
    """The error says what to do: the methods of other threads work."""

    async def run() -> None:
        with TestServer() as server:
            with pytest.raises(RuntimeError, match="in a thread, as in"):
                await server.reset_async()
            await trio.to_thread.run_sync(server.reset)

    trio.run(run)


def test_settings() -> None:
    """Settings may be written as a test writes them."""
    settings: dict[str, Any] = {
        "rbac": False,
        "controllers": ["*", "-endpoints-controller"],
        "feature_gates": {"WatchList": False},
        "runtime_config": {"api/beta": True},
        "emulated_version": "1.34",
        "enable_admission_plugins": ["NodeRestriction"],
    }
    with TestServer(**settings) as server:
        config = server.running.cluster.server.config
        assert config.authorization.authorization_mode == ("AlwaysAllow",)
        assert config.controller_manager.controllers == ("*", "-endpoints-controller")
        assert "WatchList" not in config.features.feature_gates
        assert config.features.runtime_config == "api/beta=true"
        assert config.admission.enable_admission_plugins == ("NodeRestriction",)
        assert _get(server, "/version")["minor"] == "34"


def test_plain_http() -> None:
    """Without TLS there are no certificates, and there is a kubeconfig."""
    with TestServer(tls=False) as server:
        assert server.url == server.insecure_url
        assert server.ca is None
        assert f"server: {server.url}\n" in server.kubeconfig_text
        assert _get(server, "/api/v1/namespaces/default")["kind"] == "Namespace"
    with TestServer(insecure=True) as server:
        assert server.insecure_url.startswith("http://")
        assert server.url.startswith("https://")


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"feature_gate": {}}, TypeError, "no setting feature_gate; did you mean feature_gates"),
        ({"feature_gates": {"X": True}}, ValueError, "unrecognized feature gate: X"),
        ({"controllers": ["x"]}, ValueError, '"x" is not in the list of known controllers'),
        ({"controllers": "-x"}, TypeError, "controllers must be a list, not '-x'"),
        ({"emulated_version": 1.34}, TypeError, "emulated_version must be text, not 1.34"),
        ({"rbac": "no"}, TypeError, "rbac must be True or False, not 'no'"),
        ({"secure_port": "0"}, TypeError, "secure_port must be an integer, not '0'"),
        ({"workers": True}, TypeError, "workers must be an integer, not True"),
        ({"feature_gates": ["WatchList"]}, TypeError, "feature_gates must be a dict or text"),
    ],
)
def test_unusable_settings(settings: Any, error: type[Exception], message: str) -> None:
    """`start` raises the server's error, and leaves no thread."""
    before = _server_threads()
    server = TestServer(**settings)
    with pytest.raises(error, match=message):
        server.start()
    assert _server_threads() == before


def test_not_running() -> None:
    """Attributes of a server that does not run, and a second start, raise RuntimeError."""
    server = TestServer(tls=False)
    for use in (lambda: server.url, server.state.snapshot, server.reset, server.state.dump):
        with pytest.raises(RuntimeError, match="not running"):
            use()
    with server, pytest.raises(RuntimeError, match="running"):
        server.start()
    with server:  # empty again
        assert _get(server, "/api/v1/namespaces")["items"]
    with pytest.raises(RuntimeError, match="not running"):
        server.state.snapshot()


def test_stop_with_open_connections() -> None:
    """Stopping closes the connections of clients that do nothing, in TLS or before its handshake,
    and ends watches."""
    with TestServer(insecure=True) as server, contextlib.ExitStack() as stack:
        address = (server.url.rpartition("/")[2].split(":")[0], int(server.url.rpartition(":")[2]))
        plain = stack.enter_context(socket.create_connection(address))
        context = ssl.create_default_context(cafile=server.ca)
        idle = stack.enter_context(
            context.wrap_socket(socket.create_connection(address), server_hostname="127.0.0.1")
        )
        watch = stack.enter_context(
            urllib.request.urlopen(f"{server.insecure_url}/api/v1/namespaces?watch=1")
        )
        assert json.loads(watch.readline())["type"] == "ADDED"
        server.stop()
        assert idle.recv(1) == b""
        assert plain.recv(1) == b""
        assert all(json.loads(line) for line in watch)


def test_start_and_first_write_load_no_http_client() -> None:
    """aiohttp takes longer to load than a server to start; only calls of webhooks by way of a proxy
    and clients need it."""
    code = """
import sys
from kapiserver.testing import TestServer

with TestServer() as server:
    maps = server.internal_client().resource("v1", "configmaps", namespace="default")
    server.run(maps.create({"metadata": {"name": "one"}}))
print("aiohttp" in sys.modules)
"""
    printed = subprocess.check_output([sys.executable, "-W", "error", "-c", code], text=True)
    assert printed == "False\n"


@pytest.mark.parametrize("handler", ["", "atexit.register(server.stop)"])
def test_server_that_nobody_stops(tmp_path: Path, handler: str) -> None:
    """The interpreter exits without a word, and deletes the server's files; a handler may stop the
    server then."""
    code = f"""
import atexit, tempfile
tempfile.tempdir = {str(tmp_path)!r}
from kapiserver.testing import TestServer

server = TestServer()
{handler}
server.start()
print(server.url)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("https://")
    assert ended.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_busy_server_that_nobody_stops() -> None:
    """The interpreter exits without a word while threads of the server are at work."""
    code = """
import http.client, itertools, json, logging, threading
from kapiserver.testing import TestServer

logging.getLogger("kapiserver").setLevel(logging.ERROR)
server = TestServer(insecure_port=0)
server.start()
numbers, is_busy = itertools.count(), threading.Event()
data = {str(key): "x" * 50 for key in range(3000)}

def write():
    connection = http.client.HTTPConnection(server.insecure_url.removeprefix("http://"))
    while True:
        number = next(numbers)
        body = json.dumps({"metadata": {"name": f"m{number}"}, "data": data})
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/api/v1/namespaces/default/configmaps", body, headers)
        connection.getresponse().read()
        if number > 20:
            is_busy.set()

threading.excepthook = lambda _: None  # of the clients
for _ in range(4):
    threading.Thread(target=write, daemon=True).start()
is_busy.wait()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
