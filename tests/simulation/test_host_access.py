"""kwok's Logs, Exec, Attach and PortForward, which let simulated pods use the server's machine."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, stream
from kubernetes.stream.ws_client import RESIZE_CHANNEL

from kapiserver.testing import TestServer
from tests.simulation.pod_clients import POD, add_pod, core_client, execute

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore::DeprecationWarning",
    "ignore::UserWarning:kr8s",
)


def rule(kind: str, name: str = "web", **spec: Any) -> dict[str, Any]:
    namespaced = {} if kind.startswith("Cluster") else {"namespace": "default"}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name} | namespaced,
        "spec": spec,
    }


@pytest.fixture(scope="module")
def simulating() -> Iterator[TestServer]:
    with TestServer(simulate=True, simulate_host_access=True) as server:
        yield server


@pytest.fixture
def server(simulating: TestServer) -> TestServer:
    simulating.reset()
    add_pod(simulating)
    return simulating


@pytest.fixture
def core(server: TestServer) -> client.CoreV1Api:
    return core_client(server)


CRI = """\
2023-11-14T22:13:20.5Z stdout F one
2023-11-14T22:13:30.5Z stderr F two
2023-11-14T22:13:40.5Z stdout F three
"""


def test_logs(server: TestServer, core: client.CoreV1Api, tmp_path: Path) -> None:
    """A file in the format of container runtimes, or of plain lines; an object of the cluster is
    for the containers that none of the pod's name is for."""
    (tmp_path / "cri").write_text(CRI)
    (tmp_path / "plain").write_text("hello\nworld")
    files = {"logsFile": str(tmp_path / "cri"), "previousLogsFile": str(tmp_path / "plain")}
    server.state.load([
        rule("ClusterLogs", "a", selector={"matchNames": ["no"]}, logs=[{"logsFile": "/no"}]),
        rule("ClusterLogs", "b", selector={"matchNamespaces": ["default"]}, logs=[files]),
    ])  # fmt: skip

    def log(**options: Any) -> str:
        text = core.read_namespaced_pod_log("web", "default", container="app", **options)
        assert isinstance(text, str)
        return text

    assert log() == "one\ntwo\nthree\n"
    assert log(tail_lines=1) == "three\n"
    assert log(limit_bytes=5) == "one\nt"
    assert log(tail_lines=1, timestamps=True) == "2023-11-14T22:13:40.000000000Z three\n"
    server.state.load([rule("Logs", logs=[{"containers": ["app"], "logsFile": "/does/not/exist"}])])
    with pytest.raises(client.ApiException, match="failed to open log file"):
        log()
    other = core.read_namespaced_pod_log("web", "default", container="log")
    assert "started with image" in other


def test_followed_file(server: TestServer, core: client.CoreV1Api, tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("one\npart")
    server.state.load([rule("Logs", logs=[{"logsFile": str(file)}])])
    response = core.read_namespaced_pod_log(
        "web", "default", container="app", follow=True, _preload_content=False
    )
    lines = iter(response)
    assert next(lines) == b"one\n"
    with file.open("a") as writer:
        writer.write("ial\n")
    assert next(lines) == b"partial\n"
    response.close()


def test_exec(server: TestServer, core: client.CoreV1Api, tmp_path: Path) -> None:
    """A command runs in its directory with its environment; answers of the pod count before."""
    local = {"workDir": str(tmp_path), "envs": [{"name": "COLOUR", "value": "red"}]}
    server.state.load([rule("Exec", execs=[{"containers": ["app"], "local": local}])])
    server.pods.answer("web", ["date"], stdout="today")
    assert execute(core, "sh", "-c", "pwd; echo $COLOUR").read_stdout() == f"{tmp_path}\nred\n"
    assert execute(core, "sh", "-c", "echo no >&2; exit 3").returncode == 3
    assert execute(core, "date").read_stdout() == "today"
    assert execute(core, "/does/not/exist").returncode == 127
    assert execute(core, "ls", container="log").returncode == 127
    running = stream.stream(
        core.connect_get_namespaced_pod_exec, "web", "default", container="app",
        command=["sh", "-c", "read line; echo got $line"], stdin=True, stdout=True,
        _preload_content=False,
    )  # fmt: skip
    running.write_stdin("hello\n")
    running.run_forever(timeout=60)
    assert running.read_stdout() == "got hello\n"


def test_terminal(server: TestServer, core: client.CoreV1Api) -> None:
    """A command has a terminal if its client asks for one: it shows what is typed, its size
    changes, and its hang-up ends the command."""
    server.state.load([rule("Exec", execs=[{"local": {}}])])

    def start(*command: str) -> Any:
        return stream.stream(
            core.connect_get_namespaced_pod_exec, "web", "default", container="app",
            command=list(command), stdin=True, stdout=True, tty=True, _preload_content=False,
        )  # fmt: skip

    running = start("sh", "-c", "read line; stty size; tty; echo $TERM; exit 3")
    running.write_channel(RESIZE_CHANNEL, "not a size\n")
    running.write_channel(RESIZE_CHANNEL, '{"Width": 132, "Height": 50}\n')
    running.write_stdin("hello\n")
    running.run_forever(timeout=60)
    typed, size, terminal, kind = running.read_stdout().splitlines()
    assert (typed, size, kind) == ("hello", "50 132", "xterm")
    assert terminal.startswith("/dev/pts/")
    assert running.returncode == 3
    running = start("/does/not/exist")
    running.run_forever(timeout=60)
    assert running.returncode == 127


def forwarded(core: client.CoreV1Api, port: int) -> Any:
    return stream.portforward(
        core.connect_get_namespaced_pod_portforward, "web", "default", ports=str(port)
    )


def test_ports(server: TestServer, core: client.CoreV1Api) -> None:
    """A port leads to an address, or to the input and output of a command."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(connection.recv(1000).upper())

    thread = threading.Thread(target=serve)
    thread.start()
    target = {"address": "127.0.0.1", "port": listener.getsockname()[1]}
    forwards = [
        {"ports": [80], "target": target},
        {"ports": [81], "command": ["sh", "-c", "read line; echo got $line"]},
        {"ports": [82], "target": {"address": "127.0.0.1", "port": 1}},
    ]
    server.state.load([rule("PortForward", forwards=forwards)])
    for port, text in ((80, b"HELLO\n"), (81, b"got hello\n")):
        connection = forwarded(core, port).socket(port)
        connection.settimeout(60)
        connection.sendall(b"hello\n")
        assert connection.recv(100) == text
        connection.close()
    thread.join(60)
    listener.close()
    refused = forwarded(core, 82)
    connection = refused.socket(82)
    connection.settimeout(60)
    assert connection.recv(1) == b""
    assert "error forwarding port 82 to pod web" in refused.error(82)


def test_port_forward_of_kr8s(server: TestServer) -> None:
    """kr8s opens one connection for each of its connections, in an older form of WebSocket."""
    from kr8s.asyncio import api as make_api
    from kr8s.asyncio.objects import Pod

    command = ["sh", "-c", "read line; echo got $line"]
    server.state.load([rule("PortForward", forwards=[{"command": command}])])

    async def run() -> list[bytes]:
        api = await make_api(kubeconfig=str(server.kubeconfig))
        pod = await Pod.get("web", api=api)
        answers = []
        async with pod.portforward(80) as port:
            for text in (b"one\n", b"two\n"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(text)
                answers.append(await reader.readline())
                writer.close()
        return answers

    assert asyncio.run(run()) == [b"got one\n", b"got two\n"]


def test_without_the_flag(tmp_path: Path) -> None:
    """By default no object lets a pod use this machine."""
    with TestServer(simulate=True) as server:
        server.settle()
        server.state.load([
            POD,
            rule("Logs", logs=[{"logsFile": "/etc/passwd"}]),
            rule("Exec", execs=[{"local": {}}]),
            rule("ClusterAttach", "a", attaches=[{"logsFile": "/etc/passwd"}]),
            rule("PortForward", forwards=[{"target": {"address": "127.0.0.1", "port": 22}}]),
        ])  # fmt: skip
        server.objects.wait_for("pod/web", "condition=Ready")
        core = core_client(server)
        with pytest.raises(client.ApiException, match="needs --simulate-host-access"):
            core.read_namespaced_pod_log("web", "default", container="app")
        with pytest.raises(client.ApiException, match="403"):
            execute(core, "id")
        attach = core.connect_get_namespaced_pod_attach
        with pytest.raises(client.ApiException, match="403"):
            stream.stream(attach, "web", "default", container="app", stdout=True)
        refused = forwarded(core, 80)
        connection = refused.socket(80)
        connection.settimeout(60)
        assert connection.recv(1) == b""
        assert "needs --simulate-host-access" in refused.error(80)
