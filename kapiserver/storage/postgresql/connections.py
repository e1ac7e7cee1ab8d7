"""The connections of one store to PostgreSQL: one that writes, some that read, one that listens.

The writes of a server share a connection, because they share transactions. Broken connections are
replaced at their next use. Knows no table but those that `layout.py` checks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg

from kapiserver.storage.errors import Unavailable
from kapiserver.storage.postgresql.errors import translate_errors
from kapiserver.storage.postgresql.layout import channel_of, quoted, update_layout

CALL_SECONDS = 10.0
"""Seconds that a statement may take."""
CONNECT_SECONDS = 5.0
"""Seconds that a new connection may take, unless the address has a `connect_timeout`."""
OTHER_CONNECTIONS = 2
"""The connection that writes and the one that listens."""
_FILES = {"sslcert", "sslkey", "sslrootcert", "sslcrl"}
"""Parameters that name a file, which must be readable."""
_SESSION = {
    # Names in statements have their schema, so that no other schema can replace an operator.
    "search_path": "pg_catalog",
    "default_transaction_isolation": "'read committed'",
    "jit": "off",
    # Every query walks an index in its order. Without statistics, after a restore or a large
    # import, the planner would sort whole tables for one page.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
"""Settings of each session. A statement sets them: pgbouncer refuses them as parameters of the
start."""


class Connections:
    """The connections of one store; they belong to the event loop that opened them."""

    def __init__(self, address: str, *, schema: str, limit: int) -> None:
        """Take the address of a database, `postgresql://...`. Raises ValueError for an address that
        names no PostgreSQL, OSError for certificate files that cannot be read."""
        self._address, self._options = connect_options(address)
        self._schema = schema
        self._limit = limit
        self._reading: asyncpg.Pool | None = None
        self._writing: asyncpg.Pool | None = None
        self._listening: asyncpg.Connection | None = None

    async def open(self) -> None:
        """Connect and create missing tables. Raises Refused, Unavailable, ValueError for an address
        that asyncpg refuses."""
        if not self._schema or len(channel_of(self._schema)) > 63:
            raise ValueError(f"--postgresql-schema={self._schema}: want 1 to 52 characters")
        with translate_errors():
            try:
                connection = await self._connect()
                try:
                    await update_layout(connection, self._schema)
                finally:
                    await connection.close()
                self._writing = await self._pool(1)
                self._reading = await self._pool(max(self._limit - OTHER_CONNECTIONS, 1))
            except asyncpg.exceptions.ClientConfigurationError as error:
                raise ValueError(f"--storage: {error}") from error

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        pools = [pool for pool in (self._writing, self._reading) if pool is not None]
        self._writing = self._reading = None
        for pool in pools:
            pool.terminate()
        if self._listening is not None:
            self._listening.terminate()
            self._listening = None

    async def read(self, query: str, *args: Any) -> list[asyncpg.Record]:
        """Return the rows of a query. Raises Refused, Unavailable."""
        if self._reading is None:
            raise Unavailable("the store is closed")
        with translate_errors():
            rows: list[asyncpg.Record] = await self._reading.fetch(query, *args)
            return rows

    async def write(self, query: str, *args: Any) -> list[asyncpg.Record]:
        """Run a statement in a transaction of its own, and return its rows. Raises Refused,
        ValueTooLarge, Unavailable; after Unavailable the outcome may be unknown."""
        if self._writing is None:
            raise Unavailable("the store is closed")
        with translate_errors(writing=True):
            rows: list[asyncpg.Record] = await self._writing.fetch(query, *args)
            return rows

    async def listen(self, notified: Callable[[int], None], lost: Callable[[], None]) -> None:
        """Call `notified` with the newest revision after each write of any server, and `lost` when
        the connection that listens ends. Raises Refused, Unavailable."""
        if self._writing is None:
            raise Unavailable("the store is closed")
        with translate_errors():
            connection = await self._connect()
            connection.add_termination_listener(lambda _: lost())
            await connection.add_listener(
                channel_of(self._schema), lambda *message: notified(int(message[-1]))
            )
        self._listening = connection

    async def check_listening(self) -> None:
        """Make the connection that listens answer, so that one without a peer is noticed. Raises
        Unavailable."""
        connection = self._listening
        if connection is None:
            return
        try:
            with translate_errors():
                await connection.fetchval("SELECT 1")
        except Unavailable:
            connection.terminate()
            raise

    def stop_listening(self) -> None:
        """Close the connection that listens. Idempotent."""
        if self._listening is not None:
            with suppress(asyncpg.InterfaceError):
                self._listening.terminate()
            self._listening = None

    async def _connect(self) -> asyncpg.Connection:
        connection = await asyncpg.connect(self._address, **self._options)
        await _prepare(connection)
        return connection

    async def _pool(self, size: int) -> asyncpg.Pool:
        return await asyncpg.create_pool(
            self._address,
            min_size=0,  # with a minimum, asyncpg logs each failure while PostgreSQL is down
            max_size=size,
            init=_prepare,
            reset=_keep_session,
            **self._options,
        )

    def statement(self, template: str) -> str:
        """Return a statement in which `{schema}` is replaced."""
        return template.format(schema=quoted(self._schema))


async def _prepare(connection: asyncpg.Connection) -> None:
    """Set what a session needs, and that it waits for the disk at each commit, even where the
    database's default is not to."""
    await connection.execute("".join(f"SET {name} = {value};" for name, value in _SESSION.items()))
    if await connection.fetchval("SELECT current_setting('synchronous_commit')") == "off":
        await connection.execute("SET synchronous_commit = on")


async def _keep_session(_connection: asyncpg.Connection) -> None:
    """Reset nothing when a connection returns to its pool: statements leave nothing behind."""


def connect_options(address: str) -> tuple[str, dict[str, Any]]:
    """Return the address without the parameters that asyncpg does not know, and options of
    `asyncpg.connect`. Raises ValueError, OSError for files that cannot be read."""
    url = urlsplit(address)
    names_database = url.netloc or url.path.strip("/") or url.query
    if not address.startswith("postgresql://") or not names_database:
        raise ValueError(f"{address}: want postgresql://USER@HOST:PORT/DATABASE?PARAMETERS")
    parameters = dict(parse_qsl(url.query, keep_blank_values=True))
    for name in _FILES & parameters.keys():
        with Path(parameters[name]).open("rb"):  # asyncpg's error has no name of the file
            pass
    timeout = float(parameters.pop("connect_timeout", 0) or CONNECT_SECONDS)
    options: dict[str, Any] = {
        "timeout": timeout,
        "command_timeout": CALL_SECONDS,
    }
    if "application_name" not in parameters:
        options["server_settings"] = {"application_name": "kapiserver"}
    if "," in url.netloc and "target_session_attrs" not in parameters:
        options["target_session_attrs"] = "read-write"  # after a failover, the new primary
    return urlunsplit(url._replace(query=urlencode(parameters))), options
