"""A server on a full disk."""

from __future__ import annotations

import asyncio
import functools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from kapiserver.storage.backends import open_store
from kapiserver.storage.objects.continue_token import SECRET
from tests.apiserver.conftest import Api
from tests.e2e.cluster import CONFIGMAPS, call, create, names, open_response
from tests.e2e.programs import Server, start, stop
from tests.storage.etcd_server import free_port

if sys.platform == "linux":
    import resource
else:
    pytest.skip("limits of other processes are Linux's", allow_module_level=True)

SIZE_LIMIT = 2_000_000
"""Size limit of the server's files, in bytes."""


def limit_files(pid: int, size: int) -> None:
    """Let a process write to files only below a size, as a quota does."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_a_full_disk(tmp_path: Path) -> None:
    """On a full disk writes are 500 with a Status, reads succeed and /readyz fails; with space
    again everything works without a restart, and acknowledged writes exist, also after a
    restart."""
    server = start(tmp_path)
    try:
        create(server, "before")
        limit_files(server.process.pid, SIZE_LIMIT)
        acknowledged = ["before"]
        for number in range(2 * SIZE_LIMIT // 10_000):
            body = {"metadata": {"name": f"c{number}"}, "data": {"x": "x" * 10_000}}
            with open_response(server, "POST", CONFIGMAPS, body) as response:
                status_body = json.loads(response.read())
            if response.status != 201:
                break
            acknowledged.append(f"c{number}")
        assert (status_body["code"], status_body["message"]) == (500, "sqlite: disk I/O error")
        assert len(acknowledged) > 2
        call(server, "GET", f"{CONFIGMAPS}/before")
        with open_response(server, "GET", "/readyz") as response:
            assert response.status == 500
            assert "[-]etcd-readiness failed" in response.read().decode()
        with open_response(server, "GET", "/livez") as response:
            assert response.status == 200
        limit_files(server.process.pid, resource.RLIM_INFINITY)
        with open_response(server, "GET", "/readyz") as response:
            assert response.status == 200
        create(server, "later")
        acknowledged.append("later")
        assert set(names(call(server, "GET", CONFIGMAPS))) >= set(acknowledged)
    finally:
        stop(server)
    server = start(tmp_path)
    try:
        assert set(names(call(server, "GET", CONFIGMAPS))) >= set(acknowledged)
    finally:
        stop(server)


class Disk(Protocol):
    """The disk of a server's files."""

    folder: Path

    def fill(self) -> Callable[[], None]:
        """Leave no byte free; the result is called in the server's process before it starts."""

    def free(self, server: Server) -> None:
        """Make space."""


class LimitedFiles:
    """A disk on which a process may write no file at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> Callable[[], None]:
        return functools.partial(
            resource.setrlimit, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY)
        )

    def free(self, server: Server) -> None:
        limit_files(server.process.pid, resource.RLIM_INFINITY)


class SmallFileSystem:
    """A file system of 4 MB."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("this user may not mount a file system")

    def fill(self) -> Callable[[], None]:
        with (self.folder / "filler").open("ab", 0) as filler:
            for size in (4096, 1):
                try:
                    while True:
                        filler.write(bytes(size))
                except OSError:
                    pass
        return int

    def free(self, server: Server) -> None:
        (self.folder / "filler").unlink()


@pytest.fixture(params=[LimitedFiles, pytest.param(SmallFileSystem, marks=pytest.mark.slow)])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Disk]:
    """A disk that a test can fill."""
    disk: Disk = request.param(tmp_path)
    yield disk
    if isinstance(disk, SmallFileSystem):
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_start_on_another_port(tmp_path: Path) -> None:
    """A server that cannot write its new port to the kubeconfig says so, and serves."""
    assert stop(start(tmp_path)) == 0
    written = (tmp_path / "kubeconfig").read_bytes()
    port = free_port()
    command = [
        sys.executable, "-m", "kapiserver", "serve", "--bind-address", "127.0.0.1",
        "--secure-port", "0", "--insecure-port", str(port), "--data-dir", str(tmp_path / "data"),
        "--cert-dir", str(tmp_path / "certificates"),
        "--kubeconfig-out", str(tmp_path / "kubeconfig"),
    ]  # fmt: skip
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=LimitedFiles(tmp_path).fill(),
    )
    assert process.stdout is not None
    greeting = process.stdout.readline()
    assert "serves https://127.0.0.1:" in greeting
    with Api(port) as api:
        assert api.get("/version").status == 200
    process.terminate()
    output, log = process.communicate()
    url = greeting.split()[-1]
    assert "KUBECONFIG" not in output
    assert f"clients that use it do not find this server, which serves {url}; free some" in log
    assert (tmp_path / "kubeconfig").read_bytes() == written


async def _forget_token_secret(path: Path) -> None:
    store = await open_store(f"sqlite:{path}")
    item = (await store.get(f"/registry{SECRET}")).item
    assert item is not None
    await store.delete(item.key, expected=item.revision)
    await store.close()


@pytest.mark.parametrize("after", ["stop", "kill", "no-secret"])
def test_start_on_a_full_disk(disk: Disk, after: str) -> None:
    """A server starts on a disk without a free byte, after a stop and after a kill. Lists are
    complete, in pages too, even if the store has no secret for continue tokens; writes are 500.
    With space again everything works."""
    folder, port = disk.folder, f"--secure-port={free_port()}"
    server = start(folder, port)
    created = [f"c{number}" for number in range(5)]
    for name in created:
        create(server, name)
    if after == "kill":
        server.process.kill()
        server.process.wait()
    else:
        assert stop(server) == 0
    if after == "no-secret":
        asyncio.run(_forget_token_secret(folder / "data" / "kapiserver.db"))
    server = start(folder, port, before_exec=disk.fill())
    try:
        listed = []
        token = ""
        while token is not None:
            page = call(server, "GET", f"{CONFIGMAPS}?limit=2&continue={token}")
            listed += names(page)
            token = page["metadata"].get("continue")
        assert set(listed) >= set(created)
        assert listed == names(call(server, "GET", CONFIGMAPS))
        body = {"metadata": {"name": "refused"}, "data": {"x": "x" * 10_000}}
        call(server, "POST", CONFIGMAPS, body, status=500)
        disk.free(server)
        with open_response(server, "GET", "/readyz") as response:
            assert response.status == 200, response.read()
        create(server, "later")
    finally:
        assert stop(server) == 0
