"""The tables and functions of a store in PostgreSQL, and the versions of their layout.

    log         every version of every key, one row per revision; a NULL value is a deletion.
                `previous` is the revision of the replaced version, 0 if there is none
    current     the current revision of each existing key; small rows, so that counting is fast
    expiry      when the version of a revision expires, in seconds since the epoch; rows of replaced
                versions are deleted when they are due
    state       one row: the newest revision. While another session holds an old snapshot, as a dump
                of the database does, PostgreSQL keeps each replaced version of this row. So readers
                and writers take the newest by the index `state_by_revision`
    compaction  one row: the revision below which history is compacted
    layout      one row: the version of the layout

The version of a key at a revision is that in `current`, if it is not newer, else `previous` of the
first newer version. So the log needs an index by key of those rows alone that replaced a version
(`log_by_replaced_key`), and a create adds to two indexes, not to three.

Keys are `bytea`, which PostgreSQL compares byte by byte: no collation changes their order, and a
range may begin at a key with a zero byte. The schema holds nothing else, so one role that owns the
schema is all the rights that a store needs.

`write_batch` locks the row of `state` until its transaction ends, so that revisions are committed
in their order and no reader sees a gap. It returns a row for each write whose key has another
revision than it expects, then a row of place 0 with the revision before the first of the others.
`compact` locks the row of `compaction` and only deletes rows that no writer reads, so that it never
waits for a writer and no writer waits for it.

    layout        what happens                              next layout
    none          all is created                            5
    1 to 4        functions and indexes are created or      5
                  replaced
    5             nothing                                   5
    6 and later   `Refused` is raised                       as it is; of a newer kapiserver

Servers of an older version that run meanwhile go on with the functions of a newer one, and with
`apply_writes`, which layouts 1 and 2 have instead of `write_batch`. Without `log_by_key` their
lists at an older revision sort all versions of their keys.
"""

from __future__ import annotations

import asyncpg

from kapiserver.storage.errors import Refused

LAYOUT = 5

_MIGRATION_LOCK = 0x6B617069  # "kapi"
"""The key of the advisory lock that servers which start at the same time take in turn."""

_MIGRATION_SECONDS = 3600.0
"""How long a step to a newer layout may take, which reads the whole log for a new index."""

# CREATE SCHEMA IF NOT EXISTS asks for the right to create schemas even if there is nothing to do.
_SCHEMA_EXISTS = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)"
_TABLES = """
CREATE TABLE {schema}.log (
    revision bigint PRIMARY KEY,
    key bytea NOT NULL,
    previous bigint NOT NULL,
    deleted boolean NOT NULL,
    checksum bigint NOT NULL,
    value bytea
) WITH (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_threshold = 5000,
    toast.autovacuum_vacuum_cost_delay = 0
);
CREATE TABLE {schema}.current (key bytea PRIMARY KEY, revision bigint NOT NULL) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000
);
CREATE TABLE {schema}.expiry (revision bigint PRIMARY KEY, at double precision NOT NULL);
CREATE INDEX expiry_by_time ON {schema}.expiry (at);
CREATE TABLE {schema}.state (revision bigint NOT NULL);
CREATE TABLE {schema}.compaction (revision bigint NOT NULL);
CREATE TABLE {schema}.layout (version integer NOT NULL);
INSERT INTO {schema}.state VALUES (1);
INSERT INTO {schema}.compaction VALUES (0);
INSERT INTO {schema}.layout VALUES (0);
"""
_INDEXES = """
DROP INDEX IF EXISTS {schema}.log_by_key;
CREATE INDEX IF NOT EXISTS log_by_replaced_key
    ON {schema}.log (key, revision) INCLUDE (previous) WHERE previous > 0;
CREATE INDEX IF NOT EXISTS state_by_revision ON {schema}.state (revision);
"""
_FUNCTIONS = """
CREATE OR REPLACE FUNCTION {schema}.write_batch(
    keys bytea[], contents bytea[], expected bigint[], expires double precision[],
    checksums bigint[]
) RETURNS TABLE (place bigint, revision bigint, content bytea)
LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    size bigint := cardinality(keys);
    before bigint;
    failed bigint;
BEGIN
    SELECT revision INTO before FROM {schema}.state ORDER BY revision DESC LIMIT 1 FOR UPDATE;
    -- A statement after the lock sees all that earlier writers committed.
    RETURN QUERY
    SELECT place, coalesce(c.revision, 0), CASE WHEN write.expected > 0 THEN
        (SELECT l.value FROM {schema}.log l WHERE l.revision = c.revision)
    END
    FROM unnest(keys, expected) WITH ORDINALITY AS write (key, expected, place)
    LEFT JOIN {schema}.current c ON c.key = write.key
    WHERE coalesce(c.revision, 0) <> write.expected;

    GET DIAGNOSTICS failed = ROW_COUNT;
    IF failed > 0 THEN
        size := size - failed;
        -- Only the others remain in the arrays.
        SELECT array_agg(write.key ORDER BY place), array_agg(content ORDER BY place),
            array_agg(write.expected ORDER BY place), array_agg(write.expires ORDER BY place),
            array_agg(checksum ORDER BY place)
        INTO keys, contents, expected, expires, checksums
        FROM unnest(keys, contents, expected, expires, checksums)
            WITH ORDINALITY AS write (key, content, expected, expires, checksum, place)
        LEFT JOIN {schema}.current c ON c.key = write.key
        WHERE coalesce(c.revision, 0) = write.expected;
    END IF;
    IF size > 0 THEN
        UPDATE {schema}.state SET revision = before + size WHERE revision = before;
        INSERT INTO {schema}.log (revision, key, previous, deleted, checksum, value)
        SELECT before + place, key, expected, content IS NULL, checksum, content
        FROM unnest(keys, contents, expected, checksums)
            WITH ORDINALITY AS write (key, content, expected, checksum, place);
        IF 0 = ANY (expected) THEN
            INSERT INTO {schema}.current (key, revision) SELECT key, before + place
            FROM unnest(keys, expected) WITH ORDINALITY AS write (key, expected, place)
            WHERE write.expected = 0;
        END IF;
        IF 0 < ANY (expected) THEN
            UPDATE {schema}.current c SET revision = before + place
            FROM unnest(keys, contents, expected)
                WITH ORDINALITY AS write (key, content, expected, place)
            WHERE c.key = write.key AND write.expected > 0 AND content IS NOT NULL;
        END IF;
        IF array_position(contents, NULL) IS NOT NULL THEN
            DELETE FROM {schema}.current c USING unnest(keys, contents) AS write (key, content)
            WHERE c.key = write.key AND content IS NULL;
        END IF;
        IF 0 < ANY (expires) THEN
            INSERT INTO {schema}.expiry SELECT before + place, write.expires
            FROM unnest(expires) WITH ORDINALITY AS write (expires, place)
            WHERE write.expires > 0;
        END IF;
        PERFORM pg_notify({channel}, (before + size)::text);
    END IF;
    place := 0;
    revision := before;
    content := NULL;
    RETURN NEXT;
END $body$;

CREATE OR REPLACE FUNCTION {schema}.compact(target bigint, step bigint) RETURNS bigint
LANGUAGE plpgsql AS $body$
DECLARE
    done bigint;
    goal bigint;
BEGIN
    SELECT revision INTO done FROM {schema}.compaction FOR UPDATE;
    goal := least(target, done + step);
    IF goal <= done THEN
        RETURN done;
    END IF;
    DELETE FROM {schema}.log WHERE revision IN (
        SELECT previous FROM {schema}.log
        WHERE revision > done AND revision <= goal AND previous > 0
    );
    DELETE FROM {schema}.log WHERE revision >= done AND revision < goal AND deleted;
    UPDATE {schema}.compaction SET revision = goal;
    RETURN goal;
END $body$;
"""


async def update_layout(connection: asyncpg.Connection, schema: str) -> None:
    """Create the schema with its tables and functions, or bring older ones up to date. Servers that
    start at the same time take turns. Raises Refused for a newer layout, a schema that holds other
    tables, or a role without rights to it, and the errors of asyncpg."""
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL statement_timeout = 0")
            await connection.execute(
                "SELECT pg_advisory_xact_lock($1)", _MIGRATION_LOCK, timeout=_MIGRATION_SECONDS
            )
            await _update(connection, schema)
    except asyncpg.InsufficientPrivilegeError as error:
        role = await connection.fetchval("SELECT current_user")
        raise Refused(
            f"postgresql: {error}; the role needs a schema of its own: CREATE SCHEMA "
            f"{quoted(schema)} AUTHORIZATION {quoted(role)}"
        ) from error


async def _update(connection: asyncpg.Connection, schema: str) -> None:
    version = await layout_of(connection, schema)
    if version > LAYOUT:
        raise Refused(
            f"the schema {schema} was written by a newer kapiserver (layout {version}): "
            "upgrade this one"
        )
    names = {"schema": quoted(schema), "channel": f"'{channel_of(schema)}'"}
    if not version:
        if not await connection.fetchval(_SCHEMA_EXISTS, schema):
            await connection.execute(f"CREATE SCHEMA {quoted(schema)}")
        await connection.execute(_TABLES.format(**names))
    if version < LAYOUT:
        statements = (_INDEXES + _FUNCTIONS).format(**names)
        await connection.execute(statements, timeout=_MIGRATION_SECONDS)
        await connection.execute(f"UPDATE {quoted(schema)}.layout SET version = {LAYOUT}")


async def layout_of(connection: asyncpg.Connection, schema: str) -> int:
    """Return the version of the layout of a schema, 0 if it is absent or empty."""
    tables = {
        row["tablename"]
        for row in await connection.fetch(
            "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = $1", schema
        )
    }
    if not tables:
        return 0
    if not {"layout", "log", "current", "state"} <= tables:
        raise Refused(
            f"the schema {schema} holds tables of another program: choose another "
            "--postgresql-schema"
        )
    version: int = await connection.fetchval(f"SELECT version FROM {quoted(schema)}.layout")
    return version


def quoted(name: str) -> str:
    """Return a name as a quoted identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def channel_of(schema: str) -> str:
    """Return the channel on which servers that share a schema are notified of writes."""
    return f"kapiserver_{schema}".replace("'", "''")
