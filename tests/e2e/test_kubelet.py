"""Logs, exec, attach and port-forward, passed on to a kubelet that another process plays."""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from tests.apiserver.proxy.upstreams import machine_address
from tests.e2e.programs import ROOT, Server, kubectls, run, start, stop

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {
        "nodeName": "real",
        "containers": [{"name": "app", "image": "a"}, {"name": "broken", "image": "b"}],
    },
}


class Kubelet(NamedTuple):
    """The process, and the requests that it has printed."""

    process: subprocess.Popen[str]
    port: int
    requests: queue.Queue[list[Any]]

    def request(self) -> tuple[str, str, dict[str, str], Any]:
        """The next request: method, target, headers and the subject of the certificate."""
        method, target, headers, subject = self.requests.get(timeout=60)
        return method, target, dict(headers), subject


@contextmanager
def running_kubelet(host: str, folder: Path) -> Iterator[Kubelet]:
    """A process with a certificate of the CA in a folder."""
    serving = ensure_certificates(Config.of(bind_address=host), folder)
    files = (serving.serving.certificate, serving.serving.key, serving.ca)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.kubelet_program", host, *map(str, files)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    output, requests = process.stdout, queue.Queue[list[Any]]()
    port = int(output.readline())
    reader = threading.Thread(target=lambda: [requests.put(json.loads(line)) for line in output])
    reader.start()
    try:
        yield Kubelet(process, port, requests)
    finally:
        process.kill()
        process.wait()
        reader.join(60)
        output.close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kubelet")


@pytest.fixture(scope="module")
def kubelet(certificates: Path) -> Iterator[Kubelet]:
    with running_kubelet(machine_address(), certificates) as running:
        yield running


@pytest.fixture(scope="module")
def server(
    certificates: Path, kubelet: Kubelet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server that knows the CA of the kubelet, and has a pod on its node."""
    credentials = ensure_certificates(Config.of(bind_address=machine_address()), certificates)
    running = start(
        tmp_path_factory.mktemp("server"),
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={credentials.ca}",
        f"--kubelet-client-certificate={credentials.admin.certificate}",
        f"--kubelet-client-key={credentials.admin.key}",
    )
    create(running, node_of("real", machine_address(), kubelet.port))
    create(running, POD)
    patch = ["patch", "pod", "web", "--subresource=status", '-p={"status": {"phase": "Running"}}']
    run(kubectls()[0], running, *patch)
    yield running
    stop(running)


def node_of(name: str, address: str, port: int, *features: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "declaredFeatures": list(features),
        },
    }


def create(server: Server, manifest: dict[str, Any]) -> None:
    run(kubectls()[0], server, "create", "-f", "-", stdin=json.dumps(manifest))


@pytest.fixture(autouse=True)
def _only_new_requests(kubelet: Kubelet) -> None:
    while not kubelet.requests.empty():
        kubelet.requests.get()


def test_logs(server: Server, kubelet: Kubelet, kubectl_program: Path) -> None:
    """The log arrives as the kubelet sends it; options are passed on; the server shows its
    certificate."""
    assert run(kubectl_program, server, "logs", "web", "-c", "app", "--tail=5") == "one\ntwo\n"
    method, target, _, subject = kubelet.request()
    path, _, query = target.partition("?")
    assert (method, path) == ("GET", "/containerLogs/default/web/app")
    assert "tailLines=5" in query.split("&")
    assert [["commonName", "kubernetes-admin"]] in subject
    assert run(kubectl_program, server, "logs", "web", "-c", "app", "-f") == "one\ntwo\n"
    output = run(kubectl_program, server, "logs", "web", "-c", "app", "--previous", fails=True)
    assert "there is no previous container" in output
    output = run(kubectl_program, server, "logs", "web", "-c", "app", "--limit-bytes=1", fails=True)
    assert "the server could not find the requested resource ( pods/log web)" in output


def test_exec(
    server: Server, kubelet: Kubelet, kubectl_program: Path, transport: dict[str, str]
) -> None:
    """Input, output and the exit code pass through, in large amounts too."""

    def execute(*command: str, **options: Any) -> str:
        arguments = ["exec", "-i", "web", "-c", "app", "--", *command]
        return run(kubectl_program, server, *arguments, **options, **transport)

    assert execute("echo", "a b&c") == "a b&c"
    method, target, headers, _ = kubelet.request()
    path, _, query = target.partition("?")
    assert (method, path) == ("POST", "/exec/default/web/app")
    assert query == "command=echo&command=a+b%26c&error=1&input=1&output=1"
    assert headers["Upgrade"] == "SPDY/3.1"
    assert "Authorization" not in headers
    text = "hello world " * 200_000
    assert execute("upper", stdin=text) == text.upper()
    assert execute("exit", "7", fails=True) == "failed\ncommand terminated with exit code 7\n"


def test_attach(server: Server, kubectl_program: Path, transport: dict[str, str]) -> None:
    output = run(kubectl_program, server, "attach", "web", "-c", "app", **transport)
    assert output.endswith("attached\n")


def test_broken_runtime(server: Server, kubectl_program: Path, transport: dict[str, str]) -> None:
    arguments = ["exec", "web", "-c", "broken", "--", "ls"]
    output = run(kubectl_program, server, *arguments, fails=True, **transport)
    assert "the runtime is broken" in output or "Internal Server Error" in output


def test_port_forward(
    server: Server, kubelet: Kubelet, kubectl_program: Path, transport: dict[str, str]
) -> None:
    """Several connections pass through at the same time."""
    home = {"KUBECONFIG": str(server.kubeconfig), "HOME": str(server.folder)}
    process = subprocess.Popen(
        [kubectl_program, "port-forward", "--address=127.0.0.1", "pod/web", ":80"],
        env=os.environ | home | transport,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        port = int(line.partition("127.0.0.1:")[2].partition(" ")[0])
        connections = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(3)]
        for number, connection in enumerate(connections):
            connection.sendall(b"%d" % number * 100_000)
            connection.shutdown(socket.SHUT_WR)
        for number, connection in enumerate(connections):
            with connection, connection.makefile("rb") as reader:
                assert reader.read() == b"%d" % number * 100_000
    finally:
        process.kill()
        process.communicate()
    method, target, headers, _ = kubelet.request()
    assert (method, target) == ("POST", "/portForward/default/web")
    assert headers["X-Stream-Protocol-Version"] == "portforward.k8s.io"


@pytest.mark.parametrize(
    ("address", "port", "message"),
    [
        ("127.0.0.1", 10250, "address not allowed"),
        ("169.254.169.254", 80, "address not allowed"),
        ("no host", 1, "lookup no host: no such host"),
        ("kubelet.invalid", 1, "no such host"),
    ],
)
def test_addresses(server: Server, address: str, port: int, message: str) -> None:
    """The server connects to no address that only it can reach."""
    name = f"node-{port}-{len(address)}"
    create(server, node_of(name, address, port))
    pod = json.loads(json.dumps(POD))
    pod["metadata"]["name"], pod["spec"]["nodeName"] = name, name
    create(server, pod)
    for command in (["logs", name, "-c", "app"], ["exec", name, "-c", "app", "--", "ls"]):
        assert message in run(kubectls()[0], server, *command, fails=True)


def test_kubelet_that_goes(certificates: Path, server: Server) -> None:
    """The client of a command learns that the kubelet is lost."""
    with running_kubelet(machine_address(), certificates) as kubelet:
        create(server, node_of("lost", machine_address(), kubelet.port))
        pod = json.loads(json.dumps(POD))
        pod["metadata"]["name"], pod["spec"]["nodeName"] = "lost", "lost"
        create(server, pod)
        home = {"KUBECONFIG": str(server.kubeconfig), "HOME": str(server.folder)}
        process = subprocess.Popen(
            [kubectls()[0], "exec", "-i", "lost", "-c", "app", "--", "hang"],
            env=os.environ | home,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "hanging\n"
        kubelet.process.kill()
        _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "lost connection to the kubelet" in error
    output = run(kubectls()[0], server, "logs", "lost", "-c", "app", fails=True)
    assert "connect: connection refused" in output
