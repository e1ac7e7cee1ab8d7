"""The port without TLS, as curl and a web page reach it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.programs import Server, start, stop
from tests.storage.etcd_server import free_port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with RBAC and an insecure port."""
    folder = tmp_path_factory.mktemp("insecure")
    running = start(folder, f"--insecure-port={free_port()}")
    yield running
    stop(running)


def url_of(server: Server) -> str:
    match = re.search(
        r"without TLS: (http://127\.0\.0\.1:\d+)", (server.folder / "log").read_text()
    )
    assert match is not None
    return match[1]


def test_warning(server: Server) -> None:
    """The server warns that everybody who reaches the port is an administrator."""
    log = (server.folder / "log").read_text()
    assert log.count("everybody on this machine who reaches the port is a cluster administ") == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((), 200),
        (("Host: localhost",), 200),
        (("Host: evil.example",), 421),
        (("Host: localhost.evil.example",), 421),
        (("Origin: https://evil.example",), 403),
        (("Origin: null",), 403),
        (("Sec-Fetch-Site: cross-site",), 403),
    ],
)
def test_requests(server: Server, headers: tuple[str, ...], status: int) -> None:
    """A program on this machine is an administrator; a web page gets nothing."""
    arguments = [part for header in headers for part in ("-H", header)]
    command = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", *arguments]
    path = f"{url_of(server)}/api/v1/secrets"
    process = subprocess.run(
        [*command, path], capture_output=True, text=True, timeout=60, check=True
    )
    assert int(process.stdout) == status
