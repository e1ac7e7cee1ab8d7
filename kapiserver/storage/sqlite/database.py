"""The SQL of the embedded store: a revisioned key-value store in one SQLite file, or in memory.

A `Database` is one connection, used by one thread at a time. This module knows no event loop and
starts no thread: `storage/sqlite/embedded_store.py` does, and implements `KV` with it.

The tables are those of `storage/sqlite/layout.py`, and every row that is read is compared with its
checksum (`storage/sqlite/damage.py`). The newest revision is the last row id of the log. Compaction
keeps the row of the revision it compacts to, so the counter survives compactions and restarts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from kapiserver.storage.errors import (
    Compacted,
    Conflict,
    Corrupt,
    Damaged,
    FutureRevision,
    KeyExists,
    StorageError,
)
from kapiserver.storage.kv.contract import (
    GetResult,
    HistoryPage,
    KeyValue,
    KVEvent,
    RangeResult,
    Revision,
)
from kapiserver.storage.kv.prefix import prefix_end
from kapiserver.storage.kv.remaining_count import RemainingCounts
from kapiserver.storage.kv.writes import Write
from kapiserver.storage.sqlite.damage import check_row, expiry_checksum, find_damage, row_checksum
from kapiserver.storage.sqlite.errors import translate_errors
from kapiserver.storage.sqlite.layout import check_layout, update_layout
from kapiserver.storage.sqlite.queries import (
    AT_REVISION,
    CHANGES,
    COMPACTED,
    COUNT,
    COUNT_AT_REVISION,
    CURRENT,
    CURRENT_OF_KEYS,
    INSERT_CURRENTS,
    INSERT_PROBE_ROWS,
    INSERT_VERSIONS,
    NEWEST_REVISION,
    PAGE,
    PAGE_AT_REVISION,
    statement_for,
)
from kapiserver.storage.sqlite.wal import has_lost_transactions, wal_size

EMPTY_STORE_REVISION = Revision(1)
WAL_LIMIT = 32 << 20
"""A write-ahead log of more bytes is checkpointed and truncated, even if that has to wait."""

_BUSY_TIMEOUT = 10_000
_TRUNCATE_BUSY_TIMEOUT = 20
"""Busy timeouts in milliseconds: of requests, and of truncating the write-ahead log."""

_MAX_ROWS = 64
"""Maximum number of rows in one statement."""


class Database:
    """One connection to a store, and the SQL that runs on it."""

    def __init__(
        self,
        path: Path | None,
        counts: RemainingCounts | None = None,
        *,
        exclusive: bool = False,
        first: bool = True,
        fsync: bool = True,
    ) -> None:
        """Open the file, or a new store in memory, and create missing tables. Raises Corrupt,
        Unavailable.

        exclusive   whether no other connection can be opened, so that SQLite needs no file for the
                    index of its write-ahead log
        first       whether no other connection is open
        fsync       whether to flush each transaction to disk
        """
        self._path = path
        self._exclusive = exclusive
        self._first = first
        self._fsync = fsync
        self._counts = counts or RemainingCounts()
        self._wal = f"{path}-wal"
        self._truncate_at = 0
        self._newest: Revision | None = None
        """The newest revision, which `apply` knows until another transaction begins."""
        with translate_errors(path or "sqlite"):
            self._sql = sqlite3.connect(
                ":memory:" if path is None else path,
                timeout=_BUSY_TIMEOUT / 1000,
                isolation_level=None,
                check_same_thread=False,
            )
        try:
            with translate_errors(path or "sqlite"):
                self._set_up()
        except StorageError:
            self._sql.close()
            raise

    def _set_up(self) -> None:
        run = self._sql.execute
        if self._exclusive:
            run("PRAGMA locking_mode = EXCLUSIVE")
        layout = check_layout(self._sql, self._path)
        if self._path is not None:
            if self._first:
                self._check_wal()  # before the first write, which may start the log again
            if not layout:
                run("PRAGMA auto_vacuum = INCREMENTAL")
            # Deleted values are scrubbed; free pages are returned to the file system.
            run("PRAGMA secure_delete = FAST")
            run("PRAGMA journal_mode = WAL")
            run(f"PRAGMA journal_size_limit = {WAL_LIMIT}")
            # Creating tables needs no flush of its own: the flush of the first write includes them.
            run("PRAGMA synchronous = NORMAL")
        update_layout(self._sql, layout)
        if run(COMPACTED).fetchone() is None:
            raise Corrupt(f"{self._path}: the compacted revision is missing")
        if self._path is not None:
            run(f"PRAGMA synchronous = {'FULL' if self._fsync else 'OFF'}")

    def check(self) -> None:
        """Check the structure of the file. Raises Damaged, Unavailable."""
        with translate_errors(self._path or "sqlite"):
            damage = find_damage(self._sql)
        if damage:
            raise Damaged(f"{self._path}: {damage}")

    def _check_wal(self) -> None:
        """Raise Damaged if SQLite could not read the whole write-ahead log of a crash."""
        try:
            _, frames, _ = self._sql.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.OperationalError:  # the disk is full
            return
        page_size = self._sql.execute("PRAGMA page_size").fetchone()[0]
        if has_lost_transactions(Path(self._wal), max(frames, 0), page_size):
            raise Damaged(f"{self._wal}: transactions at its end are unreadable")

    def interrupt(self) -> None:
        """Make a statement that runs in another thread fail with Unavailable."""
        self._sql.interrupt()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._sql.close()

    def revision(self) -> Revision:
        """Return the newest revision."""
        with translate_errors():
            return Revision(
                self._sql.execute(NEWEST_REVISION).fetchone()[0] or EMPTY_STORE_REVISION
            )

    def compacted_revision(self) -> Revision:
        """Return the oldest readable revision, 0 if nothing was compacted."""
        with translate_errors():
            return Revision(self._sql.execute(COMPACTED).fetchone()[0])

    def get(self, key: str, revision: Revision | None) -> GetResult:
        """Return one key. Raises Compacted, FutureRevision."""
        with self._snapshot(revision) as snapshot:
            if revision is None:
                row = self._sql.execute(CURRENT, (key,)).fetchone()
            else:
                row = self._sql.execute(AT_REVISION, (key, revision)).fetchone()
            if row is None:
                return GetResult(None, snapshot)
            found_revision, value, previous, checksum = row
            check_row(key, found_revision, previous, value, checksum)
            item = None if value is None else KeyValue(key, value, Revision(found_revision))
            return GetResult(item, snapshot)

    def range(self, prefix: str, start: str, limit: int, revision: Revision | None) -> RangeResult:
        """Return one page of a range. Raises Compacted, FutureRevision."""
        first, end = max(prefix, start), prefix_end(prefix)
        with self._snapshot(revision) as snapshot:
            parameters = {"first": first, "end": end, "limit": limit or -1, "revision": snapshot}
            query = PAGE if revision is None else PAGE_AT_REVISION
            rows = self._sql.execute(query, parameters).fetchall()
            remaining = 0
            if limit and len(rows) == limit:
                remaining = self._counts.get(first, end, snapshot) - limit
                if remaining < 0:
                    query = COUNT if revision is None else COUNT_AT_REVISION
                    parameters["last"] = rows[-1][0]
                    remaining = self._sql.execute(query, parameters).fetchone()[0]
                self._counts.put(f"{rows[-1][0]}\0", end, snapshot, remaining)
        return RangeResult(list(map(_key_value, rows)), snapshot, remaining)

    def history(self, prefix: str, after: Revision, until: Revision, limit: int) -> HistoryPage:
        """Return the first `limit` events below `prefix` in (after, until]. Raises Compacted."""
        with self._snapshot(None):
            self._check_not_compacted(after)
            rows = self._sql.execute(
                CHANGES, (after, until, prefix, prefix_end(prefix), limit)
            ).fetchall()
        events = list(map(_event, rows))
        return HistoryPage(events, events[-1].revision if len(events) == limit else until)

    def apply(self, writes: Sequence[Write]) -> list[KVEvent | StorageError]:
        """Apply writes in one durable transaction, and return an event, KeyExists or Conflict for
        each. Raises Unavailable or Corrupt if none was applied."""
        outcomes: list[KVEvent | StorageError] = []
        newest = self._newest
        with self._transaction():
            if newest is None:
                newest = self.revision()
            for group in _without_duplicate_keys(writes):
                newest = self._apply_group(group, newest, outcomes)
        self._newest = newest
        return outcomes

    def _apply_group(
        self, writes: Collection[Write], newest: Revision, outcomes: list[KVEvent | StorageError]
    ) -> Revision:
        """Apply writes of distinct keys, add their outcomes, and return the newest revision.
        Statements have many rows, because after each statement this thread must reacquire the GIL,
        which costs more than the statement."""
        rows = self._run_rows(CURRENT_OF_KEYS, [(write.key,) for write in writes])
        versions: dict[str, tuple[int, bytes]] = {}
        for key, revision, value, before, checksum in rows:
            check_row(key, revision, before, value, checksum)
            versions[key] = (revision, value)
        new_versions: list[tuple[Any, ...]] = []
        new_currents: list[tuple[Any, ...]] = []
        deleted: list[tuple[Any, ...]] = []
        replaced: list[tuple[Any, ...]] = []
        new_expiries: list[tuple[Any, ...]] = []
        for write in writes:
            key, value = write.key, write.value
            current, previous = versions.get(key, (0, None))
            if current == write.expected:
                newest = Revision(newest + 1)
                outcomes.append(KVEvent(key, newest, value, previous))
                new_versions.append(_log_row(key, newest, current, value))
                if value is None:
                    deleted.append((key,))
                    replaced.append((current,))
                else:
                    new_currents.append((key, newest))
                if write.expires:
                    checksum = expiry_checksum(newest, write.expires)
                    new_expiries.append((newest, write.expires, checksum))
            elif write.expected == 0:
                outcomes.append(KeyExists(key))
            else:
                current_or_none = current or None
                outcomes.append(
                    Conflict(key, expected=write.expected, current=current_or_none, value=previous)
                )
        self._run_rows(INSERT_VERSIONS, new_versions)
        self._run_rows(INSERT_CURRENTS, new_currents)
        self._run_rows("DELETE FROM current WHERE key IN ({?})", deleted)
        self._run_rows("DELETE FROM expiry WHERE revision IN ({?})", replaced)
        self._run_rows("INSERT INTO expiry VALUES {(?, ?, ?)}", new_expiries)
        return newest

    def _run_rows(self, template: str, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run a statement for groups of rows, and return the selected rows. Group sizes are powers
        of two, so that few statements are compiled."""
        selected: list[Any] = []
        at = 0
        while at < len(rows):
            size = min(_MAX_ROWS, 1 << (len(rows) - at).bit_length() - 1)
            values = list(chain.from_iterable(rows[at : at + size]))
            selected += self._sql.execute(statement_for(template, size), values).fetchall()
            at += size
        return selected

    def expired_writes(self, now: float, limit: int) -> list[Write]:
        """Return deletions of the first `limit` keys that expired by `now`. Drops the expiry of
        versions that were replaced since."""
        expired = "SELECT revision, at, checksum FROM expiry WHERE at <= ? ORDER BY at LIMIT ?"
        current_keys = "SELECT key, revision FROM current JOIN log USING (key, revision)"
        with self._transaction():
            writes = []
            for revision, at, checksum in self._sql.execute(expired, (now, limit)).fetchall():
                if checksum not in (None, expiry_checksum(revision, at)):
                    raise Damaged(f"the expiry of revision {revision} differs from its checksum")
                row = self._sql.execute(
                    f"{current_keys} WHERE log.revision = ?", (revision,)
                ).fetchone()
                if row is None:
                    self._sql.execute("DELETE FROM expiry WHERE revision = ?", (revision,))
                else:
                    writes.append(Write(row[0], None, revision))
        return writes

    def next_expiry(self) -> float:
        """Return when the next key expires, in seconds since the epoch; infinity for never."""
        with translate_errors():
            at = self._sql.execute("SELECT min(at) FROM expiry").fetchone()[0]
        return float("inf") if at is None else float(at)

    def compact(self, revision: Revision, step: int) -> Revision:
        """Compact at most `step` revisions in one short transaction, and return the compacted
        revision. Call again until that is `revision`."""
        with self._transaction():
            compacted = self.compacted_revision()
            until = Revision(min(revision, compacted + step))
            if until <= compacted:
                return compacted
            self._sql.execute(
                "DELETE FROM log WHERE revision IN "
                "(SELECT previous FROM log WHERE revision > ? AND revision <= ? AND previous > 0)",
                (compacted, until),
            )
            self._sql.execute(
                "DELETE FROM log WHERE revision >= ? AND revision < ? AND deleted",
                (compacted, until),
            )
            self._sql.execute("UPDATE state SET compacted = ?", (until,))
        return until

    def shrink(self, pages: int) -> bool:
        """Return free pages to the file system; False if no more are left."""
        with translate_errors():
            free = self.free_pages()
            if self._path is None or not free:
                return False
            # The pragma returns a row per page, and `execute` would stop at the first: a script
            # runs to the end.
            self._sql.executescript(f"PRAGMA incremental_vacuum({pages})")
        return bool(free > pages)

    def size(self) -> int:
        """Return the bytes of the file. Raises Corrupt, Unavailable."""
        with translate_errors():
            pages = self._sql.execute("PRAGMA page_count").fetchone()[0]
            return int(pages * self._sql.execute("PRAGMA page_size").fetchone()[0])

    def free_pages(self) -> int:
        """Return the number of unused pages of the file."""
        return int(self._sql.execute("PRAGMA freelist_count").fetchone()[0])

    def skip_to(self, revision: Revision) -> None:
        """Skip all revisions up to this one; the next write gets a greater one."""
        with self._transaction():
            self._sql.execute(
                "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", _log_row("", revision, 0, None)
            )

    def begin_load(self, revision: Revision) -> bool:
        """Make an empty store begin at a revision; False if it holds other revisions."""
        newest = self.revision()
        if newest == EMPTY_STORE_REVISION < revision:
            self.skip_to(revision)
            self.compact(revision, revision)
            return True
        return newest == self.compacted_revision() == revision

    def load(self, items: Sequence[KeyValue], expires: Sequence[float]) -> None:
        """Add pairs at their revisions, unless they exist."""
        with self._transaction():
            self._sql.executemany(
                "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (revision) DO UPDATE "
                "SET key = excluded.key, deleted = 0, value = excluded.value, "
                "checksum = excluded.checksum WHERE key = ''",  # the row of `skip_to`
                [_log_row(item.key, item.revision, 0, item.value) for item in items],
            )
            self._sql.executemany(
                "INSERT OR IGNORE INTO current VALUES (?, ?)",
                [(item.key, item.revision) for item in items],
            )
            self._sql.executemany(
                "INSERT OR IGNORE INTO expiry VALUES (?, ?, ?)",
                [
                    (item.revision, at, expiry_checksum(item.revision, at))
                    for item, at in zip(items, expires, strict=True)
                    if at
                ],
            )

    def probe_write(self) -> None:
        """Write some tens of pages and delete them again. Raises Refused, Unavailable."""
        # Rows without a revision do no harm in this table if the process ends half way.
        delete_probe_rows = "DELETE FROM expiry WHERE revision < 0"
        for statement in (delete_probe_rows, INSERT_PROBE_ROWS, delete_probe_rows):
            with self._transaction():
                self._sql.execute(statement)

    def truncate_long_wal(self) -> None:
        """Truncate the write-ahead log if readers have kept it from restarting and it has grown
        too long. If that fails, it is tried again after some more writes."""
        if self._path is not None and wal_size(self._wal) > max(WAL_LIMIT, self._truncate_at):
            self.truncate_wal()

    def truncate_wal(self) -> None:
        """Checkpoint and truncate the write-ahead log, which removes compacted values from it.
        Does not wait for running readers, such as a backup."""
        if self._path is None:
            return
        with translate_errors():
            run = self._sql.execute
            run(f"PRAGMA busy_timeout = {_TRUNCATE_BUSY_TIMEOUT}")
            run("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            run(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT}")
        size = wal_size(self._wal)
        self._truncate_at = size + WAL_LIMIT // 8 if size else 0

    def _check_not_compacted(self, revision: Revision) -> None:
        oldest = self.compacted_revision()
        if revision < oldest:
            raise Compacted(revision, oldest=oldest)

    @contextmanager
    def _snapshot(self, revision: Revision | None) -> Iterator[Revision]:
        """Run several reads on one state of the store; yields the revision."""
        with translate_errors():
            if self._path is None:  # nobody else can write
                yield self._readable(revision)
                return
            self._sql.execute("BEGIN")
            try:
                yield self._readable(revision)
            finally:
                self._sql.execute("ROLLBACK")

    def _readable(self, revision: Revision | None) -> Revision:
        """Return a revision that can be read, None for the newest. Raises Compacted,
        FutureRevision."""
        newest = self.revision() if self._newest is None else self._newest
        if revision is None:
            return newest
        if revision > newest:
            raise FutureRevision(revision, current=newest)
        self._check_not_compacted(revision)
        return revision

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._newest = None
        with translate_errors():
            self._sql.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._sql.execute("COMMIT")
            except BaseException:
                if self._sql.in_transaction:
                    self._sql.execute("ROLLBACK")
                raise


def _log_row(key: str, revision: int, previous: int, value: bytes | None) -> tuple[Any, ...]:
    checksum = row_checksum(key, revision, previous, value)
    deleted = 1 if value is None else 0  # `sqlite3` looks for an adapter of a bool
    return (revision, key, deleted, previous, value, checksum)


def _key_value(row: tuple[Any, ...]) -> KeyValue:
    key, value, revision, previous, checksum = row
    check_row(key, revision, previous, value, checksum)
    return KeyValue(key, value, revision)


def _event(row: tuple[Any, ...]) -> KVEvent:
    key, revision, value, previous, checksum, *before = row
    check_row(key, revision, previous, value, checksum)
    if not previous:
        return KVEvent(key, revision, value, None)
    old_revision, old_value, old_previous, old_checksum = before
    check_row(key, old_revision, old_previous, old_value, old_checksum)
    return KVEvent(key, revision, value, old_value)


def _without_duplicate_keys(writes: Sequence[Write]) -> Iterator[Collection[Write]]:
    """Split the writes, in order, into groups without duplicate keys."""
    group: dict[str, Write] = {}
    for write in writes:
        if write.key in group:
            yield group.values()
            group = {}
        group[write.key] = write
    yield group.values()
