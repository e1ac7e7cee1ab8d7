"""The SQL of the embedded store: revisions of bytes in one SQLite file, or in memory.

One `Database` is one connection and is used by one thread at a time. This module knows no event
loop and starts no thread: `storage/embedded_store.py` does, and makes a `KV` of it.

    log      every version of every key, one row a revision; value NULL: the key was deleted.
             `previous` is the revision of the version that this one replaced, 0 where none
    current  which revision each living key is at; small rows, so counting is fast
    expiry   when the version of a revision runs out; a stale row is dropped when it falls due
    state    one row: below which revision history is forgotten

The newest revision is the log's last row id. Compaction never deletes the row of the revision it
is asked to keep, so the counter survives it, and a restart.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kapiserver.storage.errors import (
    Compacted,
    Conflict,
    Corrupt,
    FutureRevision,
    KeyExists,
    Refused,
    StorageError,
    StoreLocked,
    Unavailable,
)
from kapiserver.storage.kv import GetResult, KeyValue, KVEvent, RangeResult, Revision
from kapiserver.storage.kv_watch import HistoryPage
from kapiserver.storage.prefix import prefix_end
from kapiserver.storage.remaining_count import RemainingCounts

EMPTY = Revision(1)
WAL_LIMIT = 32 << 20
"""Bytes: a longer write-ahead log is copied back and cut off even if that has to wait."""

_PATIENCE = 10_000
_CUT_PATIENCE = 20
"""Milliseconds to wait for another connection: with a request, and with cutting the log off."""

_LAYOUT = 1
_SCHEMA = f"""
CREATE TABLE log (
    revision INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    deleted INTEGER NOT NULL,
    previous INTEGER NOT NULL,
    value BLOB
);
CREATE INDEX log_by_key ON log (key, revision, deleted);
CREATE TABLE current (key TEXT PRIMARY KEY, revision INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE expiry (revision INTEGER PRIMARY KEY, at REAL NOT NULL);
CREATE INDEX expiry_by_time ON expiry (at);
CREATE TABLE state (compacted INTEGER NOT NULL);
INSERT INTO state VALUES (0);
PRAGMA user_version = {_LAYOUT};
"""
_TABLES = frozenset(("log", "current", "expiry", "state"))
_NEWEST = "SELECT max(revision) FROM log"
_COMPACTED = "SELECT compacted FROM state"
_CURRENT = """
SELECT log.revision, log.value FROM current JOIN log ON log.revision = current.revision
WHERE current.key = ?
"""
_CURRENT_OF = """
SELECT current.key, log.revision, log.value
FROM current CROSS JOIN log ON log.revision = current.revision WHERE current.key IN ({?})
"""
_ROWS = 64
"""Rows of one statement, at most."""
_AT_REVISION = """
SELECT revision, value FROM log WHERE key = ? AND revision <= ? ORDER BY revision DESC LIMIT 1
"""
_PAGE = """
SELECT current.key, log.value, log.revision
FROM current CROSS JOIN log ON log.revision = current.revision
WHERE current.key >= :first AND current.key < :end ORDER BY current.key LIMIT :limit
"""
_COUNT = "SELECT count(*) FROM current WHERE key > :last AND key < :end"
# From each key to the next, so that a key with a long history costs no more than one without.
_PAGE_AT_REVISION = """
WITH RECURSIVE keys (key) AS (
    SELECT min(key) FROM log WHERE key >= :first AND key < :end
    UNION ALL
    SELECT (SELECT min(key) FROM log WHERE key > keys.key AND key < :end)
    FROM keys WHERE keys.key IS NOT NULL
)
SELECT keys.key, log.value, log.revision FROM keys CROSS JOIN log ON log.revision = (
    SELECT max(revision) FROM log INDEXED BY log_by_key
    WHERE key = keys.key AND revision <= :revision
) WHERE NOT log.deleted LIMIT :limit
"""
# Those that are there now, less what came since and what went.
_COUNT_AT_REVISION = """
SELECT (SELECT count(*) FROM current WHERE key > :last AND key < :end) - (
    SELECT coalesce(sum(CASE WHEN deleted THEN -1 ELSE previous = 0 END), 0) FROM log NOT INDEXED
    WHERE revision > :revision AND key > :last AND key < :end
)
"""
_CHANGES = """
SELECT log.key, log.revision, log.value, before.value
FROM log LEFT JOIN log AS before ON before.revision = log.previous
WHERE log.revision > ? AND log.revision <= ? AND log.key >= ? AND log.key < ?
ORDER BY log.revision LIMIT ?
"""
_SOME_PAGES = """
WITH RECURSIVE numbers (number) AS (VALUES (-1) UNION ALL SELECT number - 1 FROM numbers LIMIT 4000)
INSERT INTO expiry SELECT number, 9e99 FROM numbers
"""


@dataclass(frozen=True, slots=True)
class Write:
    """One write, which happens if the key's revision is `expected` (0: the key must be absent).

    value    None deletes
    expires  seconds since the epoch, 0: never
    """

    key: str
    value: bytes | None
    expected: int
    expires: float = 0


def check_layout(sql: sqlite3.Connection, path: Path | None) -> int:
    """How the tables of a file are laid out; 0: it has none yet. Raises Corrupt when they are not
    those of a store, or newer than this module; sqlite3.DatabaseError."""
    layout: int = sql.execute("PRAGMA user_version").fetchone()[0]
    if layout > _LAYOUT:
        raise Corrupt(f"{path} was written by a newer kapiserver (layout {layout})")
    tables = {row[0] for row in sql.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if tables and (not layout or not _TABLES.issubset(tables)):
        raise Corrupt(f"{path} is a database of another program")
    return layout


class FileLock:
    """The right to be the one process that uses a file; it goes with the process."""

    def __init__(self, path: Path) -> None:
        """Raises StoreLocked."""
        # An empty database held in an exclusive transaction: SQLite's own lock, portable.
        self._held = sqlite3.connect(
            f"{path}.lock", timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            self._held.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            self._held.close()
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            raise StoreLocked(
                f"{path} is in use by another kapiserver: stop it, or choose another --storage"
            ) from error

    def release(self) -> None:
        """Let another process have the file. Idempotent."""
        self._held.close()


def lock_file(path: Path) -> FileLock:
    """Make sure that the file `path` exists, readable by its owner only, and take its lock.
    Raises StoreLocked, Unavailable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        return FileLock(path)
    except (OSError, sqlite3.Error) as error:
        raise Unavailable(f"cannot open {path}: {error}") from error


class Database:
    """One connection to a store, and the SQL that runs on it."""

    def __init__(self, path: Path | None, counts: RemainingCounts | None = None) -> None:
        """Open the file, or a new store in memory; make its tables where they are missing.
        Raises Corrupt, Unavailable."""
        self._path = path
        self._counts = counts or RemainingCounts()
        self._wal = f"{path}-wal"
        self._uncut = 0
        with translate_errors(path or "sqlite"):
            self._sql = sqlite3.connect(
                ":memory:" if path is None else path,
                timeout=_PATIENCE / 1000,
                isolation_level=None,
                check_same_thread=False,
            )
        try:
            with translate_errors(path or "sqlite"):
                self._prepare()
        except StorageError:
            self._sql.close()
            raise

    def _prepare(self) -> None:
        run = self._sql.execute
        layout = check_layout(self._sql, self._path)
        if self._path is not None:
            if not layout:
                run("PRAGMA auto_vacuum = INCREMENTAL")
            # What is forgotten is overwritten; pages that become free go back to the file system.
            run("PRAGMA secure_delete = FAST")
            run("PRAGMA journal_mode = WAL")
            run(f"PRAGMA journal_size_limit = {WAL_LIMIT}")
            # The tables need no flush of their own: the first write's makes them durable too.
            run("PRAGMA synchronous = NORMAL")
        if not layout:
            self._sql.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
        if run(_COMPACTED).fetchone() is None:
            raise Corrupt(f"{self._path}: how far back it remembers is lost")
        if self._path is not None:
            run("PRAGMA synchronous = FULL")

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._sql.close()

    def revision(self) -> Revision:
        """The newest revision."""
        with translate_errors():
            return Revision(self._sql.execute(_NEWEST).fetchone()[0] or EMPTY)

    def compacted(self) -> Revision:
        """The oldest revision that can be read; 0 where nothing was ever forgotten."""
        with translate_errors():
            return Revision(self._sql.execute(_COMPACTED).fetchone()[0])

    def get(self, key: str, revision: Revision | None) -> GetResult:
        """Read one key. Raises Compacted, FutureRevision."""
        with self._snapshot(revision) as snapshot:
            if revision is None:
                row = self._sql.execute(_CURRENT, (key,)).fetchone()
            else:
                row = self._sql.execute(_AT_REVISION, (key, revision)).fetchone()
            if row is None or row[1] is None:
                return GetResult(None, snapshot)
            return GetResult(KeyValue(key, row[1], Revision(row[0])), snapshot)

    def range(self, prefix: str, start: str, limit: int, revision: Revision | None) -> RangeResult:
        """Read part of a range. Raises Compacted, FutureRevision."""
        first, end = max(prefix, start), prefix_end(prefix)
        with self._snapshot(revision) as snapshot:
            asked = {"first": first, "end": end, "limit": limit or -1, "revision": snapshot}
            query = _PAGE if revision is None else _PAGE_AT_REVISION
            rows = self._sql.execute(query, asked).fetchall()
            remaining = 0
            if limit and len(rows) == limit:
                remaining = self._counts.get(first, end, snapshot) - limit
                if remaining < 0:
                    query = _COUNT if revision is None else _COUNT_AT_REVISION
                    asked["last"] = rows[-1][0]
                    remaining = self._sql.execute(query, asked).fetchone()[0]
                self._counts.put(f"{rows[-1][0]}\0", end, snapshot, remaining)
        return RangeResult([KeyValue(*row) for row in rows], snapshot, remaining)

    def history(self, prefix: str, after: Revision, until: Revision, limit: int) -> HistoryPage:
        """Read the changes below `prefix` in (after, until], the first `limit` of them. Raises
        Compacted."""
        with self._snapshot(None):
            self._check_kept(after)
            rows = self._sql.execute(
                _CHANGES, (after, until, prefix, prefix_end(prefix), limit)
            ).fetchall()
        events = [KVEvent(*row) for row in rows]
        return HistoryPage(events, events[-1].revision if len(events) == limit else until)

    def apply(self, writes: Sequence[Write]) -> list[KVEvent | StorageError]:
        """Do the writes in one transaction; when this returns they are durable. The answer to
        each is its event, or KeyExists or Conflict. Raises Unavailable, Corrupt: none was done."""
        outcomes: list[KVEvent | StorageError] = []
        with self._transaction():
            revision = self.revision()
            for some in _each_key_once(writes):
                outcomes += self._apply_some(some, revision)
                revision = max(
                    [revision, *(o.revision for o in outcomes if isinstance(o, KVEvent))]
                )
        return outcomes

    def _apply_some(self, writes: Sequence[Write], newest: int) -> list[KVEvent | StorageError]:
        """Do writes of different keys. A statement is for many rows: after each, this thread waits
        for its turn with the interpreter, which costs more than the statement."""
        found = {
            key: (revision, value)
            for key, revision, value in self._for_all(_CURRENT_OF, [(one.key,) for one in writes])
        }
        outcomes: list[KVEvent | StorageError] = []
        done: list[tuple[Write, KVEvent, int]] = []
        for write in writes:
            at, before = found.get(write.key, (0, None))
            if at == write.expected:
                newest += 1
                event = KVEvent(write.key, Revision(newest), write.value, before)
                done.append((write, event, at))
                outcomes.append(event)
            elif write.expected == 0:
                outcomes.append(KeyExists(write.key))
            else:
                outcomes.append(Conflict(write.key, expected=write.expected, current=at or None))
        gone = [(write.key, at) for write, _, at in done if write.value is None]
        self._for_all(
            "INSERT INTO log VALUES {(?, ?, ?, ?, ?)}",
            [(e.revision, e.key, e.value is None, at, e.value) for _, e, at in done],
        )
        self._for_all(
            "INSERT INTO current VALUES {(?, ?)} "
            "ON CONFLICT (key) DO UPDATE SET revision = excluded.revision",
            [(e.key, e.revision) for _, e, _ in done if e.value is not None],
        )
        self._for_all("DELETE FROM current WHERE key IN ({?})", [(key,) for key, _ in gone])
        self._for_all("DELETE FROM expiry WHERE revision IN ({?})", [(at,) for _, at in gone])
        self._for_all(
            "INSERT INTO expiry VALUES {(?, ?)}",
            [(e.revision, write.expires) for write, e, _ in done if write.expires],
        )
        return outcomes

    def _for_all(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run a statement for rows of values, many at a time; what stands in braces is repeated
        for each row. Sizes are powers of two, so that few statements are ever compiled."""
        begin, _, rest = statement.partition("{")
        each, _, end = rest.partition("}")
        answer: list[Any] = []
        at = 0
        while at < len(rows):
            size = min(_ROWS, 1 << (len(rows) - at).bit_length() - 1)
            values = [value for row in rows[at : at + size] for value in row]
            answer += self._sql.execute(begin + ", ".join([each] * size) + end, values).fetchall()
            at += size
        return answer

    def expired_writes(self, now: float, limit: int) -> list[Write]:
        """The deletes of what has run out by `now`, the first `limit` of them; what was written
        again since is forgotten."""
        due = "SELECT revision FROM expiry WHERE at <= ? ORDER BY at LIMIT ?"
        alive = "SELECT key, revision FROM current JOIN log USING (key, revision)"
        with self._transaction():
            revisions = [row[0] for row in self._sql.execute(due, (now, limit))]
            writes = []
            for revision in revisions:
                row = self._sql.execute(f"{alive} WHERE log.revision = ?", (revision,)).fetchone()
                if row is None:
                    self._sql.execute("DELETE FROM expiry WHERE revision = ?", (revision,))
                else:
                    writes.append(Write(row[0], None, revision))
        return writes

    def next_expiry(self) -> float:
        """When the next value runs out, in seconds since the epoch; infinite for never."""
        with translate_errors():
            at = self._sql.execute("SELECT min(at) FROM expiry").fetchone()[0]
        return float("inf") if at is None else float(at)

    def compact(self, revision: Revision, step: int) -> Revision:
        """Forget one step of what only revisions before `revision` can see, in one short
        transaction, and say up to where that is done. Call again until it is `revision`."""
        with self._transaction():
            done = self.compacted()
            until = Revision(min(revision, done + step))
            if until <= done:
                return done
            self._sql.execute(
                "DELETE FROM log WHERE revision IN "
                "(SELECT previous FROM log WHERE revision > ? AND revision <= ? AND previous > 0)",
                (done, until),
            )
            self._sql.execute(
                "DELETE FROM log WHERE revision >= ? AND revision < ? AND deleted", (done, until)
            )
            self._sql.execute("UPDATE state SET compacted = ?", (until,))
        return until

    def shrink(self, pages: int) -> bool:
        """Give up to that many free pages back to the file system; False when none is free."""
        with translate_errors():
            free = self.free_pages()
            if self._path is None or not free:
                return False
            # Each step gives back one page as a row without columns, and `execute` would stop at
            # the first: a script runs to the end.
            self._sql.executescript(f"PRAGMA incremental_vacuum({pages})")
        return bool(free > pages)

    def free_pages(self) -> int:
        """Pages of the file that hold nothing."""
        return int(self._sql.execute("PRAGMA freelist_count").fetchone()[0])

    def skip_to(self, revision: Revision) -> None:
        """Use no revision up to this one: the next write's is greater."""
        with self._transaction():
            self._sql.execute("INSERT INTO log VALUES (?, '', TRUE, 0, NULL)", (revision,))

    def probe_write(self) -> None:
        """Write some tens of pages and take them back. Raises Refused, Unavailable."""
        # Of a table where nobody misses what does not belong to a revision, if this ends half way.
        take_back = "DELETE FROM expiry WHERE revision < 0"
        for statement in (take_back, _SOME_PAGES, take_back):
            with self._transaction():
                self._sql.execute(statement)

    def truncate_long_wal(self) -> None:
        """Cut off a write-ahead log that readers have kept from starting over; where that fails,
        it is tried again after some more writes."""
        if self._path is not None and os.stat(self._wal).st_size > max(WAL_LIMIT, self._uncut):
            self.truncate_wal()

    def truncate_wal(self) -> None:
        """Copy the write-ahead log back and cut it off: what it held of what is forgotten now is
        gone. A reader that goes on (a backup, say) is not waited for."""
        if self._path is None:
            return
        with translate_errors():
            run = self._sql.execute
            run(f"PRAGMA busy_timeout = {_CUT_PATIENCE}")
            run("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            run(f"PRAGMA busy_timeout = {_PATIENCE}")
        left = os.stat(self._wal).st_size
        self._uncut = left + WAL_LIMIT // 8 if left else 0

    def _check_kept(self, revision: Revision) -> None:
        oldest = self.compacted()
        if revision < oldest:
            raise Compacted(revision, oldest=oldest)

    @contextmanager
    def _snapshot(self, revision: Revision | None) -> Iterator[Revision]:
        """Read several times from one state of the store; yields the revision read."""
        with translate_errors():
            self._sql.execute("BEGIN")
            try:
                newest = self.revision()
                if revision is None:
                    yield newest
                else:
                    if revision > newest:
                        raise FutureRevision(revision, current=newest)
                    self._check_kept(revision)
                    yield revision
            finally:
                self._sql.execute("ROLLBACK")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with translate_errors():
            self._sql.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._sql.execute("COMMIT")
            except BaseException:
                if self._sql.in_transaction:
                    self._sql.execute("ROLLBACK")
                raise


def _each_key_once(writes: Sequence[Write]) -> Iterator[Sequence[Write]]:
    """The writes in order, cut before each that is of a key that came since the last cut."""
    some: dict[str, Write] = {}
    for write in writes:
        if write.key in some:
            yield tuple(some.values())
            some = {}
        some[write.key] = write
    yield tuple(some.values())


_REFUSALS = frozenset((sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY))
"""What SQLite says when the system does not let it write: no space, a quota or another limit, a
broken disk, no permission."""


@contextmanager
def translate_errors(where: object = "sqlite") -> Iterator[None]:
    """Raise what SQLite raises as Refused, Unavailable or Corrupt, with a word on where it was."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _REFUSALS:
            raise Refused(f"{where}: {error}") from error
        raise Unavailable(f"{where}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise Corrupt(f"{where}: {error}") from error
