"""Logs, exec, attach and port-forward of simulated pods, as a test decides and clients see them."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, stream

from kapiserver.testing import TestServer
from tests.simulation.pod_clients import add_pod, core_client, execute

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore::DeprecationWarning",
    "ignore::UserWarning:kr8s",
)
STARTED = "simulated container app: started with image docker.io/library/nginx:latest\n"


@pytest.fixture(scope="module")
def simulating() -> Iterator[TestServer]:
    with TestServer(simulate=True) as server:
        yield server


@pytest.fixture
def server(simulating: TestServer) -> TestServer:
    simulating.reset()
    add_pod(simulating)
    return simulating


@pytest.fixture
def core(server: TestServer) -> client.CoreV1Api:
    return core_client(server)


def test_answers(server: TestServer, core: client.CoreV1Api) -> None:
    """A command gets the answer that the test has set; others say how to set one."""
    server.pods.answer("web", ["cat", "/etc/hosts"], stdout="127.0.0.1 localhost\n")
    server.pods.answer("web", ["false"], stderr="no", exit_code=3)
    server.pods.answer("web", ["false"], stderr="never", exit_code=4)
    server.pods.answer("web", ["false"], container="log", exit_code=5)
    running = execute(core, "cat", "/etc/hosts")
    assert (running.read_stdout(), running.returncode) == ("127.0.0.1 localhost\n", 0)
    running = execute(core, "false")
    assert (running.read_stderr(), running.returncode) == ("never", 4)
    assert execute(core, "false", container="log").returncode == 5
    running = execute(core, "ls", "/")
    assert running.returncode == 127
    assert "runs no program: ls /" in running.read_stderr()
    server.pods.answer("web", exit_code=1)
    assert execute(core, "ls").returncode == 1


def test_lines(server: TestServer, core: client.CoreV1Api) -> None:
    """A container writes the lines that the test lets it write; a follower gets them at once."""
    server.pods.log("web", "one")
    assert core.read_namespaced_pod_log("web", "default", container="app") == f"{STARTED}one\n"
    lines: list[bytes] = []
    has_begun = threading.Event()

    def follow() -> None:
        response = core.read_namespaced_pod_log(
            "web", "default", container="app", follow=True, _preload_content=False
        )
        for line in response:
            lines.append(line)
            has_begun.set()

    follower = threading.Thread(target=follow)
    follower.start()
    assert has_begun.wait(60)
    server.pods.log("web", "two", container="app")
    server.pods.fail("web", exit_code=3, container="app")
    follower.join(60)
    text = b"".join(lines).decode()
    assert text.startswith(f"{STARTED}one\n")
    assert text.endswith("simulated container app: ended with exit code 3\n")
    limited = core.read_namespaced_pod_log("web", "default", container="app", limit_bytes=5)
    assert limited == STARTED[:5]


def test_missing_logs(server: TestServer, core: client.CoreV1Api) -> None:
    with pytest.raises(client.ApiException) as error:
        core.read_namespaced_pod_log("web", "default", container="app", previous=True)
    message = 'previous terminated container "app" in pod "web" not found'
    assert (error.value.status, json.loads(error.value.body)["message"]) == (400, message)


def test_command_in_a_container_that_does_not_run(
    server: TestServer, core: client.CoreV1Api
) -> None:
    server.pods.fail("web", container="app")
    server.clock.advance("2m")
    with pytest.raises(client.ApiException) as error:
        execute(core, "ls")
    assert "500 Internal Server Error" in error.value.reason
    assert 'container not found (\\"app\\")' in error.value.reason


def test_refused_port(server: TestServer, core: client.CoreV1Api) -> None:
    """No program listens in a simulated pod. The older form over WebSocket says so, too."""
    forwarding = stream.portforward(
        core.connect_get_namespaced_pod_portforward, "web", "default", ports="80"
    )
    connection = forwarding.socket(80)
    connection.settimeout(60)
    assert connection.recv(1) == b""
    assert "runs no program that listens on port 80" in forwarding.error(80)


def test_kr8s(server: TestServer) -> None:
    """kr8s speaks version 5 over WebSocket."""
    import kr8s.asyncio.objects as objects
    from kr8s.asyncio import api as make_api

    server.pods.answer("web", ["date"], stdout="today")

    async def run() -> tuple[bytes, list[str]]:
        api = await make_api(kubeconfig=str(server.kubeconfig))
        pod = await objects.Pod.get("web", api=api)
        result = await pod.exec(["date"], container="app")
        return result.stdout, [line async for line in pod.logs(container="app")]

    assert asyncio.run(run()) == (b"today", [STARTED.strip()])


def test_stopped_kubelet(server: TestServer, core: client.CoreV1Api) -> None:
    server.nodes.stop("simulated-0")
    with pytest.raises(client.ApiException, match="connect: connection refused"):
        core.read_namespaced_pod_log("web", "default", container="app")
    server.nodes.start("simulated-0")
    assert core.read_namespaced_pod_log("web", "default", container="app") == STARTED


def test_audit(tmp_path: Path) -> None:
    """The audit log says when a command was asked for, when its streams began, and the end."""
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    rule = {"level": "Metadata", "resources": [{"group": "", "resources": ["pods/exec"]}]}
    kind = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}
    policy.write_text(json.dumps(kind | {"rules": [rule]}))
    settings = {"audit_policy_file": policy, "audit_log_path": str(log)}
    with TestServer(simulate=True, **settings) as server:
        add_pod(server)
        core = core_client(server)
        assert execute(core, "ls").returncode == 127
    events = [json.loads(line) for line in log.read_text().splitlines()]
    stages = [(each["stage"], each.get("responseStatus", {}).get("code")) for each in events]
    started = [("ResponseStarted", 101), ("ResponseComplete", 101)]
    assert stages == [("RequestReceived", None), *started]
    assert "command=ls" in events[0]["requestURI"]


def test_open_streams_end_when_the_server_stops() -> None:
    """A server that stops ends logs and attach; it does not wait for their clients."""
    with TestServer(simulate=True, shutdown_timeout=60.0) as server:
        add_pod(server)
        context = server.ssl_context or ssl.create_default_context()
        path = f"{server.url}/api/v1/namespaces/default/pods/web"
        authorization = {"Authorization": f"Bearer {server.token}"}
        request = urllib.request.Request(f"{path}/log?container=app&follow=1", None, authorization)
        log = urllib.request.urlopen(request, timeout=60, context=context)
        assert log.readline().decode() == STARTED
        attached = attach(server)
    assert attached.recv(1 << 16) in (b"", b"\x82\x01\x01")
    attached.close()
    log.close()


def attach(server: TestServer) -> ssl.SSLSocket | socket.socket:
    """Attach to a container, and return the connection after its handshake."""
    host, _, port = server.url.partition("://")[2].partition(":")
    connection: Any = socket.create_connection((host, int(port)), timeout=60)
    if server.ssl_context is not None:
        connection = server.ssl_context.wrap_socket(connection, server_hostname=host)
    path = "/api/v1/namespaces/default/pods/web/attach?container=app&stdout=1"
    lines = [
        f"GET {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {server.token}",
        "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", "",
    ]  # fmt: skip
    connection.sendall("\r\n".join(lines).encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(1)
    assert head.startswith(b"HTTP/1.1 101 ")
    return connection
