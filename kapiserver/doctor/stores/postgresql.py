"""Checks of the database of a store in PostgreSQL: answers, release, rights, limits, clock."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from kapiserver.doctor.finding import ERROR, WARNING, Problem, Severity
from kapiserver.doctor.installation import Installation
from kapiserver.doctor.server_health import clock_problem
from kapiserver.storage.errors import StorageError

if TYPE_CHECKING:
    from kapiserver.storage.postgresql.inspection import Inspection

FIRST_YEAR = 2012
"""Since release 10, release N of PostgreSQL gets its last fixes in November of FIRST_YEAR + N."""
FULL_SHARE = 0.8
"""There is a warning if at least this share of all connections is in use."""
_VERIFIED = ("verify-ca", "verify-full")


@functools.cache
def _inspected(address: str, schema: str, now: Callable[[], float]) -> Inspection | str:
    """Return what the database says, or why it does not answer; asks once."""
    try:
        from kapiserver.storage.postgresql.inspection import inspect
    except ModuleNotFoundError as error:
        return f"{error}: pip install 'kapiserver[postgresql]'"
    try:
        return asyncio.run(inspect(address, schema, now))
    except (StorageError, OSError, ValueError) as error:
        return str(error)


def _answer(installation: Installation) -> Inspection | str | None:
    """Return what the database says, or why it does not answer; None if the store is another
    one."""
    address = installation.postgresql_address
    if not address:
        return None
    return _inspected(address, schema_of(installation), installation.clock.now)


def inspection_of(installation: Installation) -> Inspection | None:
    """Return what the database says; None if it does not answer or the store is another one."""
    answer = _answer(installation)
    return None if isinstance(answer, str) else answer


def schema_of(installation: Installation) -> str:
    """Return the schema of the tables."""
    return installation.config.postgresql.postgresql_schema


def database_problem(
    installation: Installation, severity: Severity, message: str, remedy: str
) -> Problem:
    """Return a problem of the whole database, whose address is shown without the password."""
    url = urlsplit(installation.postgresql_address)
    about = f"postgresql://{url.netloc.rpartition('@')[2]}{url.path}"
    return Problem(severity=severity, about=about, message=message, remedy=remedy)


def failing_server(installation: Installation) -> Iterator[Problem]:
    """Connect, and look whether the server accepts writes and delivers notifications."""
    answer = _answer(installation)
    if answer is None:
        return
    if isinstance(answer, str):
        message = f"cannot be used: {answer}"
        remedy = "start PostgreSQL, and compare address, role and password with --storage"
    elif answer.server["standby"]:
        message = "is a standby, which refuses writes"
        remedy = "name all servers in --storage: postgresql://USER@ONE,TWO/DATABASE"
    elif answer.server["read_only"]:
        message = "refuses writes: default_transaction_read_only is on"
        remedy = f"ALTER ROLE {answer.server['role']} SET default_transaction_read_only = off"
    elif not answer.notifies:
        message = "delivers no notifications (LISTEN): watches learn late of other servers' writes"
        remedy = "connect directly, or through pgbouncer with pool_mode=session"
    else:
        return
    yield database_problem(installation, ERROR, message, remedy)


def old_server(installation: Installation) -> Iterator[Problem]:
    """Look at the release of PostgreSQL."""
    inspection = inspection_of(installation)
    if inspection is None:
        return
    server = inspection.server
    if installation.now >= datetime(FIRST_YEAR + server["major"], 12, 1, tzinfo=UTC):
        yield database_problem(
            installation,
            WARNING,
            f"PostgreSQL {server['release']} gets no more fixes",
            "upgrade it with pg_upgrade, or copy the store with `kapiserver storage copy`",
        )


def unusable_schema(installation: Installation) -> Iterator[Problem]:
    """Look at the layout of the tables, and at the rights that a server needs."""
    inspection = inspection_of(installation)
    if inspection is None:
        return
    from kapiserver.storage.postgresql.layout import LAYOUT

    name, role = schema_of(installation), inspection.server["role"]
    if inspection.layout_error:
        message, remedy = inspection.layout_error, "choose another --postgresql-schema"
    elif inspection.layout > LAYOUT:
        message = f"was written by a newer kapiserver (layout {inspection.layout})"
        remedy = "upgrade this kapiserver"
    elif not all(table["usable"] for table in inspection.tables):
        message = f"the role {role} may not read and write all tables"
        remedy = f"make {role} the owner of the schema and its tables"
    elif not inspection.tables and not _may_create(inspection):
        message = f"the role {role} may not create its tables"
        remedy = f"CREATE SCHEMA {name} AUTHORIZATION {role}"
    else:
        return
    yield Problem(severity=ERROR, about=f"schema {name}", message=message, remedy=remedy)


def _may_create(inspection: Inspection) -> bool:
    schema = inspection.schema
    if schema is None:
        return bool(inspection.server["creates_schemas"])
    return bool(schema["usable"] and schema["creates"])


def open_rights(installation: Installation) -> Iterator[Problem]:
    """Look for rights that the role does not need, and for tables that everybody may read."""
    inspection = inspection_of(installation)
    if inspection is None:
        return
    if inspection.server["powers"]:
        yield Problem(
            severity=WARNING,
            about=f"role {inspection.server['role']}",
            message=f"has rights that no store needs: {', '.join(inspection.server['powers'])}",
            remedy="use a role that owns the schema and has no other right",
        )
    if any(table["public"] for table in inspection.tables):
        schema = schema_of(installation)
        yield Problem(
            severity=ERROR,
            about=f"schema {schema}",
            message="every role of the database may read its tables, which hold Secrets",
            remedy=f"REVOKE ALL ON SCHEMA {schema} FROM PUBLIC",
        )


def unsafe_server(installation: Installation) -> Iterator[Problem]:
    """Look for settings that lose data, and for a connection that others can read."""
    inspection = inspection_of(installation)
    if inspection is None:
        return
    server = inspection.server
    for name in ("fsync", "full_page_writes"):
        if not server[name]:
            yield database_problem(
                installation,
                ERROR,
                f"{name} is off: a power failure may damage the database",
                f"ALTER SYSTEM SET {name} = on",
            )
    mode = parse_qs(urlsplit(installation.postgresql_address).query).get("sslmode", [""])[0]
    if server["remote"] and not server["encrypted"]:
        message = "the connection is not encrypted: the network can read Secrets"
        remedy = "turn on TLS in PostgreSQL, and add sslmode=verify-full to --storage"
    elif server["remote"] and mode not in _VERIFIED:
        message = "the server's certificate is not verified: another server can take its place"
        remedy = "add sslmode=verify-full&sslrootcert=FILE to --storage"
    else:
        return
    yield database_problem(installation, WARNING, message, remedy)


def few_connections(installation: Installation) -> Iterator[Problem]:
    """Compare the limits of connections with those that a server opens."""
    inspection = inspection_of(installation)
    if inspection is None:
        return
    server, pool_size = inspection.server, installation.config.postgresql.postgresql_max_connections
    most, used = server["max_connections"], server["connections"]
    for name, limit in (
        (f"the role {server['role']}", server["role_limit"]),
        ("the database", server["database_limit"]),
        ("PostgreSQL", most),
    ):
        if 0 <= limit < pool_size:
            yield database_problem(
                installation,
                ERROR,
                f"{name} allows {limit} connections, but a server opens up to {pool_size}",
                "raise the limit, or lower --postgresql-max-connections",
            )
    if used > FULL_SHARE * most:
        yield database_problem(
            installation,
            WARNING,
            f"{used} of {most} connections are used",
            "raise max_connections, or see who has them: SELECT * FROM pg_stat_activity",
        )


def different_clock(installation: Installation) -> Iterator[Problem]:
    """Compare the clock of PostgreSQL with that of this machine."""
    inspection = inspection_of(installation)
    if inspection is not None:
        skew = timedelta(seconds=inspection.behind_seconds)
        yield from clock_problem("the clock of PostgreSQL", skew)
