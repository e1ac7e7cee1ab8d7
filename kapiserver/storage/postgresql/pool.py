"""A bounded number of connections, which calls share.

Made for statements that leave nothing behind in a session, so that nothing is reset between two
calls. A connection that ended is replaced when it is needed. Knows no SQL and no address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg

WAIT_SECONDS = 10.0
"""Seconds that a call waits for a connection when all are used."""


class Pool:
    """At most `limit` connections, made by `connect`."""

    def __init__(self, connect: Callable[[], Awaitable[asyncpg.Connection]], limit: int) -> None:
        self.limit = limit
        self._connect = connect
        self._places = asyncio.Semaphore(limit)
        self._free: list[asyncpg.Connection] = []
        self._used: set[asyncpg.Connection] = set()
        self._closed = False

    async def take(self) -> asyncpg.Connection:
        """Return a connection that nobody else uses, until `give_back`. Raises TimeoutError if all
        are used, and the errors of a new connection."""
        if self._places.locked():
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._places.acquire()
            except TimeoutError:
                raise TimeoutError(
                    "all connections are used; if that lasts, raise --postgresql-max-connections"
                ) from None
        else:
            await self._places.acquire()
        try:
            connection = self._open_connection() or await self._connect()
        except BaseException:
            self._places.release()
            raise
        self._used.add(connection)
        return connection

    def give_back(self, connection: asyncpg.Connection) -> None:
        """Let the next call use a connection; one that is closed is dropped."""
        self._used.discard(connection)
        if self._closed:
            connection.terminate()
        elif not connection.is_closed():
            self._free.append(connection)
        self._places.release()

    def drop_free(self) -> None:
        """Close the connections that nobody uses, because their peer may be gone, too."""
        while self._free:
            self._free.pop().terminate()

    def close(self) -> None:
        """Close all connections, those that are being made when they are given back. Idempotent."""
        self._closed = True
        for connection in self._used:
            connection.terminate()
        self.drop_free()

    def _open_connection(self) -> asyncpg.Connection | None:
        while self._free:
            connection = self._free.pop()
            if not connection.is_closed():
                return connection
        return None
