"""Kept-alive connections to one endpoint: a request goes out, its whole answer comes back.

As much of HTTP/1.1 as Go's server answers a POST with: a head, then a body of known length or in
chunks. A general client spends more on a call than all the rest of it costs (ARCHITECTURE.md has
the figures); streams, which are few, stay with one. Knows no etcd and no JSON.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar, cast
from urllib.parse import urlsplit

MOST_CONNECTIONS = 128
"""To one endpoint at once; who comes then waits for one to be free."""
LONGEST_HEAD = 64 << 10
LONGEST_ANSWER = 512 << 20
DEFAULT_PORT = 2379

T = TypeVar("T")

_END = b"\r\n\r\n"


class RequestNotSent(Exception):
    """Nothing has left this machine: no connection, or none free in time."""


class ResponseLost(Exception):
    """The request went out, and no answer came: it may have been carried out."""


@dataclass(frozen=True, slots=True)
class HTTPResponse:
    """One answer; what its headers say beyond the length is of no use here."""

    status: int
    body: bytes


class ConnectionPool:
    """The connections to one endpoint, `http://HOST:PORT` or `https://...` with a TLS context."""

    def __init__(self, endpoint: str, tls: ssl.SSLContext | None) -> None:
        where = urlsplit(endpoint)
        self._host = where.hostname or ""
        self._port = where.port or DEFAULT_PORT
        self._tls = tls if where.scheme == "https" else None
        self._name = where.netloc.encode()
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self._room = asyncio.Semaphore(MOST_CONNECTIONS)
        self._closed = False

    async def post(self, path: str, headers: bytes, body: bytes, *, seconds: float) -> HTTPResponse:
        """Send one request and wait for its answer, each step for so many seconds; `headers` are
        whole lines. Raises NotSent, BrokenOff."""
        if self._room.locked():
            await _in_time(self._room.acquire(), seconds)
        else:
            await self._room.acquire()
        try:
            connection = await self._connection(seconds)
            self._busy.add(connection)
            try:
                head = b"POST %b HTTP/1.1\r\nHost: %b\r\n%bContent-Length: %d\r\n\r\n"
                message = head % (path.encode(), self._name, headers, len(body)) + body
                answer = await connection.ask(message, seconds)
            finally:
                self._busy.discard(connection)
        finally:
            self._room.release()
        if connection.usable and not self._closed:
            self._idle.append(connection)
        else:
            connection.drop()
        return answer

    def close(self) -> None:
        """Drop all connections; who waits for an answer gets BrokenOff. Idempotent."""
        self._closed = True
        for each in (*self._idle, *self._busy):
            each.drop()
        self._idle.clear()

    async def _connection(self, seconds: float) -> _Connection:
        while self._idle:  # the one used last: it is the least likely to be gone
            connection = self._idle.pop()
            if connection.usable:
                return connection
        if self._closed:
            raise RequestNotSent("the connection is closed")
        opening = asyncio.get_running_loop().create_connection(
            _Connection, self._host, self._port, ssl=self._tls
        )
        _, connection = await _in_time(opening, seconds)
        return connection


class _Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self.usable = True
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._answer: asyncio.Future[HTTPResponse] | None = None
        self._buffer = bytearray()
        self._begin()

    def _begin(self) -> None:
        self._need = 0  # bytes below which it is no use to look
        self._status = 0  # 0: the head is not here yet
        self._at = 0  # what lies before is read
        self._length: int | None = None  # of the body; None: it comes in chunks
        self._chunks: list[bytes] = []

    async def ask(self, message: bytes, seconds: float) -> HTTPResponse:
        """Raises BrokenOff."""
        self._answer = self._loop.create_future()
        self._transport.write(message)
        late = self._loop.call_later(seconds, self._fail, "no answer in time")
        try:
            return await self._answer
        finally:
            late.cancel()
            if not self._answer.done() or self._answer.cancelled():
                self.drop()  # an answer to nobody would be taken for the next one's
            self._answer = None

    def drop(self) -> None:
        """Close the connection now."""
        self._fail("the connection is closed")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is of no common class

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(str(exc or "the connection was closed"))

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self._fail("an answer to no request")
            return
        self._buffer += data
        if len(self._buffer) < self._need:
            return
        try:
            body = self._read()
        except ValueError as error:
            self._fail(str(error))
            return
        if body is None:
            return
        if self._at != len(self._buffer):
            self.usable = False
        self._answer.set_result(HTTPResponse(self._status, body))
        self._buffer.clear()
        self._begin()

    def _fail(self, words: str) -> None:
        self.usable = False
        self._transport.abort()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ResponseLost(words))

    # Reading an answer.

    def _read(self) -> bytes | None:
        """The body, once all of it is here. Raises ValueError for what is no answer."""
        if not self._status and not self._read_head():
            return None
        if self._length is None:
            return self._read_chunks()
        end = self._at + self._length
        if not self._has(end):
            return None
        body = bytes(self._buffer[self._at : end])
        self._at = end
        return body

    def _read_head(self) -> bool:
        end = self._buffer.find(_END)
        if end < 0:
            if len(self._buffer) > LONGEST_HEAD:
                raise ValueError("the head of an answer is too long")
            return False
        first, *lines = bytes(self._buffer[:end]).lower().split(b"\r\n")
        if not first.startswith(b"http/1."):
            raise ValueError("the answer is no HTTP")
        headers = dict(line.split(b": ", 1) for line in lines)
        if headers.get(b"connection") == b"close" or first.startswith(b"http/1.0"):
            self.usable = False
        if headers.get(b"transfer-encoding") != b"chunked":
            if b"content-length" not in headers:
                raise ValueError(f"an answer without a length: {first.decode(errors='replace')}")
            self._length = int(headers[b"content-length"])
        self._status = int(first[9:12])
        self._at = end + len(_END)
        return True

    def _read_chunks(self) -> bytes | None:
        while (line := self._buffer.find(b"\r\n", self._at)) >= 0:
            size = int(self._buffer[self._at : line], 16)
            begin = line + 2
            end = begin + size
            if not self._has(end + 2):
                return None
            self._at = end + 2
            if not size:
                return b"".join(self._chunks)
            self._chunks.append(bytes(self._buffer[begin:end]))
        self._need = len(self._buffer) + 1
        return None

    def _has(self, end: int) -> bool:
        """Whether so many bytes are here; if not, remember to wait for them."""
        if end > LONGEST_ANSWER or end < self._at:
            raise ValueError("the answer is too long")
        self._need = end
        return len(self._buffer) >= end


async def _in_time(work: Awaitable[T], seconds: float) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise RequestNotSent("no connection in time") from error
    except OSError as error:
        raise RequestNotSent(str(error) or type(error).__name__) from error
