"""The files of sockets: permissions, leftovers of crashes, and who may connect."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kapiserver.rpc.relay import Relay
from kapiserver.rpc.serving import Addresses, serve_rpc
from kapiserver.rpc.sockets import SocketFile, SocketInUse, is_allowed, peer_uid
from tests.rpc.groups import ROOT, connected, dummy, probe, probe_client, renamed, served

PYTHON = Path("/usr/bin/python3")
"""An interpreter that other users can run, too."""


def test_permissions(tmp_path: Path) -> None:
    """Only the owner can use the socket and its directory."""
    file = SocketFile(tmp_path / "run" / "x.sock")
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    file.close()
    assert not file.path.exists()


def test_a_directory_that_others_can_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match="other users can replace files"):
        SocketFile(tmp_path / "x.sock")


def test_a_live_socket_is_refused(tmp_path: Path) -> None:
    """Whether this program serves it or another one."""
    path = tmp_path / "x.sock"
    file = SocketFile(path)
    with pytest.raises(SocketInUse, match="in use by another process"):
        SocketFile(path)
    file.close()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen(1)
        with pytest.raises(SocketInUse, match="in use by another process"):
            SocketFile(path)
    SocketFile(path).close()


def test_other_files_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "x.sock").write_text("precious")
    with pytest.raises(FileExistsError, match="not a socket"):
        SocketFile(tmp_path / "x.sock")
    assert (tmp_path / "x.sock").read_text() == "precious"
    with pytest.raises(OSError, match="at most 107 bytes"):
        SocketFile(tmp_path / f"{'x' * 107}.sock")


def test_a_crashed_server_is_replaced(tmp_path: Path) -> None:
    """A server that was killed leaves its socket; the next one serves there, and a third is told
    that it is in use."""
    command = [
        sys.executable, "-m", "kapiserver.cli", "rpc", "serve", "examples/rpc",
        "--socket-dir", str(tmp_path),
    ]  # fmt: skip

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == f"serving unix:{tmp_path}/rpc-dummy-v1.sock\n"
        return process

    async def double() -> int:
        async with connected(tmp_path / "rpc-dummy-v1.sock", dummy().versions[0]) as client:
            answer: int = (await client("ComputeDouble", input=21)).response
            return answer

    with start() as process:
        process.kill()
    assert (tmp_path / "rpc-dummy-v1.sock").exists()
    with start() as process:
        assert asyncio.run(double()) == 42
        third = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert third.returncode == 1
        assert third.stderr.startswith(f"kapiserver: {tmp_path}/rpc-dummy-v1.sock is in use")
        assert asyncio.run(double()) == 42
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == []


def test_peers() -> None:
    """The server's own user and root may connect."""
    server_end, client_end = socket.socketpair()
    with server_end, client_end:
        assert peer_uid(server_end) == os.geteuid()
    assert is_allowed(os.geteuid())
    assert is_allowed(0)
    assert is_allowed(None)
    assert not is_allowed(os.geteuid() + 1)


def test_a_stranger_is_refused_even_if_the_modes_let_it_in(tmp_path: Path, caplog) -> None:
    """The check of the peer does not rest on the modes of files."""
    caplog.set_level(logging.WARNING)

    async def run() -> None:
        file = SocketFile(tmp_path / "x.sock")
        relay = Relay(file, tmp_path / "none", max_connections=1, uid_of=lambda _: 12345)
        relay.start()
        for _ in range(3):  # more than the connections that may be open
            reader, writer = await asyncio.open_unix_connection(str(file.path))
            assert await asyncio.wait_for(reader.read(), 20) == b""
            writer.close()
        await relay.stop_accepting()
        relay.close()

    asyncio.run(run())
    assert caplog.text.count("refused a connection of user id 12345") == 3


@pytest.mark.skipif(
    os.geteuid() != 0 or not PYTHON.exists(),
    reason="only root can become another user, who needs a Python",
)
def test_another_user_cannot_connect(tmp_path: Path) -> None:
    """Another user cannot connect to the socket, even if its modes would allow it."""
    connect = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.settimeout(20); print(s.recv(1))"
    )

    async def attempt(path: Path) -> str:
        process = await asyncio.create_subprocess_exec(
            PYTHON, "-c", connect, str(path), user=65534, group=65534, extra_groups=[],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/",
        )  # fmt: skip
        output, _ = await process.communicate()
        return output.decode()

    async def run() -> None:
        async with served(tmp_path / "run", [probe()]) as listening:
            path = listening.sockets[0]
            assert "PermissionError" in await attempt(path)
            for folder in (path.parent, *path.parents[1:-2]):
                folder.chmod(0o711)
            path.chmod(0o666)
            assert await attempt(path) == "b''\n"

    asyncio.run(run())


def test_connections_are_bounded(tmp_path: Path) -> None:
    """A connection beyond the bound waits until another one ends."""

    async def run() -> None:
        async with probe_client(tmp_path / "run") as client:
            assert (await client("Echo", text="x")).text == "x"
            target = SocketFile(tmp_path / "y.sock")
            relay = Relay(target, tmp_path / "run" / "test-probe-v1.sock", max_connections=1)
            relay.start()
            _, first = await asyncio.open_unix_connection(str(target.path))
            group = probe()
            async with connected(target.path, group.versions[0]) as second:
                call = second("Echo", text="second")
                done, _ = await asyncio.wait([asyncio.ensure_future(call)], timeout=0.2)
                assert not done
                first.close()
                assert (await call).text == "second"
            await relay.stop_accepting()
            relay.close()

    asyncio.run(run())


def test_two_groups_need_two_names(tmp_path: Path) -> None:
    async def run() -> None:
        with pytest.raises(ValueError, match="test-probe-v1"):
            async with served(tmp_path, [probe(), probe()]):
                pass

    asyncio.run(run())
    assert list(tmp_path.iterdir()) == []


def test_tcp_needs_certificates() -> None:
    async def run() -> None:
        with pytest.raises(ValueError, match="RPC over TCP needs a certificate"):
            async with serve_rpc([], Addresses(tcp="127.0.0.1:0")):
                pass

    asyncio.run(run())


def test_a_failed_start_leaves_no_socket(tmp_path: Path) -> None:
    """If one socket is in use, those before it are removed."""

    async def run() -> None:
        groups = [renamed(probe(), name="a"), renamed(probe(), name="b")]
        with pytest.raises(SocketInUse):
            async with served(tmp_path, [groups[1]]), served(tmp_path, groups):
                pass
        assert not (tmp_path / "test-a-v1.sock").exists()
        async with served(tmp_path, groups):
            assert (tmp_path / "test-b-v1.sock").exists()

    asyncio.run(run())
