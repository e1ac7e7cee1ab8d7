"""The tables of the embedded store, and the versions of their layout.

    log      every version of every key, one row per revision; a NULL value is a deletion.
             `previous` is the revision of the replaced version, 0 if there is none
    current  the current revision of each existing key; small rows, so counting is fast
    expiry   when the version of a revision expires; stale rows are deleted when they are due
    state    one row: the revision below which history is compacted

The checksums are those of `storage/sqlite/damage.py`. Rows of layout 1 have none.

The layout is `PRAGMA user_version` of the file. A step to a later one is one transaction, which
also writes the number, so that a crash leaves one layout or the other. No step leads back.

    layout               what happens                     next layout
    0, no tables         `update_layout`                  2: all tables are created
    1                    `update_layout`                  2: the columns `checksum` are added
    2                    nothing                          2
    3 and later          `check_layout` raises Corrupt    as it is; written by a newer kapiserver
    any, other tables    `check_layout` raises Corrupt    as it is; another program's database
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from kapiserver.storage.errors import Corrupt

LAYOUT = 2
_TABLES = {
    "log": """CREATE TABLE log (
    revision INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    deleted INTEGER NOT NULL,
    previous INTEGER NOT NULL,
    value BLOB
, checksum INTEGER)""",
    "log_by_key": "CREATE INDEX log_by_key ON log (key, revision, deleted)",
    "current": "CREATE TABLE current (key TEXT PRIMARY KEY, revision INTEGER NOT NULL) "
    "WITHOUT ROWID",
    "expiry": "CREATE TABLE expiry (revision INTEGER PRIMARY KEY, at REAL NOT NULL, "
    "checksum INTEGER)",
    "expiry_by_time": "CREATE INDEX expiry_by_time ON expiry (at)",
    "state": "CREATE TABLE state (compacted INTEGER NOT NULL)",
}
"""The statement of each table and index, as SQLite stores it. It is the same in a new file and in a
file of layout 1 to which columns were added."""
_NEW = f"""
BEGIN;
{";".join(_TABLES.values())};
INSERT INTO state VALUES (0);
PRAGMA user_version = {LAYOUT};
COMMIT;
"""
_FROM_LAYOUT_1 = f"""
BEGIN;
ALTER TABLE log ADD COLUMN checksum INTEGER;
ALTER TABLE expiry ADD COLUMN checksum INTEGER;
PRAGMA user_version = {LAYOUT};
COMMIT;
"""


def check_layout(sql: sqlite3.Connection, path: Path | None) -> int:
    """Return the layout version of a file, 0 if it has no tables. Raises Corrupt if the tables are
    not those of a store or have a newer layout, and sqlite3.DatabaseError."""
    # The number first: the tables of a newer layout may have any names.
    layout: int = sql.execute("PRAGMA user_version").fetchone()[0]
    if layout > LAYOUT:
        raise Corrupt(f"{path} was written by a newer kapiserver (layout {layout})")
    tables = {row[0] for row in sql.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if tables and (not layout or not {"log", "current", "expiry", "state"} <= tables):
        raise Corrupt(f"{path} is a database of another program")
    return layout


def update_layout(sql: sqlite3.Connection, layout: int) -> None:
    """Create the tables (from layout 0), or add what a later layout has. Raises sqlite3.Error."""
    if layout != LAYOUT:
        sql.executescript(_FROM_LAYOUT_1 if layout else _NEW)


def has_expected_schema(sql: sqlite3.Connection) -> bool:
    """Report whether the tables and indexes of a file of the newest layout are as created. Raises
    sqlite3.Error."""
    schema = dict(sql.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL"))
    encoding = sql.execute("PRAGMA encoding").fetchone()[0]
    return schema == _TABLES and encoding == "UTF-8"
