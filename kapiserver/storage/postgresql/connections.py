"""The connections of one store to PostgreSQL: one that writes, some that read, and others.

The writes of a server share a connection, because they share transactions. Other statements that
write, such as those of compaction, take a connection of those that read, so that no write waits for
them. One of those that read is kept for the newest revision, which is read most often.

A connection that ended is replaced at its next use. If that fails, the call tries again until
PostgreSQL has been away for RETRY_SECONDS: nothing was sent yet, so a short restart or failover is
only a delay. A read whose connection ends is repeated, too; a write that was sent is not, because
its outcome is unknown. Knows no table but those that `layout.py` checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias, TypeVar

import asyncpg

from kapiserver.storage.errors import Unavailable
from kapiserver.storage.postgresql.connector import Connector
from kapiserver.storage.postgresql.errors import Disconnected, translate_errors
from kapiserver.storage.postgresql.layout import channel_of, quoted, update_layout
from kapiserver.storage.postgresql.messages import Row
from kapiserver.storage.postgresql.pool import Pool
from kapiserver.storage.postgresql.sessions import NumberSession, WriteSession

T = TypeVar("T")
_Work: TypeAlias = Callable[[asyncpg.Connection], Awaitable[T]]

STATEMENT_SECONDS = 9.0
"""Seconds after which PostgreSQL itself ends a statement, so that its outcome is known. Less than
CALL_SECONDS."""
RETRY_SECONDS = 3.0
"""Seconds of an outage in which calls try to connect again."""
PAUSE_SECONDS = 0.1
"""Pause between two tries."""
OTHER_CONNECTIONS = 2
"""The connection that writes and the one that listens."""
MIN_CONNECTIONS = OTHER_CONNECTIONS + 1
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
    # No plan depends on the arguments, and planning a batch of writes takes longer than a write.
    "plan_cache_mode": "force_generic_plan",
}
"""Settings of each session. A statement sets them: pgbouncer refuses them as parameters of the
start."""


class Connections:
    """The connections of one store; they belong to the event loop that opened them."""

    def __init__(
        self,
        address: str,
        *,
        schema: str,
        limit: int,
        check: Callable[[asyncpg.Connection], Awaitable[None]],
    ) -> None:
        """`check` is called with each new connection before it is used, and raises asyncpg's
        errors. Raises ValueError for an address or parameter that is refused or a limit that is too
        low, OSError for certificate files that cannot be read.

        address     of a database, `postgresql://...`
        limit       the maximum number of connections
        """
        if limit < MIN_CONNECTIONS:
            raise ValueError(
                f"--postgresql-max-connections={limit}: want {MIN_CONNECTIONS} or more"
            )
        self._connector = Connector(address)
        self._schema = schema
        self._check = check
        self._outage = _Outage()
        self._reading = Pool(self.connect, limit - OTHER_CONNECTIONS)
        self._writing = Pool(self._connect_to_write, 1)
        self._session: NumberSession | None = None
        self._write_session: WriteSession | None = None
        self._closed = False

    async def open(self) -> None:
        """Connect and create missing tables. Raises Refused, Unavailable, ValueError for an address
        that asyncpg refuses."""
        if not self._schema or len(self.channel) > 63:
            raise ValueError(f"--postgresql-schema={self._schema}: want 1 to 52 characters")
        with translate_errors():
            connection = await self._writing.take()
            try:
                await update_layout(connection, self._schema)
            finally:
                self._writing.give_back(connection)

    async def close(self) -> None:
        """Close the connections, but those of `connect`. Idempotent."""
        self._closed = True
        self._reading.close()
        self._writing.close()

    async def read(self, query: str, *args: Any) -> list[asyncpg.Record]:
        """Return the rows of a query. Raises Refused, Unavailable, Corrupt."""
        return await self._call(self._reading, partial(_fetch, query, args), writing=False)

    async def read_number(self, query: str) -> int:
        """Return the number that a query selects, for a third of the CPU of `read`, on a connection
        that is kept for this query. One caller at a time. Raises Refused, Unavailable, Corrupt."""
        try:
            if self._session is None and self._reading.limit > 1:
                self._session = await self._keep(query)
            if self._session is not None:
                return await self._session.ask()
        except Disconnected:
            self._drop_free()
        ((number,),) = await self.read(query)
        return int(number)

    async def _keep(self, query: str) -> NumberSession:
        connection = await self._take(self._reading)
        try:
            with translate_errors():
                return NumberSession(connection, await connection.prepare(query))
        except BaseException:
            connection.terminate()
            self._reading.give_back(connection)
            raise

    def _drop_free(self) -> None:
        """Close the connections that no call uses, and that which is kept: after one has ended,
        their server may be dead, too, or no primary any more, so that they would read the past."""
        if self._session is not None:
            self._session.connection.terminate()
            self._reading.give_back(self._session.connection)
            self._session = None
        self._reading.drop_free()
        self._writing.drop_free()

    async def write(self, query: str, parameters: Sequence[bytes]) -> list[Row]:
        """Run the statement that writes, in a transaction of its own, and return its rows. `query`
        is the same at each call. Raises Refused, ValueTooLarge, Unavailable, OutcomeUnknown,
        Corrupt."""
        return await self._call(
            self._writing, partial(self._write, query, parameters), writing=True
        )

    async def _write(
        self, query: str, parameters: Sequence[bytes], connection: asyncpg.Connection
    ) -> list[Row]:
        session = self._write_session
        if session is None or session.connection is not connection:
            session = WriteSession(connection, await connection.prepare(query))
            self._write_session = session
        return await session.run(parameters)

    async def maintain(self, query: str, *args: Any) -> list[asyncpg.Record]:
        """Run a statement in a transaction of its own, on a connection of those that read, so that
        writes do not wait for it, and return its rows. Raises as `write`."""
        return await self._call(self._reading, partial(_fetch, query, args), writing=True)

    async def _call(self, pool: Pool, work: _Work[T], *, writing: bool) -> T:
        try:
            return await self._run(pool, work, writing=writing)
        except Disconnected:  # a read, or a write that was not sent
            return await self._run(pool, work, writing=writing)

    async def _run(self, pool: Pool, work: _Work[T], *, writing: bool) -> T:
        connection = await self._take(pool)
        try:
            with translate_errors(writing=writing), _ending_broken(connection):
                return await work(connection)
        finally:
            pool.give_back(connection)
            if connection.is_closed():
                self._drop_free()

    async def _take(self, pool: Pool) -> asyncpg.Connection:
        """Return a connection. Raises Unavailable."""
        while True:
            if self._closed:
                raise Unavailable("the store is closed")
            try:
                with translate_errors():
                    connection = await pool.take()
            except Disconnected as error:
                await self._outage.pause(error)
            else:
                self._outage.end()
                return connection

    async def _connect_to_write(self) -> asyncpg.Connection:
        connection = await self.connect()
        self._drop_free()  # after a failover the others may lead to the server of before
        return connection

    async def connect(self) -> asyncpg.Connection:
        """Return a new connection, which the caller closes. Raises asyncpg's errors."""
        connection = await self._connector.connect()
        try:
            await _prepare(connection)
            await self._check(connection)
        except BaseException:
            connection.terminate()
            raise
        return connection

    @property
    def channel(self) -> str:
        """The channel of notifications."""
        return channel_of(self._schema)

    def statement(self, template: str) -> str:
        """Return a statement in which `{schema}` is replaced."""
        return template.format(schema=quoted(self._schema))


class _Outage:
    """Since when no connection can be made."""

    def __init__(self) -> None:
        self._start: float | None = None

    def end(self) -> None:
        """A connection was made."""
        self._start = None

    async def pause(self, error: Disconnected) -> None:
        """Wait before another try. Raises `error` if the outage has lasted too long for that."""
        now = asyncio.get_running_loop().time()
        if self._start is None:
            self._start = now
        if now - self._start >= RETRY_SECONDS:
            raise error
        await asyncio.sleep(PAUSE_SECONDS)


async def _fetch(
    query: str, args: Sequence[Any], connection: asyncpg.Connection
) -> list[asyncpg.Record]:
    rows: list[asyncpg.Record] = await connection.fetch(query, *args)
    return rows


@contextmanager
def _ending_broken(connection: asyncpg.Connection) -> Iterator[None]:
    """End a connection after an error that leaves it in no known state."""
    try:
        yield
    except TimeoutError as error:
        connection.terminate()
        raise ConnectionAbortedError("no answer in time") from error
    except (
        asyncio.CancelledError,
        asyncpg.ReadOnlySQLTransactionError,  # the next connection may lead to a primary
        asyncpg.InternalClientError,
    ):
        connection.terminate()
        raise


async def _prepare(connection: asyncpg.Connection) -> None:
    """Set what a session needs, and that it waits for the disk at each commit, even where the
    database's default is not to."""
    settings = _SESSION | {"statement_timeout": f"{STATEMENT_SECONDS * 1000:.0f}"}
    await connection.execute("".join(f"SET {name} = {value};" for name, value in settings.items()))
    if await connection.fetchval("SELECT current_setting('synchronous_commit')") == "off":
        await connection.execute("SET synchronous_commit = on")
