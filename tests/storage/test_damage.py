"""Damaged files: each answer is right or refused. Bytes are flipped at random, with fixed seeds."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kapiserver.cli import main
from kapiserver.storage.backends import open_store
from kapiserver.storage.errors import Corrupt, Damaged, StorageError
from kapiserver.storage.kv.contract import KV, Revision
from kapiserver.storage.kv.writes import Write
from kapiserver.storage.sqlite import embedded_store
from kapiserver.storage.sqlite.admin import backup, check, restore
from kapiserver.storage.sqlite.database import Database

OBJECTS = 300
PAGE = 4096
FLIPS = (1, 1, 1, 2, 5, 20, 200)
SEEDS = 120
PREFIXES = ("/registry/", "/registry/pods/", "/registry/configmaps/n3/")


class Store:
    """A store with objects of several sizes, replaced and deleted ones, and compacted history."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._revisions: dict[str, int] = {}
        rng = random.Random(0)
        with closing(Database(path)) as database:
            for number in range(OBJECTS):
                size = rng.choice((20, 200, 1500, 9000))
                expires = 1e12 if number % 10 == 0 else 0.0
                kind = "pods" if number % 2 else "configmaps"
                key = f"/registry/{kind}/n{number % 7}/object-{number:05}"
                self._write(database, key, rng.randbytes(size), expires)
            self.keys = list(self._revisions)
            for key in rng.sample(self.keys, OBJECTS // 3):
                self._write(database, key, rng.randbytes(300))
            for key in rng.sample(self.keys, OBJECTS // 8):
                self._write(database, key, None)
            self.old = Revision(database.revision() - 20)
            database.compact(Revision(self.old - 20), OBJECTS * 10)
            self.newest = database.revision()

    def _write(self, database: Database, key: str, value: bytes | None, expires: float = 0) -> None:
        (event,) = database.apply([Write(key, value, self._revisions.get(key, 0), expires)])
        self._revisions[key] = event.revision  # type: ignore[union-attr]

    def answers(self, database: Database) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Every kind of read, by name."""
        for prefix in PREFIXES:
            for revision in (None, self.old):
                yield (
                    f"pages of {prefix} at {revision}",
                    lambda prefix=prefix, revision=revision: _pages(database, prefix, revision),
                )
            yield (
                f"history of {prefix}",
                lambda prefix=prefix: database.history(prefix, self.old, self.newest, 10**6),
            )
        for key in self.keys[::10]:
            for revision in (None, self.old):
                yield (
                    f"{key} at {revision}",
                    lambda key=key, revision=revision: database.get(key, revision),
                )
        yield "expired", lambda: database.expired_writes(1e13, 1000)
        yield "revision", database.revision
        yield "compacted", database.compacted_revision


def _pages(database: Database, prefix: str, revision: Revision | None) -> Any:
    """All items of a list, read in pages of 37."""
    items: list[Any] = []
    start, remaining = "", 1
    while remaining:
        page = database.range(prefix, start, 37, revision)
        items += page.items
        revision, remaining = page.revision, page.remaining
        start = f"{page.items[-1].key}\0" if page.items else ""
    return items, revision


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """An undamaged store."""
    return Store(tmp_path_factory.mktemp("damage") / "store.db")


def flip(content: bytes, rng: random.Random) -> bytes:
    """Change bytes at random, half of them at the begin of a page, where its structure is."""
    changed = bytearray(content)
    for _ in range(rng.choice(FLIPS)):
        at = rng.randrange(len(changed))
        if rng.random() < 0.5:
            at = at // PAGE * PAGE + rng.randrange(200)
        changed[at] ^= rng.randrange(1, 256)
    return bytes(changed)


def test_flipped_bytes(store: Store, tmp_path: Path) -> None:
    """A file with flipped bytes is refused, or each answer from it is complete and right, or is an
    error. Each of these happens."""
    content = store.path.read_bytes()
    with closing(Database(store.path)) as database:
        database.check()
        expected = {name: answer() for name, answer in store.answers(database)}
    results = dict.fromkeys(("refused", "error", "equal"), 0)
    for seed in range(SEEDS):
        path = tmp_path / f"{seed}.db"
        path.write_bytes(flip(content, random.Random(seed)))
        try:
            with closing(Database(path)) as database:
                database.check()
                result = "equal"
                for name, answer in store.answers(database):
                    try:
                        assert answer() == expected[name], (seed, name)
                    except StorageError:
                        result = "error"
        except StorageError:
            result = "refused"
        results[result] += 1
        path.unlink()
    assert all(results.values()), results


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes, list[int]]:
    """The file and the write-ahead log of a store that was not closed, and the length of the log
    after each of 20 transactions."""
    path = tmp_path_factory.mktemp("crashed") / "store.db"
    log, sizes = Path(f"{path}-wal"), []
    with closing(Database(path)) as database:
        for number in range(20):
            database.apply([Write(f"/{number}", bytes(3000), 0)])
            sizes.append(log.stat().st_size)
        return path.read_bytes(), log.read_bytes(), sizes


def reopened(path: Path, content: bytes, log: bytes) -> Revision:
    """The newest revision of a store with these files. Raises Damaged."""
    path.write_bytes(content)
    Path(f"{path}-wal").write_bytes(log)
    try:
        with closing(Database(path)) as database:
            database.check()
            return database.revision()
    finally:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)


def test_flipped_bytes_in_the_log(crashed: tuple[bytes, bytes, list[int]], tmp_path: Path) -> None:
    """A write-ahead log with a flipped byte is refused. If its end is missing, a crash cut it off,
    and the last transaction did not happen."""
    content, log, sizes = crashed
    path = tmp_path / "store.db"
    newest = reopened(path, content, log)
    assert newest == 1 + len(sizes)
    rng = random.Random(0)
    for at in (*range(32), *(rng.randrange(sizes[-3]) for _ in range(60))):
        changed = bytearray(log)
        changed[at] ^= 1 << rng.randrange(8)
        with pytest.raises(Damaged):
            reopened(path, content, bytes(changed))
    for length in range(sizes[-2], sizes[-1], 500):
        assert reopened(path, content, log[:length]) == newest - 1


def test_restarted_log(tmp_path: Path) -> None:
    """Frames of before the log's last restart are not taken for lost transactions."""
    path = tmp_path / "store.db"
    with closing(Database(path)) as database:
        for number in range(30):
            database.apply([Write(f"/{number}", bytes(3000), 0)])
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(PASSIVE)")
        database.apply([Write("/last", b"value", 0)])
        files = path.read_bytes(), Path(f"{path}-wal").read_bytes()
        newest = database.revision()
    assert reopened(tmp_path / "copy.db", *files) == newest


def damage_value(path: Path, key: str) -> None:
    """Change a byte of the newest value of a key in the file."""
    with closing(sqlite3.connect(path)) as sql:
        (value,) = sql.execute(
            "SELECT value FROM log WHERE key = ? ORDER BY revision DESC", (key,)
        ).fetchone()
        sql.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = path.read_bytes()
    assert content.count(value) == 1
    path.write_bytes(content.replace(value, bytes([value[0] ^ 1]) + value[1:]))


def test_damaged_value(tmp_path: Path) -> None:
    """A read of a damaged value is an error that names the commands, and writes are refused from
    then on; other values stay readable. The check reports it."""
    path = tmp_path / "store.db"

    async def scenario() -> None:
        store = await open_store(f"sqlite:{path}")
        for name in "abc":
            await store.create(f"/{name}", f"the value of {name}".encode())
        await store.close()
        damage_value(path, "/b")
        store = await open_store(f"sqlite:{path}")
        try:
            await store.create("/d", b"d")
            with pytest.raises(Damaged, match=r"/b at revision 3 .*storage check.*storage restore"):
                await store.range("/")
            for refused in (store.create("/e", b"e"), store.writable()):
                with pytest.raises(Damaged):
                    await refused
            item = (await store.get("/a")).item
            assert item is not None
            assert item.value == b"the value of a"
        finally:
            await store.close()

    asyncio.run(scenario())
    problems = check(path, lambda key, value: "", lambda *_: None)
    assert problems == ["/b at revision 3: the version differs from its checksum"]


def test_large_file(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file is checked after it was opened, and damage ends all writes. Closing
    ends the check."""
    path = tmp_path / "store.db"
    path.write_bytes(store.path.read_bytes())
    with closing(sqlite3.connect(path, isolation_level=None)) as sql:
        sql.execute("DELETE FROM current WHERE key = (SELECT max(key) FROM current)")
    monkeypatch.setattr(embedded_store, "LARGE_FILE", 1)

    async def scenario() -> None:
        opened = await open_store(f"sqlite:{path}")
        with pytest.raises(Damaged):
            await until_damaged(opened)
        await opened.close()
        closed_at_once = await open_store(f"sqlite:{path}")
        await closed_at_once.close()

    asyncio.run(scenario())


async def until_damaged(store: KV) -> None:
    """Raise the damage of a store when it is found."""
    while True:
        await store.writable()
        await asyncio.sleep(0)


def test_server_refuses_a_damaged_file(store: Store, tmp_path: Path, capsys) -> None:
    """The server does not start with a file whose structure is damaged, and says what to do; a
    backup of it cannot be restored."""
    path = tmp_path / "kapiserver.db"
    content = bytearray(store.path.read_bytes())
    content[3 * PAGE : 4 * PAGE] = bytes(PAGE)
    path.write_bytes(content)
    assert main(["serve", f"--data-dir={tmp_path}", "--secure-port=0"]) == 1
    text = capsys.readouterr().err
    assert text.startswith(f"kapiserver: the store is damaged: {path}: SQLite: ")
    assert "kapiserver storage check" in text
    assert "kapiserver storage restore" in text
    with pytest.raises(Corrupt):
        restore(path, tmp_path / "restored.db", bump=0, progress=lambda *_: None)
    assert not (tmp_path / "restored.db").exists()


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM current WHERE key = (SELECT max(key) FROM current)",
        "UPDATE current SET revision = revision - 1 WHERE key = (SELECT max(key) FROM current)",
        "UPDATE current SET key = 'x' WHERE key = (SELECT max(key) FROM current)",
        "DELETE FROM log WHERE revision = (SELECT revision FROM current LIMIT 1)",
        "DELETE FROM log WHERE deleted AND revision = (SELECT max(revision) - 1 FROM log)",
        "UPDATE state SET compacted = 1",
        "UPDATE state SET compacted = 1000000",
        "DROP INDEX log_by_key",
        "DROP INDEX expiry_by_time",
    ],
)
def test_rules(store: Store, tmp_path: Path, damage: str) -> None:
    """A row that is missing, or that is another's, is found when the file is opened."""
    path = tmp_path / "store.db"
    path.write_bytes(store.path.read_bytes())
    with closing(sqlite3.connect(path, isolation_level=None)) as sql:
        assert sql.execute(damage).rowcount != 0
    with closing(Database(path)) as database, pytest.raises(Damaged):
        database.check()


def test_layout_1(store: Store, tmp_path: Path) -> None:
    """A file of the layout without checksums is read as it is; later writes have checksums."""
    path = tmp_path / "store.db"
    backup(store.path, path, lambda *_: None)
    with closing(sqlite3.connect(path, isolation_level=None)) as sql:
        sql.executescript(
            "ALTER TABLE log DROP COLUMN checksum; ALTER TABLE expiry DROP COLUMN checksum;"
            "PRAGMA user_version = 1"
        )
    assert check(path, lambda key, value: "", lambda *_: None) == []
    with closing(Database(store.path)) as database:
        expected = _pages(database, "/registry/", None)
    with closing(Database(path)) as database:
        database.check()
        assert _pages(database, "/registry/", None) == expected
        database.apply([Write("/registry/new", b"value", 0)])
    with closing(sqlite3.connect(path)) as sql:
        query = "SELECT count(*), count(checksum) FROM log WHERE key = '/registry/new'"
        assert sql.execute(query).fetchone() == (1, 1)
