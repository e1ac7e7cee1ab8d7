"""Checking, compacting, backing up and restoring the file of an embedded store."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from kapiserver.storage.errors import Compacted, Corrupt, StoreLocked
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.sqlite.admin import backup, check, compact, restore
from kapiserver.storage.sqlite.database import WAL_LIMIT
from kapiserver.storage.sqlite.embedded_store import open_embedded
from tests.storage.invariants import check_file
from tests.storage.recorder import Recorder


def no_progress(_step: str, _done: int, _total: int) -> None:
    """Ignores progress."""


def content(_key: str, _value: bytes) -> str:
    """Accept every value."""
    return ""


async def fill(path: Path) -> Revision:
    """Create a store with current keys, deleted keys and history, a part of it compacted."""
    store = await open_embedded(path)
    keys = [f"/{number}" for number in range(20)]
    revisions = await asyncio.gather(*(store.create(key, b"0" * 3000) for key in keys))
    await store.compact(await store.current_revision())
    for round_number in range(3):
        value = bytes([round_number]) * 3000
        revisions = await asyncio.gather(
            *(
                store.update(key, value, expected=revision)
                for key, revision in zip(keys, revisions, strict=True)
            )
        )
    await asyncio.gather(*(store.delete(keys[n], expected=revisions[n]) for n in range(15, 20)))
    second = await store.create(keys[19], b"again")
    await store.delete(keys[19], expected=second)
    newest = await store.current_revision()
    await store.close()
    return newest


async def test_check_of_a_sound_file(tmp_path: Path) -> None:
    """Check finds no problem in a store that was written to, restarted and compacted."""
    path = tmp_path / "store.db"
    await fill(path)
    assert check(path, content, no_progress) == []
    checked: list[tuple[str, bytes]] = []

    def opinion(key: str, value: bytes) -> str:
        checked.append((key, value))
        return "too long" if key == "/3" else ""

    problems = check(path, opinion, no_progress)
    assert len(checked) == 20 * 4 + 1
    assert len(problems) == 4
    assert problems[0] == "/3 at revision 5: too long"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("DELETE FROM current WHERE key = '/7'", "/7: the current revision is the newest version"),
        (
            "UPDATE current SET revision = revision - 20 WHERE key = '/7'",
            "/7: the current revision is",
        ),
        (
            "UPDATE current SET revision = 999 WHERE key = '/7'",
            "/7: the current revision of the key",
        ),
        (
            "INSERT INTO current VALUES ('/19', 81)",
            "/19: the current revision is the newest version",
        ),
        ("UPDATE log SET value = NULL WHERE revision = 60", "revision 60: a version is a deletion"),
        (
            "UPDATE log SET previous = 0 WHERE revision = 60",
            "revision 60: previous is the revision",
        ),
        (
            "UPDATE log SET previous = 3 WHERE revision = 60",
            "revision 60: previous is the revision",
        ),
        (
            "UPDATE log SET previous = 86 WHERE revision = 87",
            "revision 87: previous is the revision",
        ),
        ("DELETE FROM log WHERE revision = 40", "revision 60: previous is the revision"),
        ("UPDATE state SET compacted = 30", "unreadable versions"),
        ("UPDATE state SET compacted = 999", "revision 999: the compacted revision"),
        ("DELETE FROM state", "0 rows of state"),
        ("UPDATE log SET value = 5 WHERE revision = 60", "revision 60: keys are text and values"),
        ("UPDATE log SET value = 'a' WHERE revision = 60", "revision 60: keys are text and values"),
        (
            "UPDATE log SET key = CAST(x'fffe' AS TEXT) WHERE revision = 60",
            r"\xff\xfe at revision 60: the key is no UTF-8",
        ),
    ],
)
async def test_damage_is_found(damage: str, message: str, tmp_path: Path) -> None:
    """Check reports each inconsistency with its key or revision."""
    path = tmp_path / "store.db"
    await fill(path)
    with closing(sqlite3.connect(path)) as sql:
        sql.execute(damage)
        sql.commit()
    assert any(message in problem for problem in check(path, content, no_progress))


async def test_a_file_without_its_state(tmp_path: Path) -> None:
    """A store without its state row is Corrupt for every command except check, which reports it."""
    path = tmp_path / "store.db"
    await fill(path)
    with closing(sqlite3.connect(path)) as sql:
        sql.execute("DELETE FROM state")
        sql.commit()
    with pytest.raises(Corrupt):
        compact(path, no_progress)
    with pytest.raises(Corrupt):
        backup(path, tmp_path / "backup.db", no_progress)
    with pytest.raises(Corrupt):
        restore(path, tmp_path / "restored.db", bump=1, progress=no_progress)
    with pytest.raises(Corrupt):
        await open_embedded(path)
    assert [name for name in os.listdir(tmp_path) if ".db.lock" not in name] == ["store.db"]


async def test_torn_pages_are_found(tmp_path: Path) -> None:
    """A page with other bytes is reported, or the file is Corrupt."""
    path = tmp_path / "store.db"
    await fill(path)
    data = bytearray(path.read_bytes())
    data[4096 * 6 : 4096 * 7] = os.urandom(4096)
    path.write_bytes(data)
    with suppress(Corrupt):
        assert check(path, content, no_progress)


async def test_compaction(tmp_path: Path) -> None:
    """Compaction shrinks the file to its current values, and keeps the revision."""
    path = tmp_path / "store.db"
    newest = await fill(path)
    size_before = path.stat().st_size
    summary = compact(path, no_progress)
    assert (summary.revision, summary.compacted, summary.objects) == (newest, newest, 15)
    assert summary.size < size_before / 2
    assert check(path, content, no_progress) == []
    store = await open_embedded(path)
    assert len((await store.range("/")).items) == 15
    assert await store.create("/more", b"") == newest + 1
    await store.close()
    check_file(path)


async def test_backup_while_serving(tmp_path: Path) -> None:
    """A backup of a store in use has one consistent state, passes the check, and is readable by its
    owner only."""
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    store = await open_embedded(path)
    await asyncio.gather(*(store.create(f"/filling/{n}", bytes(9000)) for n in range(2000)))
    pair = [await store.create("/left", b"0"), await store.create("/right", b"0")]
    turns = 0
    task = asyncio.create_task(asyncio.to_thread(backup, path, copy, no_progress))
    while not task.done() or turns < 50:
        turns += 1
        for side, key in enumerate(("/left", "/right")):
            pair[side] = await store.update(key, b"%d" % turns, expected=pair[side])
    summary = await task
    await store.close()
    assert summary.objects == 2002
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert [name for name in os.listdir(tmp_path) if name.startswith("copy")] == ["copy.db"]
    check_file(copy)
    store = await open_embedded(copy)
    values, right = [int(item.value) for item in (await store.range("/")).items[-2:]]
    assert 0 <= values - right <= 1
    assert await store.current_revision() == summary.revision
    await store.close()


async def test_a_long_backup_holds_no_writer_up(tmp_path: Path) -> None:
    """Writes do not wait for a slow backup, and the write-ahead log is truncated after it."""
    path = tmp_path / "store.db"
    store = await open_embedded(path)
    await store.create("/a", bytes(1_000_000))
    loop, started, finished = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def wait(_step: str, _copied: int, _total: int) -> None:
        loop.call_soon_threadsafe(started.set)
        asyncio.run_coroutine_threadsafe(finished.wait(), loop).result()

    task = asyncio.create_task(asyncio.to_thread(backup, path, tmp_path / "copy.db", wait))
    await started.wait()
    for number in range(60):
        start = loop.time()
        await store.create(f"/{number}", bytes(1_000_000))
        assert loop.time() - start < 9  # waiting for SQLite's lock would take 10 s
    assert os.stat(f"{path}-wal").st_size > WAL_LIMIT
    finished.set()
    assert (await task).objects == 1
    for number in range(60, 70):
        await store.create(f"/{number}", bytes(1_000_000))
    assert os.stat(f"{path}-wal").st_size <= WAL_LIMIT
    await store.close()


async def test_a_restored_store_repeats_no_revision(tmp_path: Path) -> None:
    """A restored store does not have the writes after the backup, never reuses their revisions, and
    expires old watches."""
    path, copy, new = (tmp_path / name for name in ("store.db", "copy.db", "new.db"))
    saved = await fill(path)
    backup(path, copy, no_progress)
    store = await open_embedded(path)
    lost_revision = await store.create("/after", b"lost")
    await store.close()

    summary = restore(copy, new, bump=1000, progress=no_progress)
    assert (summary.revision, summary.compacted) == (saved + 1000, saved + 1000)
    assert check(new, content, no_progress) == []
    store = await open_embedded(new)
    assert (await store.get("/after")).item is None
    item = (await store.get("/3")).item
    assert item is not None
    assert item.revision < saved
    recorder = Recorder()
    store.watch("/", after=lost_revision, sink=recorder)
    assert isinstance(await recorder.end(), Compacted)
    assert len((await store.range("/", revision=Revision(saved + 1000))).items) == 15
    assert await store.update("/3", b"", expected=item.revision) == saved + 1001
    await store.compact(await store.current_revision())
    await store.close()
    check_file(new)
    assert check(new, content, no_progress) == []


async def test_restore_without_a_bump(tmp_path: Path) -> None:
    """Without a bump a restored store has the backup's revision and history."""
    path, copy, new = (tmp_path / name for name in ("store.db", "copy.db", "below/new.db"))
    saved = await fill(path)
    backup(path, copy, no_progress)
    summary = restore(copy, new, bump=0, progress=no_progress)
    assert summary.revision == saved
    store = await open_embedded(new)
    assert await store.create("/more", b"") == saved + 1
    assert (await store.get("/3", revision=Revision(saved - 5))).item is not None
    await store.close()


REFUSED: list[tuple[str, Callable[[Path], object], type[Exception]]] = [
    ("backup of nothing", lambda p: backup(p / "no", p / "new", no_progress), FileNotFoundError),
    ("backup over a file", lambda p: backup(p / "a.db", p / "b.db", no_progress), FileExistsError),
    ("backup of rubbish", lambda p: backup(p / "rubbish", p / "new", no_progress), Corrupt),
    ("backup of another's", lambda p: backup(p / "kine", p / "new", no_progress), Corrupt),
    ("backup of an empty file", lambda p: backup(p / "empty", p / "new", no_progress), Corrupt),
    ("check of nothing", lambda p: check(p / "no", content, no_progress), FileNotFoundError),
    ("check of rubbish", lambda p: check(p / "rubbish", content, no_progress), Corrupt),
    ("check of another's", lambda p: check(p / "kine", content, no_progress), Corrupt),
    ("check of a served one", lambda p: check(p / "a.db", content, no_progress), StoreLocked),
    ("compaction of nothing", lambda p: compact(p / "no", no_progress), FileNotFoundError),
    ("compaction of a served one", lambda p: compact(p / "a.db", no_progress), StoreLocked),
    ("compaction of another's", lambda p: compact(p / "kine", no_progress), Corrupt),
    (
        "restore of nothing",
        lambda p: restore(p / "no", p / "new", bump=0, progress=no_progress),
        FileNotFoundError,
    ),
    (
        "restore over a file",
        lambda p: restore(p / "a.db", p / "b.db", bump=0, progress=no_progress),
        FileExistsError,
    ),
    (
        "restore over a served file",
        lambda p: restore(p / "b.db", p / "a.db", bump=0, progress=no_progress),
        StoreLocked,
    ),
    (
        "restore beside another's log",
        lambda p: restore(p / "b.db", p / "left", bump=0, progress=no_progress),
        FileExistsError,
    ),
    (
        "restore of another's",
        lambda p: restore(p / "kine", p / "new", bump=0, progress=no_progress),
        Corrupt,
    ),
]


@pytest.mark.parametrize(
    ("refusal_case", "error"),
    [refusal[1:] for refusal in REFUSED],
    ids=[refusal[0] for refusal in REFUSED],
)
async def test_refused_commands(
    refusal_case: Callable[[Path], object], error: type[Exception], tmp_path: Path
) -> None:
    """A command overwrites no file, uses no file that a server owns, does not change a file that is
    not a store, and leaves no partial file."""
    await fill(tmp_path / "b.db")
    (tmp_path / "rubbish").write_bytes(b"no database" * 1000)
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "left-wal").write_bytes(b"")
    with closing(sqlite3.connect(tmp_path / "kine")) as sql:
        sql.execute("CREATE TABLE kine (id INTEGER)")
    store = await open_embedded(tmp_path / "a.db")
    files_before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    with pytest.raises(error, match=r"there|another|not a store|not a database"):
        refusal_case(tmp_path)
    await store.close()
    files_left = {name for name in os.listdir(tmp_path) if not name.endswith((".lock", "-shm"))}
    assert files_left <= files_before.keys()
    assert not (tmp_path / "new").exists()
    for name in ("b.db", "rubbish", "empty", "kine"):
        assert (tmp_path / name).read_bytes() == files_before[name]


PROGRAM = """
import sys
from pathlib import Path
from kapiserver.storage.sqlite import admin as sqlite_admin

sqlite_admin._PAGES, sqlite_admin._COMPACTION_STEP, sqlite_admin._VACUUM_STEP = 1, 5, 1

left = int(sys.argv[4])

def tell(*what):
    global left
    sys.stdout.write(f"{what}\\n")
    sys.stdout.flush()
    left -= 1
    if not left:
        sys.stdin.read()  # until it is killed

path = Path(sys.argv[2])
if sys.argv[1] == "backup":
    sqlite_admin.backup(path, Path(sys.argv[3]), tell)
else:
    sqlite_admin.compact(path, tell)
"""


@pytest.mark.parametrize("command", ["backup", "compact"])
@pytest.mark.parametrize("lines", [1, 4, 11])
async def test_killed_amid_a_command(command: str, lines: int, tmp_path: Path) -> None:
    """After a kill during backup or compaction the store is intact, no partial backup looks
    complete, and the command can be repeated."""
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    newest = await fill(path)
    arguments = [sys.executable, "-c", PROGRAM, command, str(path), str(copy), str(lines)]
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, stdin=pipe, stdout=pipe) as process:  # noqa: ASYNC220 - nothing else runs on the loop
        assert process.stdout is not None
        for _ in range(lines):
            assert process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    assert not copy.exists()
    assert check(path, content, no_progress) == []
    store = await open_embedded(path)
    assert await store.current_revision() == newest
    assert len((await store.range("/")).items) == 15
    await store.close()
    assert backup(path, copy, no_progress).objects == 15
    assert compact(path, no_progress).objects == 15
