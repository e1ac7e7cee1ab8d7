"""Connections that are kept for one statement each, which runs again and again, for little CPU.

asyncpg opens a connection, with TLS and login, and prepares the statement; then a session takes
over its transport, and writes and reads the messages itself. `NumberSession` asks for the newest
revision, which each consistent read of a server needs that shares its store, for a third of the CPU
of asyncpg's `fetch`; `WriteSession` runs a statement with parameters, which are bytes already.

A session knows few messages. Whatever else PostgreSQL sends ends the connection, so that the caller
asks in the usual way, and learns what the matter is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from struct import unpack_from
from typing import Any, cast

import asyncpg

from kapiserver.storage.postgresql import connector, messages
from kapiserver.storage.postgresql.errors import Disconnected

_BIND_COMPLETE_AND_ROW = b"2\0\0\0\4D\0\0\0\x12\0\1\0\0\0\x08"
"""A row of one column of eight bytes, which follow."""
_COMMAND_COMPLETE_AND_READY = b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\5I"
_ANSWER_BYTES = len(_BIND_COMPLETE_AND_ROW) + 8 + len(_COMMAND_COMPLETE_AND_READY)
_WITHOUT_MEANING = frozenset(b"2CNS")
"""BindComplete, CommandComplete, and notices and changed settings, which may come at any time."""


class Session(asyncio.Protocol):
    """A connection that is kept for one statement."""

    def __init__(
        self, connection: asyncpg.Connection, statement: asyncpg.prepared_stmt.PreparedStatement
    ) -> None:
        self.connection = connection
        self._statement = statement  # asyncpg closes a statement that nobody refers to
        self._transport: asyncio.Transport = connection._transport
        self._asyncpg = cast(asyncio.Protocol, self._transport.get_protocol())
        self._answer: asyncio.Future[Any] | None = None
        self._data = b""
        self._transport.set_protocol(self)

    @property
    def is_closing(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport.is_closing()

    async def _exchange(self, request: bytes) -> Any:
        """Send messages, and return what `data_received` makes of the answer. One caller at a time.
        Raises OSError if the connection ends, and what `data_received` sets."""
        assert self._answer is None
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        timer = loop.call_later(connector.CALL_SECONDS, self._end, "no answer in time")
        self._transport.write(request)
        try:
            return await self._answer
        except asyncio.CancelledError:
            self._transport.abort()  # the answer would be that of the next caller
            raise
        finally:
            timer.cancel()
            self._answer = None

    def _end(self, reason: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionAbortedError(reason))
        self._transport.abort()

    # Called by the transport.

    def connection_lost(self, exc: Exception | None) -> None:
        """End the call, and let asyncpg know."""
        self._asyncpg.connection_lost(exc)
        self._end(str(exc or "the connection ended"))


class NumberSession(Session):
    """A connection that is kept for a query without parameters that selects one bigint."""

    def __init__(
        self, connection: asyncpg.Connection, statement: asyncpg.prepared_stmt.PreparedStatement
    ) -> None:
        super().__init__(connection, statement)
        self._request = messages.execution(statement.get_name())

    async def ask(self) -> int:
        """Return the number. One caller at a time. Raises Disconnected."""
        if self.is_closing:
            raise Disconnected("postgresql: the connection is closed")
        try:
            return int(await self._exchange(self._request))
        except OSError as error:
            raise Disconnected(f"postgresql: {error}") from error

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


class WriteSession(Session):
    """A connection that is kept for a statement with parameters, which commits by itself."""

    def __init__(
        self, connection: asyncpg.Connection, statement: asyncpg.prepared_stmt.PreparedStatement
    ) -> None:
        super().__init__(connection, statement)
        self._name = statement.get_name()
        self._rows: list[messages.Row] = []
        self._error: asyncpg.PostgresError | None = None

    async def run(self, parameters: Sequence[bytes]) -> list[messages.Row]:
        """Run the statement, and return its rows. One caller at a time. Raises asyncpg's errors, of
        which InterfaceError says that nothing was sent, and OSError."""
        if self.is_closing:
            raise asyncpg.InterfaceError("the connection is closed")
        rows: list[messages.Row] = await self._exchange(messages.execution(self._name, parameters))
        return rows

    def data_received(self, data: bytes) -> None:
        """Take a part of the answer."""
        received, self._data = messages.split(self._data + data)
        for kind, content in received:
            if kind == ord("E"):
                self._error = messages.error(content)
            elif kind in _WITHOUT_MEANING:
                continue
            elif self._answer is None or self._answer.done():
                self._transport.abort()
            elif kind == ord("D"):
                self._rows.append(messages.row(content))
            elif kind == ord("Z"):
                self._finish(self._answer)
            else:
                self._transport.abort()

    def _finish(self, answer: asyncio.Future[Any]) -> None:
        if self._error is None:
            answer.set_result(self._rows)
        else:
            answer.set_exception(self._error)
        self._rows, self._error = [], None  # an error refers to the frames of the call

    def connection_lost(self, exc: Exception | None) -> None:
        """End the call. An error that PostgreSQL has sent before does not say whether the statement
        was committed, because PostgreSQL was not ready for another one."""
        super().connection_lost(exc or self._error)
