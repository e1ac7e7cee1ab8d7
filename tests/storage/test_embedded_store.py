"""Properties of the embedded store only: one file, one owner, restarts, bounded growth."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kapiserver.storage.backends import backend_of, open_store
from kapiserver.storage.errors import Compacted, Corrupt, Refused, StoreLocked, Unavailable
from kapiserver.storage.kv.contract import KeyValue, KVEvent, Revision
from kapiserver.storage.kv.expiry import EXPIRY_RETRY_SECONDS
from kapiserver.storage.kv.prefix import prefix_end
from kapiserver.storage.sqlite import embedded_store
from kapiserver.storage.sqlite.database import WAL_LIMIT
from kapiserver.storage.sqlite.embedded_store import (
    EmbeddedStore,
    open_embedded,
)
from tests.clock import ManualClock
from tests.storage.invariants import check_file, check_store
from tests.storage.recorder import Recorder


async def test_the_empty_store_is_revision_1() -> None:
    """A new store is at revision 1, and its first write is revision 2."""
    store = await open_store("sqlite::memory:")
    assert await store.current_revision() == 1
    assert (await store.range("/")).revision == 1
    assert await store.create("/a", b"") == 2
    await store.close()


async def test_survives_a_restart(tmp_path: Path) -> None:
    """Values, the revision, compaction and expiry times survive closing and opening the store."""
    path, clock = tmp_path / "deep" / "store.db", ManualClock()
    store = await open_store(f"sqlite:{path}", clock=clock)
    first = await store.create("/a/x", b"one")
    await store.create("/a/short", b"", ttl=60)
    second = await store.update("/a/x", b"two", expected=first)
    await store.create("/a/y", b"y")
    last = await store.delete("/a/y", expected=Revision(second + 1))
    await store.compact(second)
    await store.close()

    store = await open_store(f"sqlite:{path}", clock=clock)
    assert await store.current_revision() == last
    assert [item.key for item in (await store.range("/")).items] == ["/a/short", "/a/x"]
    with pytest.raises(Compacted):
        await store.get("/a/x", revision=first)
    recorder = Recorder()
    store.watch("/", after=second, sink=recorder)
    await recorder.count(2)
    clock.advance(61)
    assert (await recorder.count(3))[2].key == "/a/short"
    await store.compact(await store.current_revision())
    await store.close()

    store = await open_store(f"sqlite:{path}", clock=clock)
    assert await store.create("/a/z", b"") == last + 2
    await store.close()
    check_file(path)


async def test_acknowledgement_follows_event() -> None:
    """A watch receives a write before the writer gets its acknowledgement."""
    store = await open_store("sqlite::memory:")
    recorder = Recorder()
    store.watch("/", after=Revision(1), sink=recorder)
    for number in range(20):
        await store.create(f"/{number}", b"")
        assert len(recorder.seen) == number + 1
    await store.close()


async def test_reads_are_not_ahead_of_watches(tmp_path: Path) -> None:
    """A read does not show a committed write before the watches have received it."""
    store = await open_embedded(tmp_path / "store.db")
    loop, report = asyncio.get_running_loop(), store._report
    committed, go_on = asyncio.Event(), threading.Event()

    def report_late(commit: Any) -> None:
        loop.call_soon_threadsafe(committed.set)
        go_on.wait(60)
        report(commit)

    store._report = report_late  # type: ignore[method-assign]
    writing = asyncio.create_task(store.create("/a", b""))
    await committed.wait()
    reads = asyncio.gather(store.get("/a"), store.range("/"))
    for _ in range(1000):
        await asyncio.sleep(0)
    go_on.set()
    read, page = await reads
    assert read.revision == page.revision == store.revision == await writing
    await store.close()


async def test_error_of_the_writer_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the writer thread after the store is open is not lost: it ends the thread, with
    its traceback on standard error."""
    errors: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: errors.append(str(args.exc_value)))
    store = await open_store("sqlite::memory:")
    assert isinstance(store, EmbeddedStore)

    report = store._report

    def report_write(results: Any) -> None:
        monkeypatch.setattr(store, "_report", report)
        raise RuntimeError("a fault of the writer")

    monkeypatch.setattr(store, "_report", report_write)
    writing = asyncio.create_task(store.create("/a", b""))
    await asyncio.shield(store._writer_ended)
    store._writer.join()
    assert errors == ["a fault of the writer"]
    writing.cancel()
    await store.close()


async def test_failing_sink() -> None:
    """A sink that raises ends its own watch, and affects neither writers nor other watches."""

    class Broken(Recorder):
        def on_events(self, batch: Sequence[KVEvent]) -> None:
            raise RuntimeError("broken")

    store = await open_store("sqlite::memory:")
    broken, working = Broken(), Recorder()
    store.watch("/", after=Revision(1), sink=broken)
    store.watch("/", after=Revision(1), sink=working)
    await store.create("/a", b"")
    await store.create("/b", b"")
    assert isinstance(await broken.end(), Unavailable)
    assert working.keys() == ["/a", "/b"]
    await store.close()


async def test_one_owner(tmp_path: Path) -> None:
    """Opening a file that another store has open fails, in the same process and in another one."""
    path = tmp_path / "store.db"
    store = await open_embedded(path)
    with pytest.raises(StoreLocked, match=r"store\.db is in use by another kapiserver"):
        await open_embedded(path)
    program = (
        "import asyncio, sys\n"
        "from kapiserver.storage.backends import open_store\n"
        "asyncio.run(open_store(sys.argv[1]))\n"
    )
    process = subprocess.run(  # noqa: ASYNC221 - it ends at once
        [sys.executable, "-c", program, f"sqlite:{path}"], capture_output=True, text=True
    )
    assert "StoreLocked" in process.stderr
    await store.close()
    await (await open_embedded(path)).close()


async def test_file_permissions(tmp_path: Path) -> None:
    """The file is readable by its owner only, because it contains Secrets."""
    path = tmp_path / "store.db"
    store = await open_embedded(path)
    await store.create("/a", b"")
    files = [path, tmp_path / "store.db-wal", tmp_path / "store.db-shm"]
    assert {stat.S_IMODE(os.stat(file).st_mode) for file in files} == {0o600}
    await store.close()


async def test_files_that_are_no_store(tmp_path: Path) -> None:
    """A file of another kind or a newer layout is Corrupt; a path that cannot be created is
    Unavailable."""
    (tmp_path / "rubbish.db").write_bytes(b"no database" * 1000)
    with pytest.raises(Corrupt, match=r"rubbish\.db: file is not a database"):
        await open_embedded(tmp_path / "rubbish.db")
    with sqlite3.connect(tmp_path / "newer.db") as sql:
        sql.execute("PRAGMA user_version = 99")
    sql.close()
    with pytest.raises(Corrupt, match="newer kapiserver"):
        await open_embedded(tmp_path / "newer.db")
    with pytest.raises(Unavailable):
        await open_embedded(tmp_path / "rubbish.db" / "below.db")


@pytest.mark.parametrize(
    ("spec", "is_shared", "durable"),
    [
        ("sqlite::memory:", False, False),
        ("sqlite:/tmp/store.db", False, True),
        ("etcd:http://127.0.0.1:2379", True, True),
    ],
)
def test_backend_of_a_flag(spec: str, is_shared: bool, durable: bool) -> None:
    """The table of backends has the same `shared` and `durable` as the opened store."""
    backend = backend_of(spec)
    assert (backend.shared, backend.durable) == (is_shared, durable)


@pytest.mark.parametrize("spec", ["", "sqlite", "sqlite:", "mysql:x", ":memory:"])
async def test_unknown_backends(spec: str) -> None:
    """An unknown backend in the flag is a ValueError that lists the known ones."""
    with pytest.raises(ValueError, match="sqlite:"):
        await open_store(spec)


async def limit_pages(store: EmbeddedStore, pages: int) -> None:
    """Limit the database to a number of pages; SQLite then fails as on a full disk."""
    await store._submit(lambda database: database._sql.execute(f"PRAGMA max_page_count = {pages}"))


async def test_no_space(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """On a full disk writes fail and the log says so once; acknowledged writes stay readable, and
    writes succeed again when there is space."""
    path = tmp_path / "store.db"
    store = await open_embedded(path)
    revisions = [await store.create("/0", b"0")]
    await limit_pages(store, 40)
    with suppress(Refused):
        while True:
            revisions.append(await store.create(f"/{len(revisions)}", bytes(3000)))
    with pytest.raises(Refused, match="full"):
        await store.create("/more", bytes(30_000))
    assert [record_or_item.message for record_or_item in caplog.records] == [
        "writes fail: sqlite: database or disk is full"
    ]
    assert len((await store.range("/")).items) == len(revisions)
    await limit_pages(store, 4000)
    await store.writable()
    revisions.append(await store.create("/more", bytes(30_000)))
    assert caplog.records[-1].message == "writes succeed again"
    await store.close()
    check_file(path)
    store = await open_embedded(path)
    assert {record_or_item.revision for record_or_item in (await store.range("/")).items} == set(
        revisions
    )
    await store.close()


def files_with(text: bytes, folder: Path) -> list[str]:
    """The names of the files in a folder that contain some bytes."""
    return [file.name for file in folder.iterdir() if text in file.read_bytes()]


async def test_compaction_scrubs_values(tmp_path: Path) -> None:
    """After compaction, overwritten and deleted values of any size are in none of the files;
    current values are."""
    store = await open_embedded(tmp_path / "store.db")
    sizes = (20, 300, 1500, 3000, 6000, 40_000)
    live_value, secret = b"kept-in-the-store", b"secret-of-yesterday"

    def value(text: bytes, size: int) -> bytes:
        return text * (size // len(text) + 1)

    for round_number in range(4):
        revisions = await asyncio.gather(
            *(
                store.create(f"/{round_number}/{number}", value(secret, sizes[number % len(sizes)]))
                for number in range(60)
            )
        )
        await asyncio.gather(
            *(
                store.update(
                    f"/{round_number}/{number}",
                    value(live_value, sizes[number % 5]),
                    expected=revision,
                )
                if number % 3
                else store.delete(f"/{round_number}/{number}", expected=revision)
                for number, revision in enumerate(revisions)
            )
        )
        await store.compact(await store.current_revision())
        assert "store.db" in files_with(live_value, tmp_path)
        assert files_with(secret, tmp_path) == []
    await store.close()


async def refuse_writes(store: EmbeddedStore, refuse: bool) -> None:
    """Make SQLite fail every change of the file, as on a broken disk."""
    await store._submit(lambda db: db._sql.execute(f"PRAGMA query_only = {refuse}"))


@pytest.mark.own_process
@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
async def test_files_may_not_grow(tmp_path: Path) -> None:
    """If the file may not grow, a write fails and the store is not writable; when it may grow
    again, writes succeed."""
    import resource

    store = await open_embedded(tmp_path / "store.db")
    revision = await store.create("/kept", bytes(3000))
    await store.writable()
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, unlimited[1]))
    try:
        with pytest.raises(Refused, match="disk I/O error"):
            await store.create("/more", bytes(60_000))
        with pytest.raises(Refused):
            await store.update("/kept", bytes(60_000), expected=revision)
        with pytest.raises(Refused):
            await store.writable()
        assert (await store.range("/")).items == [KeyValue("/kept", bytes(3000), revision)]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    await store.writable()
    await store.create("/more", bytes(30_000))
    await store.writable()
    await store.close()
    check_file(tmp_path / "store.db")


async def test_expiry_on_a_full_disk(tmp_path: Path) -> None:
    """If there is no space to delete expired values, the deletion is retried later, not in a
    loop."""
    clock = ManualClock()
    store = await open_embedded(tmp_path / "store.db", clock=clock)
    await store.create("/short", b"", ttl=60)
    recorder = Recorder()
    store.watch("/", after=await store.current_revision(), sink=recorder)
    await refuse_writes(store, True)
    clock.advance(61)
    await asyncio.gather(*store._tasks)
    assert not recorder.seen
    await refuse_writes(store, False)
    clock.advance(EXPIRY_RETRY_SECONDS)
    assert (await recorder.count(1))[0].key == "/short"
    await store.close()


async def test_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests beyond the bound of the queue are refused."""
    monkeypatch.setattr(embedded_store, "MAX_PENDING", 10)
    store = await open_store("sqlite::memory:")
    creates = (store.create(f"/{number}", b"") for number in range(15))
    outcomes = await asyncio.gather(*creates, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [int] * 10 + [Unavailable] * 5
    await store.create("/later", b"")
    await store.close()


async def test_churn_does_not_grow_the_file(tmp_path: Path) -> None:
    """With compaction, overwrites and deletes do not make the file grow."""
    path, value = tmp_path / "store.db", os.urandom(4000)
    store = await open_embedded(path)
    revisions = [await store.create(f"/{number}", value) for number in range(50)]
    sizes = []
    for _ in range(4):
        for _ in range(10):
            updates = (
                store.update(f"/{number}", value, expected=revision)
                for number, revision in enumerate(revisions)
            )
            revisions = list(await asyncio.gather(*updates))
        await store.compact(await store.current_revision())
        sizes.append(path.stat().st_size + (tmp_path / "store.db-wal").stat().st_size)
    await check_store(store, await store.current_revision())
    await store.close()
    check_file(path)
    assert path.stat().st_size < 600_000
    assert max(sizes) < 12_000_000


async def test_write_ahead_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that blocks checkpoints does not make the write-ahead log grow without bound."""
    path = tmp_path / "store.db"
    store = await open_embedded(path)
    value = bytes(1_000_000)
    wal = tmp_path / "store.db-wal"
    longest = 0
    with sqlite3.connect(path, isolation_level=None) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT max(revision) FROM log").fetchall()
        for number in range(WAL_LIMIT // len(value) - 2):
            await store.create(f"/{number}", value)
        longest = wal.stat().st_size
        reader.execute("ROLLBACK")
    reader.close()
    for number in range(10):
        await store.create(f"/more/{number}", value)
    assert longest > WAL_LIMIT // 2
    assert wal.stat().st_size <= WAL_LIMIT
    await store.close()


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("/a/", "/a0"),
        ("/a\ud7ff", "/a\ue000"),
        ("/a\U0010ffff", "/b"),
        ("\U0010ffff", "\U0010ffff"),
        ("", "\U0010ffff"),
    ],
)
def test_the_end_of_a_prefix(prefix: str, end: str) -> None:
    """The end of a prefix is the smallest text greater than every text with that prefix."""
    assert prefix_end(prefix) == end


@pytest.mark.parametrize(("fsync", "synchronous"), [(True, 2), (False, 0)])
async def test_fsync(tmp_path: Path, fsync: bool, synchronous: int) -> None:
    """Each commit is flushed to disk (FULL, 2) or none is (OFF, 0)."""
    store = await open_embedded(tmp_path / "a.db", fsync=fsync)
    query = "PRAGMA synchronous"
    row = await store._submit(lambda database: database._sql.execute(query).fetchone())
    await store.close()
    assert row == (synchronous,)


async def test_deleted_files(tmp_path: Path) -> None:
    """If the files of an open store are deleted, writes fail and closing succeeds, as when a test
    environment removes the directory of a server that still starts."""
    store = await open_embedded(tmp_path / "a.db")
    await store.create("/a", b"1")
    shutil.rmtree(tmp_path)
    for _ in range(2):
        with pytest.raises(Refused, match="No such file"):
            await asyncio.wait_for(store.create("/b", b"2"), 30)
    await asyncio.wait_for(store.close(), 30)


NO_UTF8 = "/a/\udc80"
"""A key that SQLite does not take."""


@pytest.mark.parametrize("in_file", [True, False])
async def test_an_unexpected_error_fails_its_job_alone(tmp_path: Path, in_file: bool) -> None:
    """A write or read that raises another error than the storage errors fails, and no other: not
    those of the same transaction, and not the next ones."""
    store = await open_store(f"sqlite:{tmp_path / 'store.db'}" if in_file else "sqlite::memory:")
    recorder = Recorder()
    store.watch("/", after=await store.current_revision(), sink=recorder)
    async with asyncio.timeout(60):
        writes = (store.create(key, b"") for key in ("/a/1", NO_UTF8, "/a/2"))
        first, error, second = await asyncio.gather(*writes, return_exceptions=True)
        assert (first, second) == (2, 3)
        assert isinstance(error, Unavailable)
        assert "surrogates not allowed" in str(error)
        with pytest.raises((Unavailable, UnicodeEncodeError)):
            await store.get(NO_UTF8)
        await store.writable()
        await store.create("/a/3", b"")
        await recorder.count(3)
    assert [item.key for item in (await store.range("/")).items] == ["/a/1", "/a/2", "/a/3"]
    await store.close()


async def test_an_unexpected_error_at_start() -> None:
    """A file that cannot be opened for another reason than the storage errors is an error, too."""
    async with asyncio.timeout(60):
        with pytest.raises(ValueError, match="null"):
            await open_embedded(Path("a\0b"))
