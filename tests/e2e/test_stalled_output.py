"""Output that nobody reads: pipes that are full, for the audit log, standard output and the log."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.apiserver.conftest import Api

SMALL_PIPE = 4096
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {"level": "None", "nonResourceURLs": ["/livez", "/version"]},
        {"level": "Metadata"},
    ],
}
UNREAD, UNOPENED = "unread", "unopened"
"""Named pipes: one is full and open, nobody has opened the other."""
MAPS = "/api/v1/namespaces/default/configmaps"
IMPATIENT = """
from kapiserver import cli
from kapiserver.apiserver.audit import writer

config_of = cli.config_of
cli.config_of = lambda options: config_of(options).replace(shutdown_timeout=1.0)
writer.CLOSE_SECONDS = 1.0
cli.main()
"""
"""The program `kapiserver`, which waits less long for requests and files when it ends."""


class Program(NamedTuple):
    process: subprocess.Popen[bytes]
    port: int

    def wait_until_alive(self) -> Api:
        """The client of a server that answers."""
        api = Api(self.port)
        while self.process.poll() is None:
            with suppress(ConnectionRefusedError):
                if api.get("/livez").status == 200:
                    return api
            time.sleep(0.01)
        raise AssertionError("the server did not start")


@contextmanager
def program(folder: Path, *arguments: str, stdout: int, stderr: int) -> Iterator[Program]:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    (folder / "policy").write_text(yaml.safe_dump(POLICY))
    command = [
        sys.executable, "-c", IMPATIENT, "serve", "--secure-port", "0", "--insecure-port",
        str(port), "--data-dir", str(folder), "--storage", "sqlite::memory:",
        "--audit-policy-file", str(folder / "policy"), *arguments,
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=stdout, stderr=stderr)
    try:
        yield Program(process, port)
    finally:
        process.kill()
        process.wait()


def full_pipe(stack: ExitStack) -> int:
    """The end of a pipe that takes no more bytes, which nobody reads."""
    reader, writer = os.pipe()
    stack.callback(os.close, reader)
    stack.callback(os.close, writer)
    fill(writer)
    return writer


def fill(writer: int) -> None:
    os.set_blocking(writer, False)
    try:
        while os.write(writer, b"." * SMALL_PIPE):
            pass
    except BlockingIOError:
        os.set_blocking(writer, True)


def audited_request(port: int) -> socket.socket:
    """Send a request that is audited; return its connection."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % MAPS.encode())
    return connection


FAST = ("blocking unread", "standard output", "access log")
CASES: dict[str, Sequence[str]] = {
    "blocking unread": ("--audit-log-path", UNREAD),
    "blocking unopened": ("--audit-log-path", UNOPENED),
    "strict unread": ("--audit-log-path", UNREAD, "--audit-log-mode", "blocking-strict"),
    "batch unread": ("--audit-log-path", UNREAD, "--audit-log-mode", "batch"),
    "batch unopened": ("--audit-log-path", UNOPENED, "--audit-log-mode", "batch"),
    "standard output": ("--audit-log-path", "-"),
    "access log": ("--audit-log-path", os.devnull, "-v"),
}
"""Arguments of servers whose output stalls. All have full pipes as standard streams."""


@pytest.mark.parametrize(
    "names", [FAST, pytest.param(tuple(set(CASES) - set(FAST)), marks=pytest.mark.slow)]
)
def test_stalled(names: Sequence[str], tmp_path: Path) -> None:
    """A server whose output nobody reads starts, answers requests that are not audited, and ends
    after SIGTERM. The servers run at the same time, because each waits at its end."""
    with ExitStack() as stack:
        full = full_pipe(stack)
        servers = {}
        for name in names:
            folder = tmp_path / name
            folder.mkdir()
            for pipe in (UNREAD, UNOPENED):
                os.mkfifo(folder / pipe)
            unread = os.open(folder / UNREAD, os.O_RDWR)
            stack.callback(os.close, unread)
            fill(unread)
            arguments = [
                str(folder / each) if each in (UNREAD, UNOPENED) else each for each in CASES[name]
            ]
            servers[name] = stack.enter_context(
                program(folder, *arguments, stdout=full, stderr=full)
            )
        for name, server in servers.items():
            api = stack.enter_context(server.wait_until_alive())
            connection = stack.enter_context(audited_request(server.port))
            if name in ("access log", "batch unread", "batch unopened"):
                assert connection.recv(12) == b"HTTP/1.1 200", name
            for path in ("/livez", "/version"):
                assert api.get(path).status == 200, name
            server.process.send_signal(signal.SIGTERM)
        assert {name: server.process.wait(60) for name, server in servers.items()} == dict.fromkeys(
            names, 0
        )


def test_stacks(tmp_path: Path) -> None:
    """A server whose standard error nobody reads answers after SIGUSR1, which writes stacks, and
    ends after SIGQUIT."""
    with ExitStack() as stack:
        full = full_pipe(stack)
        running = stack.enter_context(program(tmp_path, stdout=full, stderr=full))
        api = stack.enter_context(running.wait_until_alive())
        running.process.send_signal(signal.SIGUSR1)
        for _ in range(2):  # the handler runs between two requests
            assert api.get("/version").status == 200
        running.process.send_signal(signal.SIGQUIT)
        assert running.process.wait(60) == 0


def test_pipe_is_read_again(tmp_path: Path) -> None:
    """The requests that waited for a pipe are answered when it is read, after both of their events
    are in it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ExitStack() as stack:
        null = stack.enter_context(open(os.devnull, "wb")).fileno()
        path = ("--audit-log-path", str(pipe))
        running = stack.enter_context(program(tmp_path, *path, stdout=null, stderr=null))
        stack.enter_context(running.wait_until_alive())
        connection = stack.enter_context(audited_request(running.port))
        with pipe.open("rb") as reader:
            events = [json.loads(reader.readline()) for _ in range(2)]
            assert [event["stage"] for event in events] == ["RequestReceived", "ResponseComplete"]
            assert connection.recv(12) == b"HTTP/1.1 200"
