"""What an administrator wants to know of the database of a store: settings, rights, sizes, vacuum.

Reads the views of statistics and creates nothing, so a role that may only connect can inspect.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from msgspec import Struct

from kapiserver.storage.errors import Refused
from kapiserver.storage.postgresql.connector import Connector
from kapiserver.storage.postgresql.errors import translate_errors
from kapiserver.storage.postgresql.layout import layout_of, quoted

COUNT_SECONDS = 60.0
"""Seconds that counting the keys of a store may take."""
NOTIFY_SECONDS = 5.0
"""Seconds after which a notification is lost."""
_CHANNEL = "kapiserver_inspection"

_SERVER = """
SELECT current_setting('server_version') AS release,
    current_setting('server_version_num')::int / 10000 AS major,
    clock_timestamp() AS now,
    current_setting('transaction_read_only') = 'on' AS read_only,
    pg_is_in_recovery() AS standby,
    current_setting('fsync') = 'on' AS fsync,
    current_setting('full_page_writes') = 'on' AS full_page_writes,
    current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on' AS autovacuum,
    current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0) AS max_connections,
    (SELECT sum(numbackends) FROM pg_stat_database)::int AS connections,
    (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()) AS encrypted,
    coalesce(NOT inet_client_addr() <<= ANY ('{127.0.0.0/8,::1}'::inet[]), false) AS remote,
    age(d.datfrozenxid)::int AS oldest_transaction, d.datconnlimit AS database_limit,
    r.rolname AS role, r.rolconnlimit AS role_limit,
    CASE WHEN r.rolsuper THEN '{SUPERUSER}' ELSE array_remove(ARRAY[
        CASE WHEN r.rolcreaterole THEN 'CREATEROLE' END,
        CASE WHEN r.rolcreatedb THEN 'CREATEDB' END,
        CASE WHEN r.rolreplication THEN 'REPLICATION' END,
        CASE WHEN r.rolbypassrls THEN 'BYPASSRLS' END
    ], NULL) || ARRAY(
        SELECT rolname::text FROM pg_roles
        WHERE rolname IN ('pg_execute_server_program', 'pg_read_all_data', 'pg_read_server_files',
            'pg_write_all_data', 'pg_write_server_files')
        AND pg_has_role(current_user, oid, 'MEMBER') ORDER BY rolname
    ) END AS powers,
    has_database_privilege(current_database(), 'CREATE') AS creates_schemas
FROM pg_database d, pg_roles r
WHERE d.datname = current_database() AND r.rolname = current_user
"""
_SCHEMA = """
SELECT has_schema_privilege(oid, 'USAGE') AS usable, has_schema_privilege(oid, 'CREATE') AS creates
FROM pg_namespace WHERE nspname = $1
"""
_TABLES = """
SELECT c.relname AS name, pg_total_relation_size(c.oid) AS size,
    coalesce(s.n_live_tup, 0) AS rows, coalesce(s.n_dead_tup, 0) AS dead_rows,
    greatest(s.last_vacuum, s.last_autovacuum) AS vacuumed,
    coalesce((
        SELECT option_value::boolean FROM pg_options_to_table(c.reloptions)
        WHERE option_name = 'autovacuum_enabled'
    ), true) AS autovacuum,
    has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
        AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')
        AS usable,
    has_schema_privilege('public', n.oid, 'USAGE')
        AND has_table_privilege('public', c.oid, 'SELECT') AS public
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
WHERE n.nspname = $1 AND c.relkind = 'r' ORDER BY c.relname
"""
# Rows that one of these still sees stay, however often the tables are vacuumed.
_TRANSACTIONS = """
SELECT 'session ' || pid || coalesce(' of ' || usename, '') AS name,
    extract(epoch FROM clock_timestamp() - xact_start)::float AS seconds
FROM pg_stat_activity WHERE xact_start IS NOT NULL AND backend_type = 'client backend'
UNION ALL
SELECT 'prepared transaction ' || gid, extract(epoch FROM clock_timestamp() - prepared)::float
FROM pg_prepared_xacts ORDER BY seconds DESC
"""
_SLOTS = """
SELECT slot_name AS name, pg_wal_lsn_diff(
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END,
    restart_lsn
)::bigint AS bytes
FROM pg_replication_slots WHERE NOT active AND restart_lsn IS NOT NULL ORDER BY slot_name
"""
_RESOURCES = """
SELECT '/' || CASE WHEN split_part(key, '/', 1) LIKE '%.%'
        THEN split_part(key, '/', 1) || '/' || split_part(key, '/', 2)
        ELSE split_part(key, '/', 1) END || '/' AS name,
    sum(versions)::bigint AS versions, sum(objects)::bigint AS objects
FROM (
    SELECT substr(encode(key, 'escape'), $1) AS key, 1 AS versions, 0 AS objects
    FROM {schema}.log
    UNION ALL
    SELECT substr(encode(key, 'escape'), $1), 0, 1 FROM {schema}.current
) AS counted GROUP BY 1
"""


class Inspection(Struct, frozen=True, kw_only=True):
    """What PostgreSQL says about itself, its schema and the role.

    server          the row of _SERVER
    behind_seconds  how far the clock of PostgreSQL is behind that of the caller
    schema          the role's rights to the schema; None if there is no such schema
    layout          the version of the tables; 0 if there are none
    layout_error    why the tables cannot be used; "" if they can
    tables          the tables of the schema, with their sizes in bytes
    transactions    transactions in progress, the oldest first, with their age in seconds
    slots           replication slots that nobody uses, with the bytes of the log that they keep
    notifies        whether a notification arrives at a session that listens
    """

    server: Mapping[str, Any]
    behind_seconds: float
    schema: Mapping[str, Any] | None
    layout: int
    layout_error: str
    tables: Sequence[Mapping[str, Any]]
    transactions: Sequence[Mapping[str, Any]]
    slots: Sequence[Mapping[str, Any]]
    notifies: bool


async def inspect(address: str, schema: str, now: Callable[[], float]) -> Inspection:
    """Inspect the database at an address, `postgresql://...`. `now` returns the seconds since the
    epoch. Raises Refused, Unavailable, OSError for certificate files that cannot be read,
    ValueError for an invalid address."""
    async with _connection(address) as connection:
        (server,) = await connection.fetch(_SERVER)
        behind = now() - server["now"].timestamp()
        layout, layout_error = await _layout(connection, schema)
        return Inspection(
            server=server,
            behind_seconds=behind,
            schema=await connection.fetchrow(_SCHEMA, schema),
            layout=layout,
            layout_error=layout_error,
            tables=await connection.fetch(_TABLES, schema),
            transactions=await connection.fetch(_TRANSACTIONS),
            slots=await connection.fetch(_SLOTS),
            notifies=server["read_only"] or await _notifies(address, connection),
        )


async def resource_counts(address: str, schema: str, root: str) -> Sequence[Mapping[str, Any]]:
    """Return for each resource its `name`, a part of the keys, and the number of its `objects` and
    of the `versions` in the history. Raises like `inspect`."""
    async with _connection(address) as connection:
        query = _RESOURCES.format(schema=quoted(schema))
        rows: list[asyncpg.Record] = await connection.fetch(
            query, len(root) + 2, timeout=COUNT_SECONDS
        )
        return rows


@asynccontextmanager
async def _connection(address: str) -> AsyncIterator[asyncpg.Connection]:
    connector = Connector(address)
    with translate_errors():
        connection = await connector.connect()
        try:
            yield connection
        finally:
            await connection.close()


async def _layout(connection: asyncpg.Connection, schema: str) -> tuple[int, str]:
    """Return the version of the tables, and why they cannot be used."""
    try:
        return await layout_of(connection, schema), ""
    except (Refused, asyncpg.InsufficientPrivilegeError) as error:
        return 0, str(error)


async def _notifies(address: str, listening: asyncpg.Connection) -> bool:
    """Report whether a session that listens hears another one; behind a pool of transactions it
    does not."""
    arrived = asyncio.Event()
    await listening.add_listener(_CHANNEL, lambda *_: arrived.set())
    async with _connection(address) as sender:
        await sender.execute(f"NOTIFY {_CHANNEL}")
    try:
        async with asyncio.timeout(NOTIFY_SECONDS):
            await arrived.wait()
    except TimeoutError:
        return False
    return True
