"""Checks of the tables of a store in PostgreSQL: dead rows, what keeps vacuum from them, growth."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from kapiserver.doctor.finding import ERROR, WARNING, Problem
from kapiserver.doctor.installation import Installation
from kapiserver.doctor.stores.postgresql import database_problem, inspection_of, schema_of
from kapiserver.doctor.stores.sqlite import changes_problem

DEAD_ROWS = 100_000
"""A table with at least this many dead rows gets a warning if fewer of its rows are live."""
SMALL_TABLES = ("state", "compaction", "layout")
"""Tables of one row; each write reads `state`."""
SMALL_BYTES = 16 << 20
"""A table of SMALL_TABLES that is at least this large is bloated."""
LONG_SECONDS = 3600.0
"""A transaction that is at least this old holds up vacuum."""
SLOT_BYTES = 1 << 30
"""An unused replication slot gets a warning if it keeps at least this many bytes of log."""
OLD_TRANSACTIONS, LAST_TRANSACTIONS = 500_000_000, 1_500_000_000
"""The ages of the oldest transaction number that cause a warning and an error. PostgreSQL
freezes tables from 200 million on, and refuses writes near 2 billion."""


def dead_rows(installation: Installation) -> Iterator[Problem]:
    """Look at dead rows and bloat."""
    inspection = inspection_of(installation)
    if inspection is None:
        return
    if not inspection.server["autovacuum"]:
        yield database_problem(
            installation,
            ERROR,
            "autovacuum is off: the tables grow for ever",
            "ALTER SYSTEM SET autovacuum = on, and track_counts = on",
        )
    for table in inspection.tables:
        yield from _table_problems(f"table {schema_of(installation)}.{table['name']}", table)


def _table_problems(about: str, table: Mapping[str, Any]) -> Iterator[Problem]:
    if not table["autovacuum"]:
        yield Problem(
            severity=WARNING,
            about=about,
            message="autovacuum is off for it: it grows for ever",
            remedy="ALTER TABLE ... RESET (autovacuum_enabled)",
        )
    if table["dead_rows"] > max(DEAD_ROWS, table["rows"]):
        last = table["vacuumed"]
        when = f"was vacuumed at {last:%F %T} UTC" if last else "was never vacuumed"
        yield Problem(
            severity=WARNING,
            about=about,
            message=f"has {table['dead_rows']} dead rows beside {table['rows']}, and {when}",
            remedy="VACUUM it, and see what keeps autovacuum from it",
        )
    if table["name"] in SMALL_TABLES and table["size"] > SMALL_BYTES:
        yield Problem(
            severity=WARNING,
            about=about,
            message=f"is bloated: its row takes {table['size'] >> 20} MiB",
            remedy="stop the servers and VACUUM FULL it",
        )


def vacuum_blockers(installation: Installation) -> Iterator[Problem]:
    """Look for what keeps vacuum from removing rows, and the server from removing its log."""
    inspection = inspection_of(installation)
    if inspection is None:
        return
    for transaction in inspection.transactions:
        if transaction["seconds"] > LONG_SECONDS:
            yield Problem(
                severity=WARNING,
                about=transaction["name"],
                message=f"is in a transaction for {transaction['seconds'] // 3600:.0f} hours: "
                "vacuum keeps all rows that it may still read",
                remedy="end it: pg_terminate_backend, or ROLLBACK PREPARED",
            )
    for slot in inspection.slots:
        if slot["bytes"] > SLOT_BYTES:
            yield Problem(
                severity=WARNING,
                about=f"replication slot {slot['name']}",
                message=f"nobody reads it, and it keeps {slot['bytes'] >> 20} MiB of the "
                "write-ahead log, until the disk is full",
                remedy="start its standby, or drop it: pg_drop_replication_slot",
            )
    age = inspection.server["oldest_transaction"]
    if age > OLD_TRANSACTIONS:
        yield database_problem(
            installation,
            ERROR if age > LAST_TRANSACTIONS else WARNING,
            f"its oldest transaction is {age} transactions old; near 2 billion PostgreSQL refuses "
            "writes",
            "VACUUM FREEZE the database, and see what keeps autovacuum from it",
        )


def changed_often(installation: Installation) -> Iterator[Problem]:
    """Look for resources whose objects have many versions in the history."""
    inspection = inspection_of(installation)
    if inspection is None or not inspection.layout:
        return
    from kapiserver.storage.postgresql.inspection import resource_counts

    root, schema = installation.config.store.key_root, schema_of(installation)
    counts = asyncio.run(resource_counts(installation.postgresql_address, schema, root))
    for count in counts:
        yield from changes_problem(f"{root}{count['name']}", count["versions"], count["objects"])


def table_figures(installation: Installation) -> dict[str, float]:
    """Return the bytes of each table, by name."""
    inspection = inspection_of(installation)
    if inspection is None:
        return {}
    schema = schema_of(installation)
    return {f"bytes of {schema}.{table['name']}": table["size"] for table in inspection.tables}
