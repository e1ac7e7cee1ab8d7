"""A minimal HTTP/1.1 client with keep-alive connections to one endpoint: POST and whole responses.

It parses what Go's server answers to a POST: a head, then a body with a Content-Length or in
chunks. A general client costs more than the rest of a call (decision 012); only streams use one.
Knows no etcd and no JSON.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable
from typing import TypeVar, cast
from urllib.parse import urlsplit

from msgspec import Struct

from kapiserver.storage.etcd.transport import (
    DEFAULT_PORT,
    MAX_MESSAGE_BYTES,
    RequestNotSent,
    ResponseLost,
)

MAX_CONNECTIONS = 128
"""Connections to one endpoint; further requests wait for a free one."""
MAX_HEAD_BYTES = 64 << 10

T = TypeVar("T")

_END = b"\r\n\r\n"


class HTTPResponse(Struct, frozen=True):
    """A response without its headers."""

    status: int
    body: bytes


class ConnectionPool:
    """Connections to one endpoint, `http://HOST:PORT`, or `https://HOST:PORT` with TLS."""

    def __init__(self, endpoint: str, tls: ssl.SSLContext | None) -> None:
        url = urlsplit(endpoint)
        self._host = url.hostname or ""
        self._port = url.port or DEFAULT_PORT
        self._tls = tls if url.scheme == "https" else None
        self._name = url.netloc.encode()
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self._free_connections = asyncio.Semaphore(MAX_CONNECTIONS)
        self._closed = False

    async def post(self, path: str, headers: bytes, body: bytes, *, seconds: float) -> HTTPResponse:
        """Send a request and return its response. Each step takes at most `seconds`; `headers` are
        whole lines. Raises RequestNotSent, ResponseLost."""
        if self._free_connections.locked():
            await _with_timeout(self._free_connections.acquire(), seconds)
        else:
            await self._free_connections.acquire()
        try:
            connection = await self._connection(seconds)
            self._busy.add(connection)
            try:
                head = b"POST %b HTTP/1.1\r\nHost: %b\r\n%bContent-Length: %d\r\n\r\n"
                message = head % (path.encode(), self._name, headers, len(body)) + body
                response = await connection.ask(message, seconds)
            finally:
                self._busy.discard(connection)
        finally:
            self._free_connections.release()
        if connection.usable and not self._closed:
            self._idle.append(connection)
        else:
            connection.drop()
        return response

    def close(self) -> None:
        """Close all connections; pending requests raise ResponseLost. Idempotent."""
        self._closed = True
        for connection in (*self._idle, *self._busy):
            connection.drop()
        self._idle.clear()

    async def _connection(self, seconds: float) -> _Connection:
        while self._idle:  # the most recently used is the least likely to be closed
            connection = self._idle.pop()
            if connection.usable:
                return connection
        if self._closed:
            raise RequestNotSent("the connection is closed")
        opening = asyncio.get_running_loop().create_connection(
            _Connection, self._host, self._port, ssl=self._tls
        )
        _, connection = await _with_timeout(opening, seconds)
        return connection


class _Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self.usable = True
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._response: asyncio.Future[HTTPResponse] | None = None
        self._buffer = bytearray()
        self._reset_parser()

    def _reset_parser(self) -> None:
        self._parse_at_size = 0  # buffer size at which to parse again
        self._status = 0  # 0 until the head is parsed
        self._position = 0  # bytes before this are parsed
        self._length: int | None = None  # of the body; None for chunks
        self._chunks: list[bytes] = []

    async def ask(self, message: bytes, seconds: float) -> HTTPResponse:
        """Send a request and return its response. Raises ResponseLost."""
        self._response = self._loop.create_future()
        self._transport.write(message)
        timer = self._loop.call_later(seconds, self._fail, "no answer in time")
        try:
            return await self._response
        finally:
            timer.cancel()
            if not self._response.done() or self._response.cancelled():
                self.drop()  # a late response must not be taken for the next one
            self._response = None

    def drop(self) -> None:
        """Close the connection."""
        self._fail("the connection is closed")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(str(exc or "the connection was closed"))

    def data_received(self, data: bytes) -> None:
        if self._response is None or self._response.done():
            self._fail("an answer to no request")
            return
        self._buffer += data
        if len(self._buffer) < self._parse_at_size:
            return
        try:
            body = self._parse()
        except ValueError as error:
            self._fail(str(error))
            return
        if body is None:
            return
        if self._position != len(self._buffer):
            self.usable = False
        self._response.set_result(HTTPResponse(self._status, body))
        self._buffer.clear()
        self._reset_parser()

    def _fail(self, reason: str) -> None:
        self.usable = False
        self._transport.abort()
        if self._response is not None and not self._response.done():
            self._response.set_exception(ResponseLost(reason))

    # Parsing.

    def _parse(self) -> bytes | None:
        """Return the body once it is complete, else None. Raises ValueError if it is invalid."""
        if not self._status and not self._parse_head():
            return None
        if self._length is None:
            return self._parse_chunks()
        end = self._position + self._length
        if not self._has(end):
            return None
        body = bytes(self._buffer[self._position : end])
        self._position = end
        return body

    def _parse_head(self) -> bool:
        end = self._buffer.find(_END)
        if end < 0:
            if len(self._buffer) > MAX_HEAD_BYTES:
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
        self._position = end + len(_END)
        return True

    def _parse_chunks(self) -> bytes | None:
        while (line := self._buffer.find(b"\r\n", self._position)) >= 0:
            size = int(self._buffer[self._position : line], 16)
            start = line + 2
            end = start + size
            if not self._has(end + 2):
                return None
            self._position = end + 2
            if not size:
                return b"".join(self._chunks)
            self._chunks.append(bytes(self._buffer[start:end]))
        self._parse_at_size = len(self._buffer) + 1
        return None

    def _has(self, end: int) -> bool:
        """Whether the buffer has `end` bytes. If not, parse again when it has them."""
        if end > MAX_MESSAGE_BYTES or end < self._position:
            raise ValueError("the answer is too long")
        self._parse_at_size = end
        return len(self._buffer) >= end


async def _with_timeout(work: Awaitable[T], seconds: float) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise RequestNotSent("no connection in time") from error
    except OSError as error:
        raise RequestNotSent(str(error) or type(error).__name__) from error
