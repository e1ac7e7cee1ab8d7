"""`kapiserver bench`: its figures of a real server, what it leaves behind, and what it refuses."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.benching.figures import Report, as_json, as_text, figures_of
from kapiserver.benching.session import Settings, run
from kapiserver.cli import main
from kapiserver.client import Client
from kapiserver.testing import TestServer

SETTINGS = Settings(seconds=0.05, connections=2, watches=3)


@pytest.fixture(scope="module")
def server() -> Iterator[TestServer]:
    with TestServer() as running:
        yield running


async def _namespaces(server: TestServer) -> set[str]:
    async with Client.from_kubeconfig(server.kubeconfig) as client:
        listed = await client.call("GET", "/api/v1/namespaces")
    return {
        item["metadata"]["name"]
        for item in listed["items"]
        if "deletionTimestamp" not in item["metadata"]
    }


def _left(server: TestServer) -> set[str]:
    """Namespaces of the command that nobody has deleted."""
    return {
        name for name in asyncio.run(_namespaces(server)) if name.startswith("kapiserver-bench")
    }


def test_figures(server: TestServer) -> None:
    """Each measure counts requests or events, none fails, and the namespace is deleted."""
    steps: list[str] = []
    report = asyncio.run(
        run(
            lambda: Client.from_kubeconfig(server.kubeconfig),
            SETTINGS,
            lambda done, total, work: steps.append(f"{done}/{total} {work}".strip()),
        )
    )
    assert report.version.startswith("v1.")
    assert steps[:2] == ["0/6 prepare", "0/6 get"]
    assert steps[-1] == "6/6"
    assert len(report.figures) == 6
    for figures in report.figures:
        assert figures.count > 0
        assert figures.failures == 0
        assert figures.p50_ms <= figures.p90_ms <= figures.p99_ms
    assert report.figures[-1].count == 3  # one change, three watches
    assert _left(server) == set()


def test_interrupted(server: TestServer) -> None:
    """An error in the middle of a run ends it, and the namespace is deleted."""

    def interrupt(done: int, total: int, work: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run(lambda: Client.from_kubeconfig(server.kubeconfig), SETTINGS, interrupt))
    assert _left(server) == set()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_signals(name: str, server: TestServer) -> None:
    """A signal ends the command, and the namespace is deleted."""
    command = [sys.executable, "-m", "kapiserver", "bench", "--seconds=60", "--kubeconfig"]
    with subprocess.Popen([*command, str(server.kubeconfig)]) as process:
        while not _left(server):
            assert process.poll() is None
        process.send_signal(signal.Signals[name])
    assert process.returncode == (130 if name == "SIGINT" else 2)
    assert _left(server) == set()


def test_refused_requests(server: TestServer) -> None:
    """A server that refuses the user ends the run with its message."""
    with pytest.raises(StatusError, match="Unauthorized"):
        asyncio.run(
            run(
                lambda: Client(server.url, ssl_context=server.ssl_context, token="unknown"),
                SETTINGS,
                lambda *_: None,
            )
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["http://192.0.2.1:8080"],
            "is not on this machine, and others may use it; --yes loads it",
        ),
        (["https://127.0.0.1:6443"], "is not a URL of plain HTTP; name others by --kubeconfig"),
        (["--kubeconfig=/nonexistent"], "/nonexistent"),
    ],
)
def test_refusals(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What the command does not do is one line on standard error, and exit status 2."""
    assert main(["bench", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_unreachable(capsys: pytest.CaptureFixture[str]) -> None:
    """So is a server that does not answer."""
    with socket.socket() as claimed:
        claimed.bind(("127.0.0.1", 0))
        assert main(["bench", f"http://127.0.0.1:{claimed.getsockname()[1]}"]) == 2
    assert "Cannot connect" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flag", ["--seconds=61", "--connections=0", "--watches=1001", "--watches=x"]
)
def test_bounds(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The load is bounded."""
    with pytest.raises(SystemExit):
        main(["bench", flag])
    assert "is not a number from 1 to" in capsys.readouterr().err


def test_outputs() -> None:
    """The table has a line for each figure, and JSON has the record."""
    latencies = [number / 1000 for number in range(1, 101)]
    figures = figures_of("get", latencies, failures=2, seconds=2, cpu_seconds=0.01)
    assert (figures.per_second, figures.p50_ms, figures.p99_ms) == (50.0, 51.0, 100.0)
    assert figures.server_us == 100.0
    report = Report(version="v1.37.0", connections=4, figures=[figures], memory_mib=64.2)
    assert as_text(report).splitlines() == [
        "v1.37.0, 4 connections",
        "WORK  PER S  P50 MS  P90 MS  P99 MS  SERVER US  FAILURES",
        "get      50    51.0    91.0   100.0        100         2",
        "memory of the server's process: 64 MiB",
    ]
    assert msgspec.json.decode(as_json(report), type=Report) == report
    nothing = figures_of("watch", [], failures=3, seconds=1)
    assert (nothing.count, nothing.p99_ms, nothing.server_us) == (0, 0.0, None)
