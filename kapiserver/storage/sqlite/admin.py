"""Maintenance of a store's SQLite file: check, compact, backup (also while it is served), restore.

The tables are those of `storage/sqlite/database.py`; their invariants are listed here. The caller
checks the values. Mirrors etcdutl's snapshot commands.
"""

from __future__ import annotations

import functools
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from msgspec import Struct

from kapiserver.storage.errors import Corrupt
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.sqlite.damage import differs_from_checksum, find_damage
from kapiserver.storage.sqlite.database import Database
from kapiserver.storage.sqlite.errors import translate_errors
from kapiserver.storage.sqlite.layout import LAYOUT, check_layout
from kapiserver.storage.sqlite.lock import FileLock, check_name

Progress = Callable[[str, int, int], None]
"""Receives the current step, how much of it is done, and its total."""
ValueCheck = Callable[[str, bytes], str]
"""Returns the error of the value of a key, "" if it is valid."""

MAX_PROBLEMS = 100
"""Maximum number of reported problems."""
DEFAULT_BUMP = 1_000_000_000
"""Revisions that a restore skips: more than were written since the backup."""

_PAGES = 4096
_COMPACTION_STEP = 10_000
_VACUUM_STEP = 10_000
_PROGRESS_STEP = 10_000
_NEWEST = "SELECT coalesce(max(revision), 1) FROM log"
_COMPACTED = "SELECT compacted FROM state"
# Invariants: a description, and the query of the rows that violate it.
_INVARIANTS = (
    (
        "revision {}: keys are text and values are bytes",
        "SELECT revision FROM log "
        "WHERE typeof(key) <> 'text' OR typeof(value) NOT IN ('blob', 'null')",
    ),
    (
        "revision {}: a version is a deletion if and only if it has no value",
        "SELECT revision FROM log WHERE deleted <> (value IS NULL)",
    ),
    (
        "{}: the current revision of the key is an existing version of it",
        "SELECT current.key FROM current LEFT JOIN log ON log.revision = current.revision "
        "WHERE log.key IS NOT current.key OR log.deleted",
    ),
    (
        "{}: the current revision is the newest version, and absent after a deletion",
        "SELECT newest.key FROM (SELECT key, max(revision) AS revision, deleted "
        "FROM log INDEXED BY log_by_key GROUP BY key) AS newest "
        "LEFT JOIN current ON current.key = newest.key "
        "WHERE current.revision IS NOT CASE WHEN deleted THEN NULL ELSE newest.revision END",
    ),
    (
        "revision {}: previous is the revision of the replaced version",
        "SELECT this.revision FROM log AS this LEFT JOIN log AS old ON old.revision = ("
        "SELECT max(revision) FROM log INDEXED BY log_by_key "
        "WHERE key = this.key AND revision < this.revision) "
        f"WHERE this.revision > ({_COMPACTED}) AND this.previous <> "
        "CASE WHEN old.revision IS NULL OR old.deleted THEN 0 ELSE old.revision END",
    ),
    (
        "revision {}: unreadable versions are compacted away",
        f"SELECT this.revision FROM log AS this WHERE this.revision < ({_COMPACTED}) AND ("
        "this.deleted OR EXISTS (SELECT 1 FROM log AS other WHERE other.key = this.key "
        f"AND other.revision > this.revision AND other.revision <= ({_COMPACTED})))",
    ),
    (
        "revision {}: the compacted revision is not newer than the newest",
        f"SELECT compacted FROM state WHERE compacted > ({_NEWEST})",
    ),
    ("{} rows of state: there is exactly one", "SELECT count(*) FROM state HAVING count(*) <> 1"),
)


class Summary(Struct, frozen=True, kw_only=True):
    """The contents of a file.

    revision    newest revision
    compacted   oldest readable revision
    objects     number of existing keys
    versions    number of versions of all keys, deletions included
    size        bytes of the file
    free        bytes of its unused pages
    """

    revision: Revision
    compacted: Revision
    objects: int
    versions: int
    size: int
    free: int


class ResourceSize(Struct, frozen=True, kw_only=True):
    """The versions of the objects below a key of a file.

    prefix      the key of the resource, such as "/registry/pods/"
    objects     number of existing objects
    versions    number of their versions, deletions included
    size        bytes of these versions
    """

    prefix: str
    objects: int
    versions: int
    size: int


def check(path: Path, check_value: ValueCheck, progress: Progress) -> Sequence[str]:
    """Return the problems of a file that no server uses, at most `MAX_PROBLEMS`. Raises
    FileNotFoundError, StoreLocked, Corrupt for a file that is not a store, Unavailable."""
    problems: list[str] = []
    with _exclusive(path), _connection_to(path) as sql:
        sql.text_factory = _decode_text
        steps = len(_INVARIANTS) + 1
        progress("checking pages", 0, steps)
        for (text,) in sql.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})"):
            if text != "ok":
                problems.append(f"SQLite: {text}")
        if problems:  # reading the tables may fail
            return problems
        for number, (description, query) in enumerate(_INVARIANTS, 1):
            progress("checking rules", number, steps)
            rows = sql.execute(f"{query} LIMIT {MAX_PROBLEMS}")
            problems.extend(f"{description.format(row[0])}: that does not hold" for row in rows)
        problems.extend(islice(_values(sql, check_value, progress), MAX_PROBLEMS))
    return problems[:MAX_PROBLEMS]


def _values(sql: sqlite3.Connection, check_value: ValueCheck, progress: Progress) -> Iterator[str]:
    count = sql.execute("SELECT count(*) FROM log").fetchone()[0]
    has_checksums = sql.execute("PRAGMA user_version").fetchone()[0] >= LAYOUT
    checksum = "checksum" if has_checksums else "NULL"
    rows = sql.execute(
        f"SELECT revision, key, CAST(key AS BLOB), value, previous, {checksum} FROM log"
    )
    for count, (revision, key, raw, value, previous, checksum) in enumerate(rows, 1):
        if isinstance(key, str) and key.encode() != raw:
            yield f"{key} at revision {revision}: the key is no UTF-8"
        elif differs_from_checksum(str(key), revision, previous, value, checksum):
            yield f"{key} at revision {revision}: the version differs from its checksum"
        elif isinstance(value, bytes) and (problem := check_value(str(key), value)):
            yield f"{key} at revision {revision}: {problem}"
        if count % _PROGRESS_STEP == 0 or count == count:
            progress("decoding values", count, count)


def _decode_text(text: bytes) -> str:
    return text.decode(errors="backslashreplace")


def compact(path: Path, progress: Progress) -> Summary:
    """Compact the history of a file that no server uses, and return free pages to the file system.
    Raises FileNotFoundError, StoreLocked, Corrupt, Unavailable."""
    with _exclusive(path):
        with closing(Database(path)) as database:
            newest = database.revision()
            while (compacted := database.compact(newest, _COMPACTION_STEP)) < newest:
                progress("forgetting history", compacted, newest)
            free = database.free_pages()
            while database.shrink(_VACUUM_STEP):
                progress("giving pages back", free - database.free_pages(), free)
        with _connection_to(path) as sql:
            return _summary(sql, path)


def backup(path: Path, to: Path, progress: Progress) -> Summary:
    """Copy the current state of a store, served or not, to a new file. On failure the file is not
    created. Raises FileNotFoundError, FileExistsError, StoreLocked if the store is served under
    another name, Corrupt, Unavailable."""
    _check_absent(to)
    if path.is_file():
        with translate_errors(path):
            check_name(path)
    with _connection_to(path) as sql, _new_file(to) as partial:
        _copy(sql, partial, progress)
        with _connection_to(partial) as copy:
            copy.execute("PRAGMA journal_mode = DELETE")
            return _summary(copy, partial)


def restore(path: Path, to: Path, *, bump: int, progress: Progress) -> Summary:
    """Create a store from a backup, at a path where no store exists.

    Clients may have seen revisions that were written after the backup. To avoid that such a
    revision is used again, the counter skips `bump` revisions and all older ones are compacted, so
    that clients list and watch again. With 0, the counter continues from the backup. Raises
    FileNotFoundError, FileExistsError, StoreLocked, Corrupt, Unavailable."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    to.parent.mkdir(parents=True, exist_ok=True)
    with _locked(to):
        _check_absent(to)
        with _connection_to(path) as sql, _new_file(to) as partial:
            _copy(sql, partial, progress)
            with closing(Database(partial)) as database:
                database.check()
                if bump:
                    _skip_revisions(database, bump)
            with _connection_to(partial) as copy:
                copy.execute("PRAGMA journal_mode = DELETE")
                return _summary(copy, partial)


def _skip_revisions(database: Database, revisions: int) -> None:
    newest = database.revision()
    while database.compact(newest, _COMPACTION_STEP) < newest:
        pass
    skipped_to = Revision(newest + revisions)
    database.skip_to(skipped_to)
    database.compact(skipped_to, revisions)


def _copy(sql: sqlite3.Connection, to: Path, progress: Progress) -> None:
    def step(_status: int, remaining: int, total: int) -> None:
        progress("copying pages", total - remaining, total)

    with translate_errors(to), closing(sqlite3.connect(to)) as target:
        # A read transaction pins the source: without it, each write of a server would restart the
        # copy.
        sql.execute("BEGIN")
        sql.execute(_NEWEST).fetchone()
        sql.backup(target, pages=_PAGES, progress=step)
        sql.execute("ROLLBACK")


def _summary(sql: sqlite3.Connection, path: Path) -> Summary:
    with translate_errors():

        def number(query: str) -> int:
            row = sql.execute(query).fetchone()
            if row is None or not isinstance(row[0], int):
                raise Corrupt(f"{path}: a table has no row")
            return row[0]

        return Summary(
            revision=Revision(number(_NEWEST)),
            compacted=Revision(number(_COMPACTED)),
            objects=number("SELECT count(*) FROM current"),
            versions=number("SELECT count(*) FROM log"),
            size=path.stat().st_size,
            free=number("PRAGMA freelist_count") * number("PRAGMA page_size"),
        )


def summarize(path: Path) -> Summary:
    """Return the contents of a store, served or not. Raises FileNotFoundError, Corrupt,
    Unavailable."""
    with _connection_to(path) as sql:
        return _summary(sql, path)


def resource_sizes(path: Path, root: str) -> Sequence[ResourceSize]:
    """Return the sizes of the resources of a store, served or not, the largest first. The keys of a
    resource begin with `root` and its name; a group has a resource below its own name. Raises
    FileNotFoundError, Corrupt, Unavailable."""
    with _connection_to(path) as sql, translate_errors(path):
        sql.create_function("prefix", 1, functools.partial(_prefix, root), deterministic=True)
        rows = sql.execute(
            "SELECT prefix(log.key) AS prefix, count(current.revision), count(*), "
            "total(length(value)) FROM log LEFT JOIN current ON current.revision = log.revision "
            "AND current.key = log.key GROUP BY prefix ORDER BY 4 DESC"
        )
        return [
            ResourceSize(prefix=prefix, objects=objects, versions=versions, size=int(size))
            for prefix, objects, versions, size in rows
        ]


def _prefix(root: str, key: str) -> str:
    """Return the key of the resource of an object."""
    group, _, rest = key.removeprefix(f"{root}/").partition("/")
    resource = rest.partition("/")[0] if "." in group else ""
    return f"{root}/{group}/{resource}/" if resource else f"{root}/{group}/"


def damage(path: Path) -> str:
    """Return the first damage to the structure of a store, served or not; "" if there is none.
    Raises FileNotFoundError, Corrupt, Unavailable."""
    with _connection_to(path) as sql, translate_errors(path):
        return find_damage(sql)


@contextmanager
def _connection_to(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection to an existing store."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    with translate_errors(path):
        uri = f"{path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as sql:
            if not check_layout(sql, path):
                raise Corrupt(f"{path} is not a store: it is empty")
            yield sql


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold the exclusive lock of an existing store."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    with _locked(path):
        with _connection_to(path):  # check that it is a store
            pass
        yield


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with translate_errors(path):
        lock = FileLock(path)
    try:
        yield
    finally:
        lock.release()


def _check_absent(path: Path) -> None:
    # SQLite would read a stale log beside the new file as its own.
    for file in (path, Path(f"{path}-wal"), Path(f"{path}-journal")):
        if file.exists():
            raise FileExistsError(f"{file} is there already: it is not overwritten")


@contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    """Yield the temporary path of a new file, readable by its owner only. The file gets its name
    when it is complete."""
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
    is_directory = path.is_dir()
    if is_directory and os.name == "nt":
        return  # Windows cannot flush a directory
    # Windows only flushes files that are open for writing.
    file = os.open(path, os.O_RDONLY if is_directory else os.O_RDWR)
    try:
        os.fsync(file)
    finally:
        os.close(file)
