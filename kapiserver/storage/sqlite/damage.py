"""Finds damage in the SQLite file of a store, so that no list is short and no value is wrong.

Each row has a checksum, which is compared whenever the row is read. The pages, the indexes and the
number of rows are checked when the file is opened: a row that is missing has no checksum. Decision
031 says what that costs.
"""

from __future__ import annotations

import sqlite3
from zlib import crc32

from kapiserver.storage.errors import Damaged
from kapiserver.storage.sqlite.layout import has_expected_schema

# A message for each kind of damage, and the query that finds a damaged row.
_RULES = (
    (
        "an object has no version",
        "SELECT current.key FROM current LEFT JOIN log INDEXED BY log_by_key "
        "ON log.key = current.key AND log.revision = current.revision AND NOT log.deleted "
        "WHERE log.key IS NULL LIMIT 1",
    ),
    (
        "an object is missing, or is not the newest version",
        "SELECT 1 FROM "
        "(SELECT count(*) AS number, total(revision) AS revisions FROM current) AS now, "
        "(SELECT count(*) AS number, total(revision) AS revisions FROM ("
        "SELECT max(revision) AS revision, deleted FROM log INDEXED BY log_by_key GROUP BY key"
        ") WHERE NOT deleted) AS newest "
        "WHERE now.number <> newest.number OR now.revisions <> newest.revisions",
    ),
    (
        "a revision is missing",
        "SELECT 1 FROM (SELECT max(compacted, 1) AS oldest FROM state), "
        "(SELECT coalesce(max(revision), 1) AS newest FROM log) WHERE oldest > newest OR "
        "newest - oldest <> "
        "(SELECT count(*) FROM log INDEXED BY log_by_key WHERE revision > oldest)",
    ),
)


def row_checksum(key: str, revision: int, previous: int, value: bytes | None) -> int:
    """Return the checksum of a version of a key: CRC-32 of all its columns."""
    size = -1 if value is None else len(value)
    return crc32(value or b"", crc32(f"{revision} {previous} {size} {key}".encode()))


def expiry_checksum(revision: int, at: float) -> int:
    """Return the checksum of the time at which a version expires."""
    return crc32(f"{revision} {at!r}".encode())


def check_row(
    key: str, revision: int | None, previous: int, value: bytes | None, checksum: int | None
) -> None:
    """Raise Damaged if a version of a key is missing or is not the version that was written."""
    if type(value) is bytes:  # the usual case, in few calls: long lists read many rows
        head = f"{revision} {previous} {len(value)} {key}".encode()
        if checksum == crc32(value, crc32(head)):
            return
    if revision is None:
        raise Damaged(f"the version of {key} is missing")
    if differs_from_checksum(key, revision, previous, value, checksum):
        raise Damaged(f"{key} at revision {revision} differs from its checksum")


def differs_from_checksum(
    key: str, revision: int, previous: int, value: bytes | None, checksum: int | None
) -> bool:
    """Report whether a version of a key is not the version that was written."""
    if not (value is None or isinstance(value, bytes)):
        return True
    return checksum is not None and checksum != row_checksum(key, revision, previous, value)


def find_damage(sql: sqlite3.Connection) -> str:
    """Return the first damage to the structure of a file, "" if there is none. Raises
    sqlite3.Error."""
    for (text,) in sql.execute("PRAGMA integrity_check(1)"):
        if text != "ok":
            return f"SQLite: {' '.join(str(text).split())}"
    if not has_expected_schema(sql):
        return "the tables are not those of a store"
    for description, query in _RULES:
        if sql.execute(query).fetchone() is not None:
            return description
    return ""
