"""The PostgreSQL store on a full and on a damaged disk."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kapiserver.storage.errors import Corrupt, OutcomeUnknown, Refused, StorageError
from kapiserver.storage.postgresql import connections
from kapiserver.storage.postgresql.store import PostgresqlStore
from tests.storage.postgresql_server import Server, binaries
from tests.storage.postgresqlkit import Open, opened, run_sql, schema, tables
from tests.storage.recorder import Recorder

__all__ = ["opened", "schema", "tables"]
pytestmark = [
    pytest.mark.skipif(binaries() is None, reason="no PostgreSQL is installed"),
    pytest.mark.slow,
]

PAGE_BYTES = 8192


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that PostgreSQL can reach, which runs as another user. Not `tmp_path`: each pytest
    that starts closes the folder of all of them to other users."""
    with tempfile.TemporaryDirectory(prefix="postgresql-disk-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture
def disk(folder: Path) -> Iterator[Path]:
    """A file system of 96 MB."""
    point = folder / "disk"
    point.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=96m,mode=0777", "tmpfs", str(point)]
    if os.getuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    try:
        yield point
    finally:
        subprocess.run(["umount", str(point)], check=True)


def fill(disk: Path) -> Path:
    """Use up the space of a file system; return the file that does."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        try:
            while True:
                file.write(bytes(1 << 16))
                file.flush()
        except OSError:
            return ballast


async def write_on(view: PostgresqlStore, acknowledged: list[str]) -> None:
    """Write until an error; collect the keys."""
    for number in range(1000):
        await view.create(f"/a/{number}", secrets.token_bytes(100_000))
        acknowledged.append(f"/a/{number}")


async def test_full_disk(opened: Open, disk: Path, folder: Path) -> None:
    """On a full disk a write fails with PostgreSQL's message, reads and watches go on, and the
    store is not writable; when there is space again, all goes on."""
    server = Server(data=disk / "data", log=folder / "log")
    server.start()
    try:
        async with opened(server.url) as view:
            recorder = Recorder()
            view.watch("/a/", after=await view.current_revision(), sink=recorder)
            await view.create("/a/first", b"1")
            ballast = fill(disk)
            acknowledged: list[str] = ["/a/first"]
            with pytest.raises(Refused, match="No space left on device"):
                await write_on(view, acknowledged)
            with pytest.raises(Refused, match="No space left on device"):
                await view.writable()
            stored = [item.key for item in (await view.range("/a/")).items]
            assert stored == sorted(acknowledged)
            ballast.unlink()
            await view.create("/a/last", secrets.token_bytes(100_000))
            await view.writable()
            assert [event.key for event in await recorder.count(len(acknowledged) + 1)] == [
                *acknowledged,
                "/a/last",
            ]
    finally:
        server.remove()


async def test_no_space_for_the_log_of_transactions(
    opened: Open, disk: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL crashes when it cannot write its log. The write says that its outcome is unknown,
    and no acknowledged write is lost."""
    monkeypatch.setattr(connections, "RETRY_SECONDS", 0.0)
    server = Server(data=folder / "data", log=disk / "log")
    server.start()
    try:
        async with opened(server.url) as view:
            await view.create("/a/first", b"1")
            ballast = fill(disk)
            acknowledged: list[str] = ["/a/first"]
            with pytest.raises(OutcomeUnknown):
                await write_on(view, acknowledged)
            ballast.unlink()
            server.crash()  # it may be recovering already, which a quiet end would wait for
            stored = {item.key for item in (await view.range("/a/")).items}
            assert stored >= set(acknowledged)
            await view.create("/a/last", b"")
    finally:
        server.remove()


async def test_damaged_page(opened: Open) -> None:
    """A page that differs from its checksum is an error of the reads that need it; others work."""
    server = Server()
    server.start()
    try:
        async with opened(server.url) as view:
            for number in range(200):
                await view.create(f"/a/{number:03}", secrets.token_bytes(1000))
        (row,) = await run_sql(
            "SELECT pg_relation_filepath(oid) FROM pg_class WHERE relname = 'log'", url=server.url
        )
        server.stop()
        with (server.data / str(row[0])).open("r+b") as file:
            file.seek(3 * PAGE_BYTES + 4000)
            file.write(secrets.token_bytes(64))
        server.start()
        async with opened(server.url) as view:
            assert (await view.get("/a/000")).item is not None
            with pytest.raises(Corrupt, match="invalid page in block 3"):
                await view.range("/a/")
            problems = []
            for number in range(200):
                try:
                    await view.get(f"/a/{number:03}")
                except StorageError as error:
                    problems.append(error)
            assert 0 < len(problems) < 20
            assert all(isinstance(error, Corrupt) for error in problems)
            assert not any(isinstance(error, OutcomeUnknown) for error in problems)
            await view.create("/a/new", b"")
    finally:
        server.remove()
