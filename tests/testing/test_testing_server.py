"""The program `kapiserver testing-server`: its line, its end, its settings."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kapiserver.cli import main
from kapiserver.testing.settings import parse_setting

SECONDS = 60


@contextmanager
def running(*flags: str, stdin: Any = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    """A running testing-server."""
    command = [sys.executable, "-m", "kapiserver", "testing-server", *flags]
    with subprocess.Popen(
        command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def description_of(process: subprocess.Popen[str]) -> Any:
    """The line that the program prints when it is ready."""
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def get(server: Any, path: str) -> Any:
    """GET of the Kubernetes API, with the token and the CA of the line."""
    headers = {"Authorization": f"Bearer {server['token']}"}
    request = urllib.request.Request(server["url"] + path, headers=headers)
    context = ssl.create_default_context(cafile=server["ca"])
    with urllib.request.urlopen(request, context=context) as response:
        return json.load(response)


def test_line_and_end_of_input(tmp_path: Path) -> None:
    """The line says how to reach the server; the server ends when its input is closed, and its
    files are deleted."""
    ready = tmp_path / "ready.json"
    with running("--setting=emulated-version=1.36", f"--ready-file={ready}") as process:
        server = description_of(process)
        assert json.loads(ready.read_bytes()) == server
        assert ready.stat().st_mode & 0o777 == 0o600
        assert server["pid"] == process.pid
        assert get(server, "/version")["minor"] == "36"
        assert server["url"] in Path(server["kubeconfig"]).read_text()
        with urllib.request.urlopen(f"{server['controlUrl']}/openapi.json") as response:
            assert json.load(response)["openapi"] == "3.1.0"
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(SECONDS) == 0
    assert not Path(server["kubeconfig"]).exists()


def test_end_of_parent() -> None:
    """The server ends with the process that --parent-pid names."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as parent:
        flag = f"--parent-pid={parent.pid}"
        with running(flag, stdin=subprocess.DEVNULL) as process:
            description_of(process)
            assert parent.stdin is not None
            parent.stdin.close()
            assert process.wait(SECONDS) == 0


def test_end_of_socket() -> None:
    """A socket as standard input, which Node.js gives its children, ends the server, too."""
    own_socket, peer_socket = socket.socketpair()
    with own_socket, peer_socket, running("-v", stdin=peer_socket) as process:
        peer_socket.close()
        description_of(process)
        own_socket.close()
        assert process.wait(SECONDS) == 0
        assert process.stderr is not None
        assert "standard input was closed" in process.stderr.read()


def test_closed_input() -> None:
    """Without standard input the server ends at a signal; no socket has the place of the input."""
    command = [sys.executable, "-m", "kapiserver", "testing-server"]
    shell = ["sh", "-c", 'exec "$@" <&-', "sh", *command]
    with subprocess.Popen(shell, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["url"]
            process.terminate()
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()


def test_signal() -> None:
    """SIGTERM ends the server. Input that is neither a pipe nor a socket is not read."""
    with running(stdin=subprocess.DEVNULL) as process:
        description_of(process)
        process.terminate()
        assert process.wait(SECONDS) == 0


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--setting=x", "'x' is not of the form NAME=VALUE"),
        ("--setting=rbak=false", "TestServer has no setting rbak; did you mean rbac?"),
        ("--setting=workers=x", "workers is int, not 'x'"),
        ("--setting=rbac=maybe", "rbac must be True or False, not 'maybe'"),
        (f"--parent-pid={2**22 + 1}", f"there is no process {2**22 + 1}"),
    ],
)
def test_bad_flags(flag: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A value that cannot be used is an error of one line."""
    assert main(["testing-server", flag]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("rbac=false", ("rbac", False)),
        ("emulated-version=1.34", ("emulated_version", "1.34")),
        ("feature_gates=WatchList=false,A=true", ("feature_gates", "WatchList=false,A=true")),
        ("controllers=-a, *", ("controllers", ("-a", "*"))),
        ("token_auth_file=/x", ("token_auth_file", "/x")),
        ("workers=2", ("workers", 2)),
        ("another=text", ("another", "text")),
    ],
)
def test_settings(text: str, setting: tuple[str, object]) -> None:
    """The value of a setting has the type of the field of Config."""
    assert parse_setting(text) == setting


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    """The help names the members of the line."""
    with pytest.raises(SystemExit):
        main(["testing-server", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "url, insecureUrl, ca, token, kubeconfig, pid, controlUrl, controlToken" in text
