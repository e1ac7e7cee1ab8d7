"""A connection that asks PostgreSQL for one number again and again, for little CPU.

Each consistent read of a server that shares its store asks for the newest revision. asyncpg opens
the connection, with TLS and login, and prepares the statement; then this module itself sends three
small messages and reads the four of the answer, which costs this process a third of asyncpg's
`fetch`. It knows no other message: whatever else PostgreSQL sends ends the connection, so that the
caller asks in the usual way, and learns what the matter is.

Source: PostgreSQL's documentation, "Message Formats".
"""

from __future__ import annotations

import asyncio
from struct import pack, unpack_from
from typing import cast

import asyncpg

from kapiserver.storage.postgresql import connector
from kapiserver.storage.postgresql.errors import Disconnected

_BIND_COMPLETE_AND_ROW = b"2\0\0\0\4D\0\0\0\x12\0\1\0\0\0\x08"
"""A row of one column of eight bytes, which follow."""
_COMMAND_COMPLETE_AND_READY = b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\5I"
_ANSWER_BYTES = len(_BIND_COMPLETE_AND_ROW) + 8 + len(_COMMAND_COMPLETE_AND_READY)


def _request(statement: str) -> bytes:
    """Return the messages Bind (no parameters, a binary result), Execute and Sync."""
    bind = b"\0" + statement.encode() + b"\0" + pack("!HHHH", 0, 0, 1, 1)
    return b"B" + pack("!I", len(bind) + 4) + bind + b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\4"


class NumberSession(asyncio.Protocol):
    """A connection that is kept for one statement. Made by `open_session`."""

    def __init__(
        self, connection: asyncpg.Connection, statement: asyncpg.prepared_stmt.PreparedStatement
    ) -> None:
        self.connection = connection
        self._statement = statement  # asyncpg closes a statement that nobody refers to
        self._request = _request(statement.get_name())
        self._transport: asyncio.Transport = connection._transport
        self._asyncpg = cast(asyncio.Protocol, self._transport.get_protocol())
        self._answer: asyncio.Future[int] | None = None
        self._data = b""
        self._transport.set_protocol(self)

    async def ask(self) -> int:
        """Return the number. One caller at a time. Raises Disconnected."""
        assert self._answer is None
        if self._transport.is_closing():
            raise Disconnected("postgresql: the connection is closed")
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        timer = loop.call_later(connector.CALL_SECONDS, self._transport.abort)
        self._transport.write(self._request)
        try:
            return await self._answer
        except asyncio.CancelledError:
            self._transport.abort()  # the answer would be that of the next caller
            raise
        finally:
            timer.cancel()
            self._answer = None

    # Called by the transport.

    def data_received(self, data: bytes) -> None:
        """Take a part of the answer."""
        data = self._data = self._data + data
        if len(data) < _ANSWER_BYTES and _BIND_COMPLETE_AND_ROW.startswith(data[:16]):
            return
        is_expected = (
            len(data) == _ANSWER_BYTES
            and data.startswith(_BIND_COMPLETE_AND_ROW)
            and data.endswith(_COMMAND_COMPLETE_AND_READY)
        )
        if not is_expected or self._answer is None:
            self._transport.abort()
        else:
            self._data = b""
            if not self._answer.done():
                (number,) = unpack_from("!q", data, len(_BIND_COMPLETE_AND_ROW))
                self._answer.set_result(number)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the call, and let asyncpg know."""
        self._asyncpg.connection_lost(exc)
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Disconnected(f"postgresql: {exc or 'the connection ended'}"))


async def open_session(connection: asyncpg.Connection, query: str) -> NumberSession:
    """Keep a connection for a query without parameters that selects one bigint. Raises asyncpg's
    errors."""
    return NumberSession(connection, await connection.prepare(query))
