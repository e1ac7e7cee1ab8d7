"""A store's SQLite file as a whole: checked, compacted, copied out while it is served, put back.

The tables are those of `storage/sqlite.py`; what must hold between them is written down here. What
a value means is for the caller to say. Mirrors etcdutl's snapshot commands.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kapiserver.storage.errors import Corrupt
from kapiserver.storage.kv import Revision
from kapiserver.storage.sqlite import Database, FileLock, check_layout, translate_errors

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""
ValueCheck = Callable[[str, bytes], str]
"""What is wrong with the value of a key; "": nothing."""

PROBLEMS = 100
"""Told of at most."""
BUMP = 1_000_000_000
"""Revisions that a restored store leaves out: more than were written since its backup."""

_PAGES = 4096
_COMPACTION_STEP = 10_000
_VACUUM_STEP = 10_000
_VALUES = 10_000
_NEWEST = "SELECT coalesce(max(revision), 1) FROM log"
_COMPACTED = "SELECT compacted FROM state"
# What must hold: a sentence, and the query of what it does not hold for.
_RULES = (
    (
        "revision {}: keys are text and values are bytes",
        "SELECT revision FROM log "
        "WHERE typeof(key) <> 'text' OR typeof(value) NOT IN ('blob', 'null')",
    ),
    (
        "revision {}: a version without a value is one that deletes",
        "SELECT revision FROM log WHERE deleted <> (value IS NULL)",
    ),
    (
        "{}: the revision that the key is at is a living version of it",
        "SELECT current.key FROM current LEFT JOIN log ON log.revision = current.revision "
        "WHERE log.key IS NOT current.key OR log.deleted",
    ),
    (
        "{}: the key is at its newest version, or is not there where that deletes",
        "SELECT newest.key FROM (SELECT key, max(revision) AS revision, deleted "
        "FROM log INDEXED BY log_by_key GROUP BY key) AS newest "
        "LEFT JOIN current ON current.key = newest.key "
        "WHERE current.revision IS NOT CASE WHEN deleted THEN NULL ELSE newest.revision END",
    ),
    (
        "revision {}: it replaced the version before it",
        "SELECT this.revision FROM log AS this LEFT JOIN log AS old ON old.revision = ("
        "SELECT max(revision) FROM log INDEXED BY log_by_key "
        "WHERE key = this.key AND revision < this.revision) "
        f"WHERE this.revision > ({_COMPACTED}) AND this.previous <> "
        "CASE WHEN old.revision IS NULL OR old.deleted THEN 0 ELSE old.revision END",
    ),
    (
        "revision {}: what nobody can read any more was forgotten",
        f"SELECT this.revision FROM log AS this WHERE this.revision < ({_COMPACTED}) AND ("
        "this.deleted OR EXISTS (SELECT 1 FROM log AS other WHERE other.key = this.key "
        f"AND other.revision > this.revision AND other.revision <= ({_COMPACTED})))",
    ),
    (
        "revision {}: history is forgotten up to a revision that was written",
        f"SELECT compacted FROM state WHERE compacted > ({_NEWEST})",
    ),
    ("{} rows of state: there is one", "SELECT count(*) FROM state HAVING count(*) <> 1"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a file holds.

    revision    the newest
    compacted   the oldest that can be read
    objects     living keys
    versions    of all keys, deletions included
    size        bytes
    """

    revision: Revision
    compacted: Revision
    objects: int
    versions: int
    size: int


def check(path: Path, opinion: ValueCheck, progress: Progress) -> Sequence[str]:
    """What is wrong with a file that nobody serves, `PROBLEMS` at most. Raises FileNotFoundError,
    StoreLocked, Corrupt for a file that is no store, Unavailable."""
    problems: list[str] = []
    with _owned(path), _opened(path) as sql:
        sql.text_factory = _legible
        steps = len(_RULES) + 1
        progress("checking pages", 0, steps)
        for (text,) in sql.execute(f"PRAGMA integrity_check({PROBLEMS})"):
            if text != "ok":
                problems.append(f"SQLite: {text}")
        if problems:  # its tables cannot be trusted to be read
            return problems
        for number, (rule, query) in enumerate(_RULES, 1):
            progress("checking rules", number, steps)
            rows = sql.execute(f"{query} LIMIT {PROBLEMS}")
            problems.extend(f"{rule.format(row[0])}: that does not hold" for row in rows)
        problems.extend(islice(_values(sql, opinion, progress), PROBLEMS))
    return problems[:PROBLEMS]


def _values(sql: sqlite3.Connection, opinion: ValueCheck, progress: Progress) -> Iterator[str]:
    count = sql.execute("SELECT count(*) FROM log").fetchone()[0]
    rows = sql.execute("SELECT revision, key, CAST(key AS BLOB), value FROM log")
    for seen, (revision, key, raw, value) in enumerate(rows, 1):
        if isinstance(key, str) and key.encode() != raw:
            yield f"{key} at revision {revision}: the key is no UTF-8"
        elif isinstance(value, bytes) and (wrong := opinion(str(key), value)):
            yield f"{key} at revision {revision}: {wrong}"
        if seen % _VALUES == 0 or seen == count:
            progress("decoding values", seen, count)


def _legible(text: bytes) -> str:
    return text.decode(errors="backslashreplace")


def compact(path: Path, progress: Progress) -> Summary:
    """Forget all history of a file that nobody serves, and give what that frees back to the file
    system. Raises FileNotFoundError, StoreLocked, Corrupt, Unavailable."""
    with _owned(path):
        with closing(Database(path)) as database:
            newest = database.revision()
            while (done := database.compact(newest, _COMPACTION_STEP)) < newest:
                progress("forgetting history", done, newest)
            free = database.free_pages()
            while database.shrink(_VACUUM_STEP):
                progress("giving pages back", free - database.free_pages(), free)
        with _opened(path) as sql:
            return _summary(sql, path)


def backup(path: Path, to: Path, progress: Progress) -> Summary:
    """Copy a store as it is at this moment, served or not, into a new file of its own, which is
    whole when this returns and not there when it fails. Raises FileNotFoundError,
    FileExistsError, Corrupt, Unavailable."""
    _must_be_absent(to)
    with _opened(path) as sql, _new_file(to) as partial:
        _copy(sql, partial, progress)
        with _opened(partial) as copied:
            copied.execute("PRAGMA journal_mode = DELETE")
            return _summary(copied, partial)


def restore(path: Path, to: Path, *, bump: int, progress: Progress) -> Summary:
    """Make a store of a backup, where there is none yet.

    Clients may have seen revisions that were written after the backup. So that none of them comes
    to mean something else, the counter goes on `bump` revisions later, and what is older counts as
    forgotten: watches begin anew. 0: the store goes on as if nothing had been. Raises
    FileNotFoundError, FileExistsError, StoreLocked, Corrupt, Unavailable."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    to.parent.mkdir(parents=True, exist_ok=True)
    with _locked(to):
        _must_be_absent(to)
        with _opened(path) as sql, _new_file(to) as partial:
            _copy(sql, partial, progress)
            if bump:
                _bump(partial, bump)
            with _opened(partial) as copied:
                copied.execute("PRAGMA journal_mode = DELETE")
                return _summary(copied, partial)


def _bump(path: Path, by: int) -> None:
    with closing(Database(path)) as database:
        newest = database.revision()
        while database.compact(newest, _COMPACTION_STEP) < newest:
            pass
        later = Revision(newest + by)
        database.skip_to(later)
        database.compact(later, by)


def _copy(sql: sqlite3.Connection, to: Path, progress: Progress) -> None:
    def step(_status: int, remaining: int, total: int) -> None:
        progress("copying pages", total - remaining, total)

    with translate_errors(to), closing(sqlite3.connect(to)) as target:
        # Within a transaction the source stays as it is now: without, each write of the server
        # would begin the copy anew.
        sql.execute("BEGIN")
        sql.execute(_NEWEST).fetchone()
        sql.backup(target, pages=_PAGES, progress=step)
        sql.execute("ROLLBACK")


def _summary(sql: sqlite3.Connection, path: Path) -> Summary:
    with translate_errors():

        def number(query: str) -> int:
            row = sql.execute(query).fetchone()
            if row is None or not isinstance(row[0], int):
                raise Corrupt(f"{path}: a table lacks what it should have")
            return row[0]

        return Summary(
            revision=Revision(number(_NEWEST)),
            compacted=Revision(number(_COMPACTED)),
            objects=number("SELECT count(*) FROM current"),
            versions=number("SELECT count(*) FROM log"),
            size=path.stat().st_size,
        )


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a file that is a store already."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    with translate_errors(path):
        uri = f"{path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as sql:
            if not check_layout(sql, path):
                raise Corrupt(f"{path} is no store: it is empty")
            yield sql


@contextmanager
def _owned(path: Path) -> Iterator[None]:
    """The right to be the only one who uses a file that is there."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    with _locked(path):
        with _opened(path):  # is it a store?
            pass
        yield


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with translate_errors(path):
        held = FileLock(path)
    try:
        yield
    finally:
        held.release()


def _must_be_absent(path: Path) -> None:
    # A log of another database beside the new file would be read as its own.
    for each in (path, Path(f"{path}-wal"), Path(f"{path}-journal")):
        if each.exists():
            raise FileExistsError(f"{each} is there already: it is not overwritten")


@contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    """A file that only its owner can read, under another name until it is whole."""
    partial = Path(f"{path}.partial")
    try:
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))
        yield partial
        _flush(partial)
        os.rename(partial, path)
        _flush(path.parent)
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{partial}{suffix}").unlink(missing_ok=True)


def _flush(path: Path) -> None:
    folder = path.is_dir()
    if folder and os.name == "nt":
        return  # no such thing there
    # Windows flushes what may be written only, and nobody may write a folder.
    file = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(file)
    finally:
        os.close(file)
