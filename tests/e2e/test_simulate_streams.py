"""Logs, exec, attach and port-forward of simulated pods with every kubectl, in both protocols.

`tests/clients/test_kubectl_releases.py` runs these tests with the releases between.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import socketserver
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.programs import Server, kubectls, run, start, stop

PREFIX = "simulation.kapiserver.dev"
STARTED = "simulated container web: started with image docker.io/library/nginx:latest\n"
ANSWERS = """[
  {"command": ["cat", "/etc/hosts"], "stdout": "127.0.0.1 localhost\\n"},
  {"command": ["false"], "stderr": "no\\n", "exitCode": 3}
]"""
FORWARD = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: PortForward
metadata: {{name: web}}
spec:
  forwards:
  - ports: [7]
    target: {{address: 127.0.0.1, port: {port}}}
"""
EXEC = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Exec
metadata: {{name: host}}
spec:
  execs:
  - local: {{envs: [{{name: USED, value: here}}]{context}}}
"""

Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def simulating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a running pod."""
    running = start(tmp_path_factory.mktemp("streams"), "--simulate", "--simulate-host-access")
    newest = kubectls()[0]
    annotations = f"{PREFIX}/exec={ANSWERS}"
    run(newest, running, "run", "web", "--image=nginx", f"--annotations={annotations}")
    run(newest, running, "wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
    yield running
    stop(running)


@pytest.fixture
def debugging_program() -> Path:
    """A kubectl of 1.25 or later; servers since 1.25 refuse the ephemeral containers of others."""
    return kubectls()[0]


def test_exec(simulating: Server, kubectl_program: Path, transport: dict[str, str]) -> None:
    """A command writes, returns its exit code, and reads what is piped into it."""
    output = run(kubectl_program, simulating, "exec", "web", "--", "cat", "/etc/hosts", **transport)
    assert output == "127.0.0.1 localhost\n"
    output = run(kubectl_program, simulating, "exec", "web", "--", "false", fails=True, **transport)
    assert output == "no\ncommand terminated with exit code 3\n"
    command = ["exec", "-i", "web", "--", "cat", "/etc/hosts"]
    assert run(kubectl_program, simulating, *command, stdin="x" * 100_000, **transport)
    command = ["exec", "-i", "web", "--", "cat"]
    assert (
        run(kubectl_program, simulating, *command, stdin="x" * 100_000, **transport)
        == "x" * 100_000
    )
    output = run(
        kubectl_program, simulating, "exec", "web", "-c=no", "--", "ls", fails=True, **transport
    )
    assert "container no is not valid for pod web" in output


def test_cp(
    simulating: Server, kubectl_program: Path, transport: dict[str, str], tmp_path: Path
) -> None:
    """Files and folders that are copied into a container can be read, and copied back."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_text("one\n")
    (tmp_path / "big").write_bytes(bytes(range(256)) * 4096)

    def kubectl(*arguments: str, **options: bool) -> str:
        return run(kubectl_program, simulating, *arguments, **options, **transport)

    kubectl("cp", str(tmp_path / "big"), "web:/tmp/big")
    kubectl("cp", str(tmp_path / "folder"), "web:/data")
    assert kubectl("exec", "web", "--", "cat", "/data/a") == "one\n"
    kubectl("cp", "web:/tmp/big", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == (tmp_path / "big").read_bytes()
    kubectl("cp", "web:/data", str(tmp_path / "copy"))
    assert (tmp_path / "copy" / "a").read_text() == "one\n"
    output = kubectl("cp", "web:/absent", str(tmp_path / "absent"), fails=True)
    assert "No such file or directory" in output


def test_logs(simulating: Server, kubectl_program: Path) -> None:
    assert run(kubectl_program, simulating, "logs", "web") == STARTED
    assert run(kubectl_program, simulating, "logs", "web", "--tail=0") == ""
    assert run(kubectl_program, simulating, "logs", "web", "--limit-bytes=9") == STARTED[:9]
    assert run(kubectl_program, simulating, "logs", "web", "--timestamps").endswith(f"Z {STARTED}")
    assert run(kubectl_program, simulating, "logs", "web", "--since=1h") == STARTED
    output = run(kubectl_program, simulating, "logs", "web", "--previous", fails=True)
    assert 'previous terminated container "web" in pod "web" not found' in output


def test_attach_and_follow(
    simulating: Server, kubectl_program: Path, transport: dict[str, str]
) -> None:
    """Both get the lines of a container, and end with it."""
    newest = kubectls()[0]
    run(newest, simulating, "run", "job", "--image=nginx", "--restart=Never")
    run(newest, simulating, "wait", "--for=condition=Ready", "pod/job", "--timeout=60s")
    home = {"KUBECONFIG": str(simulating.kubeconfig), "HOME": str(simulating.folder)}
    following = [
        subprocess.Popen(
            [kubectl_program, *arguments], env=os.environ | home | transport,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for arguments in (["logs", "-f", "job"], ["attach", "job"])
    ]  # fmt: skip
    attached = following[1]
    assert attached.stderr is not None
    while "try pressing enter" not in attached.stderr.readline():
        assert attached.poll() is None
    time.sleep(0.5)  # kubectl shows nothing when the stream is open
    run(newest, simulating, "annotate", "pod", "job", f"{PREFIX}/log=hello")
    run(newest, simulating, "annotate", "pod", "job", f"{PREFIX}/exit-code=0")
    outputs = [process.communicate(timeout=60)[0] for process in following]
    started = "simulated container job: started with image docker.io/library/nginx:latest\n"
    lines = "hello\nsimulated container job: ended with exit code 0\n"
    assert outputs == [started + lines, lines]
    assert [process.returncode for process in following] == [0, 0]
    assert run(newest, simulating, "logs", "job") == started + lines
    run(newest, simulating, "delete", "pod", "job", "--now")


def test_port_forward(simulating: Server, kubectl_program: Path, transport: dict[str, str]) -> None:
    """kubectl listens, and reports why a port cannot be reached."""
    home = {"KUBECONFIG": str(simulating.kubeconfig), "HOME": str(simulating.folder)}
    process = subprocess.Popen(
        [kubectl_program, "port-forward", "--address=127.0.0.1", "pod/web", ":80"],
        env=os.environ | home | transport,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        port = int(line.partition("127.0.0.1:")[2].partition(" ")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            assert connection.recv(1) == b""
        assert "runs no program that listens on port 80" in process.stderr.readline()
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back what it gets."""

    class Handler(socketserver.StreamRequestHandler):
        rbufsize = 0

        def handle(self) -> None:
            shutil.copyfileobj(self.rfile, self.wfile)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.parametrize(
    "context", ["", ", securityContext: {runAsUser: 65534, runAsGroup: 65534}"]
)
def test_programs_of_the_machine(simulating: Server, context: str) -> None:
    """A program of the machine runs, as another user if the server may do that."""
    newest = kubectls()[0]
    if context and os.geteuid() != 0:
        pytest.skip("only root runs programs as others")
    rule = EXEC.format(context=context)
    run(newest, simulating, "apply", "-f", "-", stdin=rule)
    run(newest, simulating, "run", "host", "--image=nginx")
    run(newest, simulating, "wait", "--for=condition=Ready", "pod/host", "--timeout=60s")
    output = run(newest, simulating, "exec", "host", "--", "sh", "-c", "echo $USED; id -u")
    assert output == f"here\n{65534 if context else os.geteuid()}\n"
    run(newest, simulating, "delete", "pod", "host", "--now")


def test_terminal(simulating: Server, kubectl_program: Path, transport: dict[str, str]) -> None:
    """A program of the machine has a terminal, whose size is that of kubectl's."""
    run(kubectls()[0], simulating, "apply", "-f", "-", stdin=EXEC.format(context=""))
    run(kubectls()[0], simulating, "run", "host", "--image=nginx")
    ready = ("wait", "--for=condition=Ready", "pod/host", "--timeout=60s")
    run(kubectls()[0], simulating, *ready)
    ours, theirs = os.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    wait = 'until [ "$(stty size)" = "40 120" ]; do sleep 0.1; done; exit 3'
    arguments = ("exec", "-it", "host", "--", "sh", "-c", wait)
    process = subprocess.Popen(
        [kubectl_program, "--kubeconfig", simulating.kubeconfig, *arguments],
        stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | transport,
    )  # fmt: skip
    os.close(theirs)
    try:
        assert process.wait(60) == 3
    finally:
        process.kill()
        os.close(ours)
    run(kubectls()[0], simulating, "delete", "pod", "host", "--now")


def test_forwarded_data(
    simulating: Server, kubectl_program: Path, transport: dict[str, str], echo: int
) -> None:
    """Data passes both ways, on two connections at once."""
    rule = FORWARD.format(port=echo)
    run(kubectls()[0], simulating, "apply", "-f", "-", stdin=rule)
    home = {"KUBECONFIG": str(simulating.kubeconfig), "HOME": str(simulating.folder)}
    process = subprocess.Popen(
        [kubectl_program, "port-forward", "--address=127.0.0.1", "pod/web", ":7"],
        env=os.environ | home | transport,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        address = ("127.0.0.1", int(line.partition("127.0.0.1:")[2].partition(" ")[0]))
        with (
            socket.create_connection(address, timeout=60) as one,
            socket.create_connection(address, timeout=60) as other,
        ):
            for connection, data in ((one, b"1" * 100_000), (other, b"2" * 100_000)):
                connection.sendall(data)
            for connection, digit in ((other, b"2"), (one, b"1")):
                received = b""
                while len(received) < 100_000:
                    received += connection.recv(65536)
                assert received == digit * 100_000
    finally:
        process.kill()
        process.communicate()


def test_previous_logs(simulating: Server, kubectl_program: Path) -> None:
    """The log of the run before the present one, and the logs of all pods of a label."""
    newest = kubectls()[0]
    crash = f"--annotations={PREFIX}/exit-code=1"
    run(newest, simulating, "run", "crash", "--image=nginx", crash, "--labels=crash=yes")
    ended = "--for=jsonpath={.status.containerStatuses[0].lastState.terminated.exitCode}=1"
    run(newest, simulating, "wait", ended, "pod/crash", "--timeout=60s")
    lines = run(kubectl_program, simulating, "logs", "crash", "--previous")
    assert lines.endswith("simulated container crash: ended with exit code 1\n")
    output = run(kubectl_program, simulating, "logs", "-l", "crash=yes", "--prefix", "--tail=1")
    assert output.startswith("[pod/crash/crash] simulated container crash: ")
    run(newest, simulating, "delete", "pod", "crash", "--now")


def test_top(simulating: Server, kubectl_program: Path) -> None:
    lines = run(kubectl_program, simulating, "top", "pod", "web", "--containers").splitlines()
    assert [line.split() for line in lines[1:]] == [["web", "web", "1m", "10Mi"]]
    lines = run(kubectl_program, simulating, "top", "node").splitlines()
    assert lines[0].split()[0] == "NAME"
    assert len(lines) == 2


def test_debug(simulating: Server, debugging_program: Path, transport: dict[str, str]) -> None:
    """A debug container runs, and kubectl attaches to it, or shows its log if it has ended."""
    newest = kubectls()[0]
    run(newest, simulating, "run", "sick", "--image=nginx")
    run(newest, simulating, "wait", "--for=condition=Ready", "pod/sick", "--timeout=60s")
    run(newest, simulating, "annotate", "pod", "sick", f"{PREFIX}/exit-code.doctor=0")

    def debug(*arguments: str) -> str:
        return run(debugging_program, simulating, "debug", *arguments, **transport)

    output = debug("-i", "sick", "--image=busybox", "-c=doctor", "--target=sick")
    assert "simulated container doctor: ended with exit code 0" in output
    debug("sick", "--image=busybox", "--copy-to=copy", "--share-processes")
    run(newest, simulating, "wait", "--for=condition=Ready", "pod/copy", "--timeout=60s")
    run(newest, simulating, "delete", "pod", "sick", "copy", "--now")


def test_resumed_copy(
    simulating: Server, debugging_program: Path, transport: dict[str, str], tmp_path: Path
) -> None:
    """A copy with `--retries` reads the archive in another way."""

    def cp(*arguments: str) -> None:
        run(debugging_program, simulating, "cp", *arguments, **transport)

    (tmp_path / "big").write_bytes(bytes(range(256)) * 4096)
    cp(str(tmp_path / "big"), "web:/tmp/big")
    cp("--retries=3", "web:/tmp/big", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == (tmp_path / "big").read_bytes()
