"""The gRPC transport of etcd: one HTTP/2 connection for each endpoint, shared by calls and streams.

Mirrors "gRPC over HTTP2" (PROTOCOL-HTTP2.md of gRPC), without compression. Knows no message of etcd
(`wire.py`) and no frame (`http2.py`).
"""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from struct import Struct
from urllib.parse import unquote, urlsplit

from kapiserver.codecs.http2 import hpack
from kapiserver.codecs.http2.frames import ProtocolError
from kapiserver.spans import trace_headers
from kapiserver.storage.etcd import transport
from kapiserver.storage.etcd.http2 import Connection
from kapiserver.storage.etcd.http2_stream import NEVER, Headers, Stream
from kapiserver.storage.etcd.transport import (
    DEFAULT_PORT,
    MAX_MESSAGE_BYTES,
    RequestNotSent,
    ResponseLost,
    refusal,
)
from kapiserver.storage.etcd.wire import WireCodec

MAX_QUEUED_BYTES = 1 << 20
"""Bytes of a stream's messages that wait for the reader; the server sends no more until it has read
them."""
MAX_CACHED_HEADERS = 64
"""Number of encoded request headers that a channel remembers."""

_PREFIX = Struct(">BL")
"""The prefix of a message: whether it is compressed, and its length."""


class _ResponseStream(Stream, ABC):
    """The client's end of a call: checks the headers and the status of the response."""

    __slots__ = ("_started",)

    def __init__(self, deadline: float) -> None:
        super().__init__(deadline)
        self._started = False

    @abstractmethod
    def finish(self, error: Exception | None) -> None:
        """The response is complete (`error` is None), or failed."""

    def on_headers(self, headers: Headers, *, end: bool) -> None:
        if not self._started:
            self._started = True
            if (status := headers.get(b":status")) != b"200":
                text = (status or b"missing").decode("latin-1")
                self.finish(ResponseLost(f"HTTP status {text}"))
                return
            if not end:
                return
        self.finish(_error_of(headers))

    def on_lost(self, reason: str, *, processed: bool) -> None:
        self.finish(ResponseLost(reason) if processed else RequestNotSent(reason))


class _UnaryCall(_ResponseStream):
    """One request and one response."""

    __slots__ = ("_chunks", "_size", "response")

    def __init__(self, response: asyncio.Future[bytes], deadline: float) -> None:
        super().__init__(deadline)
        self.response = response
        self._chunks: list[bytes] = []
        self._size = 0

    def on_data(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        if self._size > MAX_MESSAGE_BYTES + _PREFIX.size:
            raise ProtocolError("a message is too long")

    def finish(self, error: Exception | None) -> None:
        if self.response.done():
            return
        if error is None:
            data = b"".join(self._chunks)
            if data[: _PREFIX.size] == _PREFIX.pack(0, max(self._size - _PREFIX.size, 0)):
                self.response.set_result(data[_PREFIX.size :])
                return
            error = ResponseLost("the answer is not one message")
        self.response.set_exception(error)


class GrpcMessageStream(_ResponseStream):
    """The messages of a stream."""

    __slots__ = ("_buffer", "_connection", "_error", "_finished", "_messages", "_queued", "_waiter")

    def __init__(self, connection: Connection) -> None:
        super().__init__(NEVER)
        self._connection = connection
        self._buffer = bytearray()
        self._messages: list[bytes] = []
        self._queued = 0
        self._waiter: asyncio.Future[None] | None = None
        self._finished = False
        self._error: Exception | None = None

    def __aiter__(self) -> AsyncIterator[Sequence[bytes]]:
        return self

    async def __anext__(self) -> Sequence[bytes]:
        while not self._messages:
            if self._error is not None:
                raise self._take_error()
            if self._finished:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        messages, self._messages, self._queued = self._messages, [], 0
        if self.paused:
            self.paused = False
            self._connection.acknowledge(self)
        return messages

    def _take_error(self) -> Exception:
        """Return the error and forget it: the frame of `__anext__`, which raises it, refers to this
        stream. Iteration ends after that."""
        assert self._error is not None
        error, self._error = self._error, None
        return error

    def close(self) -> None:
        """End the stream; iteration raises ResponseLost. Idempotent."""
        self._connection.cancel(self)
        self.finish(ResponseLost("the stream was closed"))

    def on_data(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= _PREFIX.size:
            compressed, length = _PREFIX.unpack_from(buffer, start)
            if compressed or length > MAX_MESSAGE_BYTES:
                raise ProtocolError("a message is compressed or too long")
            end = start + _PREFIX.size + length
            if end > len(buffer):
                break
            self._messages.append(bytes(buffer[start + _PREFIX.size : end]))
            self._queued += length
            start = end
        if start:
            del buffer[:start]
            self.paused = self._queued > MAX_QUEUED_BYTES
            self._wake()

    def finish(self, error: Exception | None) -> None:
        if not self._finished:
            self._finished = True
            self._error = error
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Channel:
    """The connection to one endpoint. It is opened when a call needs it, and again after it
    broke."""

    def __init__(self, endpoint: str, tls: ssl.SSLContext | None) -> None:
        self._url = urlsplit(endpoint)
        self._tls = tls if self._url.scheme == "https" else None
        self._connections: list[Connection] = []
        self._opening: asyncio.Task[Connection] | None = None
        self._headers: dict[tuple[str, str], bytes] = {}

    def usable_connection(self) -> Connection | None:
        """Return a usable connection, or None if one must be opened."""
        if self._connections and self._connections[-1].usable:
            return self._connections[-1]
        return None

    async def new_connection(self) -> Connection:
        """Open a connection, once for all callers that wait. Raises RequestNotSent."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._on_opened)
        return await asyncio.shield(self._opening)

    def headers(self, method: str, token: str) -> bytes:
        """Return the encoded headers of a request."""
        block = self._headers.get((method, token))
        if block is None:
            if len(self._headers) >= MAX_CACHED_HEADERS:  # tokens change
                self._headers.clear()
            block = self._headers[method, token] = hpack.encode(
                [
                    (b":method", b"POST"),
                    (b":scheme", self._url.scheme.encode()),
                    (b":path", f"/{method}".encode()),
                    (b":authority", self._url.netloc.encode()),
                    (b"content-type", b"application/grpc"),
                    (b"te", b"trailers"),
                    # A member without a leader ends streams then instead of going silent.
                    (b"hasleader", b"true"),
                    *([(b"token", token.encode())] if token else ()),
                ]
            )
        return block

    def close(self) -> None:
        """Close all connections. Idempotent."""
        if self._opening is not None:
            self._opening.cancel()
        for connection in self._connections:
            connection.close()

    async def _open(self) -> Connection:
        loop = asyncio.get_running_loop()
        opening = loop.create_connection(
            Connection, self._url.hostname or "", self._url.port or DEFAULT_PORT, ssl=self._tls
        )
        try:
            async with asyncio.timeout(transport.CONNECT_SECONDS):
                _, connection = await opening
        except TimeoutError as error:
            raise RequestNotSent("no connection in time") from error
        except OSError as error:
            raise RequestNotSent(str(error) or type(error).__name__) from error
        if self._tls is not None and connection.application_protocol != "h2":
            connection.close()
            raise RequestNotSent("the endpoint does not speak HTTP/2")
        self._connections = [item for item in self._connections if not item.closed]
        self._connections.append(connection)
        return connection

    def _on_opened(self, opening: asyncio.Task[Connection]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # retrieve it, in case every waiter was cancelled


class GrpcTransport:
    """Calls and streams of gRPC."""

    def __init__(self, tls: ssl.SSLContext | None, prefix: str) -> None:
        """`prefix` begins every key, and is not part of the keys in responses."""
        self.codec = WireCodec(prefix)
        self._tls = tls
        if tls is not None:
            tls.set_alpn_protocols(["h2"])
        self._channels: dict[str, _Channel] = {}
        self._loop = asyncio.get_running_loop()
        self._closed = False

    async def call(self, endpoint: str, method: str, message: bytes, token: str) -> bytes:
        """Send a request and return the response; see `Transport`."""
        channel = self._channel(endpoint)
        connection = channel.usable_connection() or await channel.new_connection()
        deadline = self._loop.time() + transport.CALL_SECONDS
        call = _UnaryCall(self._loop.create_future(), deadline)
        headers = channel.headers(method, token)
        if trace := trace_headers():
            headers += hpack.encode((name.encode(), value.encode()) for name, value in trace)
        _send(connection, call, headers, message, end=True)
        try:
            return await call.response
        finally:
            connection.cancel(call)
            del call  # the error of its response refers to this frame: that would be a cycle

    @asynccontextmanager
    async def stream(
        self, endpoint: str, method: str, message: bytes, token: str
    ) -> AsyncGenerator[GrpcMessageStream]:
        """Open a stream with one request; see `Transport`."""
        channel = self._channel(endpoint)
        connection = channel.usable_connection() or await channel.new_connection()
        stream = GrpcMessageStream(connection)
        _send(connection, stream, channel.headers(method, token), message, end=False)
        try:
            yield stream
        finally:
            stream.close()

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        self._closed = True
        for channel in self._channels.values():
            channel.close()

    def _channel(self, endpoint: str) -> _Channel:
        if self._closed:
            raise RequestNotSent("the connection is closed")
        channel = self._channels.get(endpoint)
        if channel is None:
            channel = self._channels[endpoint] = _Channel(endpoint, self._tls)
        return channel


def _send(
    connection: Connection, stream: Stream, headers: bytes, message: bytes, *, end: bool
) -> None:
    body = _PREFIX.pack(0, len(message)) + message
    try:
        connection.request(stream, headers, body, end=end)
    except ProtocolError as error:
        raise RequestNotSent(str(error)) from error


def _error_of(trailers: Headers) -> Exception | None:
    """Return the error of a response's trailers, None for success."""
    status = trailers.get(b"grpc-status", b"")
    if status == b"0":
        return None
    if not status.isdigit():
        return ResponseLost("the answer has no gRPC status")
    message = unquote(trailers.get(b"grpc-message", b"").decode("latin-1"), errors="replace")
    return refusal(int(status), message)
