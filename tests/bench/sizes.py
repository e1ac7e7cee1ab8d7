"""The sizes of the files or tables of a store, in megabytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.bench.servers import Store

Sizes = dict[str, float]
"""Megabytes, by the names of files or tables."""
WAL = "WAL"
"""The name of a write-ahead log, which has a limit of its own."""
_TABLES = """
SELECT pg_table_size(log) AS "log", pg_indexes_size(log) AS "indexes of log",
    pg_total_relation_size(c) AS "current", (SELECT sum(size) FROM pg_ls_waldir()) AS "WAL"
FROM (SELECT 'kapiserver.log'::regclass, 'kapiserver.current'::regclass) AS names (log, c)
"""


def sizes_of(below: Store, folder: Path) -> Callable[[], Awaitable[Sizes]]:
    """Return a function that measures the store of a server with this folder: tables of
    PostgreSQL, or a SQLite file."""
    if below.flags:
        return lambda: _table_sizes(below.flags[1])
    return lambda: _file_sizes(folder / "data" / "kapiserver.db")


async def _file_sizes(file: Path) -> Sizes:
    files = {"file": file, WAL: Path(f"{file}-wal")}
    return {name: each.stat().st_size / 1e6 if each.exists() else 0 for name, each in files.items()}


async def _table_sizes(address: str) -> Sizes:
    import asyncpg

    connection = await asyncpg.connect(address)
    try:
        row = await connection.fetchrow(_TABLES)
    finally:
        await connection.close()
    return {name: float(size) / 1e6 for name, size in row.items()}
