"""Exchanges over HTTP/1.1: small bodies are written in one call, slices at the client's speed.

Watch frames go through `serving/stream_sink.py`. Knows no Kubernetes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import cast

from msgspec import Struct

from kapiserver.apiserver.authentication.websocket_token import subprotocols
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.request import Outcome, Request
from kapiserver.apiserver.response import AnyResponse, Response, StreamResponse
from kapiserver.apiserver.serving.http1.connection import Connection, request_from
from kapiserver.apiserver.serving.http1.request_parser import RequestHead
from kapiserver.apiserver.serving.http1.response_head import (
    CLOSE_HEADER,
    LAST_CHUNK,
    WITHOUT_BODY,
    chunk,
    response_head,
)
from kapiserver.apiserver.serving.http1.stream_sink import StreamSink
from kapiserver.apiserver.serving.http1.upgrade import write_upgrade
from kapiserver.apiserver.serving.http1.websocket import WebSocketSink
from kapiserver.apiserver.streaming.handshake import is_handshake
from kapiserver.apiserver.user import User
from kapiserver.storage.concurrency.turns import next_turn

WRITE_BYTES = 256 << 10
"""Bytes of a body that are written at once."""
SLOW_CLIENT_SECONDS = 60.0
"""If a client reads nothing of its response for this time, its connection is aborted."""

_log = logging.getLogger(__name__)


class HttpExchange(Struct, eq=False):
    """One request of a connection, and the way to its response. An Exchange. It clears `keep_alive`
    of the head if the response ends the connection."""

    _connection: Connection
    _head: RequestHead

    def make_request(self, user: User) -> Request:
        """Return the request as filters and handlers see it."""
        return request_from(self._head, self._connection, user, self._open_sink)

    def _open_sink(self) -> StreamSink:
        """Open a stream to the client. Raises ConnectionResetError, BadRequest."""
        connection, head = self._connection, self._head
        if connection.transport is None:
            raise ConnectionResetError
        transport, drain = connection.transport, connection.wait_writable
        if is_handshake(head.method, head.headers):
            key, protocol = head.headers["Sec-WebSocket-Key"], watch_subprotocol(head.headers)
            connection.stream = WebSocketSink(transport, drain, key=key, protocol=protocol)
        else:
            connection.stream = StreamSink(transport, drain, chunked=head.is_http_1_1)
        return connection.stream

    def respond(
        self, response: AnyResponse, *, is_last: bool
    ) -> Coroutine[object, object, Outcome]:
        """Write a response, and return how it ended."""
        if is_last:
            self._head.keep_alive = False
        if isinstance(response, Response):
            return self._write_response(response)
        if isinstance(response, StreamResponse):
            return self._write_stream(response)
        self._head.keep_alive = False
        return write_upgrade(self._connection, response)

    def close_stream(self) -> None:
        """End the stream that the request has opened, if it has."""
        if self._connection.stream is not None:
            self._connection.stream.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._head.keep_alive = False
        self._connection.abort()

    async def _write_response(self, response: Response) -> Outcome:
        """Write a body; an error aborts the connection, so that the client sees the failure."""
        try:
            if not isinstance(response.body, bytes) or len(response.body) > WRITE_BYTES:
                return await self._write_large(response)
            outcome = self._write_small(response, response.body)
            if self._connection.is_writing_paused:
                await self._wait_writable()
            return outcome
        except ConnectionError:
            self._head.keep_alive = False
            return _unfinished(response)
        except TimeoutError:
            remote = self._connection.remote
            _log.info("client %s reads its response too slowly; connection aborted", remote)
        except Exception:
            _log.exception(
                "%s %s: writing the response failed", self._head.method, self._head.target
            )
        self.abort()
        return _unfinished(response)

    def _write_small(self, response: Response, body: bytes) -> Outcome:
        close = "" if self._head.keep_alive else CLOSE_HEADER
        length = "" if response.status in WITHOUT_BODY else f"Content-Length: {len(body)}\r\n"
        data = response_head(response, length + close)
        if self._omits_body(response):
            body = b""
        self._write(data + body)
        return Outcome(status=response.status, bytes_sent=len(body), finished=True)

    async def _write_large(self, response: Response) -> Outcome:
        length, head = response.length, self._head
        if isinstance(response.body, bytes):
            length = len(response.body)
        omits_body = self._omits_body(response)
        is_chunked = length is None and head.is_http_1_1 and not omits_body
        if is_chunked:
            framing = "Transfer-Encoding: chunked\r\n"
        elif length is not None:
            framing = f"Content-Length: {length}\r\n"
        else:
            framing, head.keep_alive = "", head.keep_alive and omits_body
        self._write(response_head(response, framing + ("" if head.keep_alive else CLOSE_HEADER)))
        bytes_sent = 0
        if not omits_body:
            bytes_sent = await self._write_parts(response.body, chunk if is_chunked else _unframed)
            if is_chunked:
                self._write(LAST_CHUNK)
        return Outcome(status=response.status, bytes_sent=bytes_sent, finished=True)

    async def _write_parts(
        self, body: bytes | AsyncIterator[bytes], frame: Callable[[bytes], bytes]
    ) -> int:
        """Write a body at the speed of the client; return the bytes written. Raises
        TimeoutError."""
        bytes_sent = 0
        async for part in parts_of(body):
            framed = frame(part)
            self._write(framed)
            bytes_sent += len(framed)
            await self._wait_writable()
        return bytes_sent

    async def _write_stream(self, response: StreamResponse) -> Outcome:
        """Send the head of a stream and wait until it ends."""
        connection, head = self._connection, self._head
        sink = cast(StreamSink, response.sink)
        head.keep_alive = head.keep_alive and head.is_http_1_1
        websocket = connection.stream if isinstance(connection.stream, WebSocketSink) else None
        if websocket is not None:
            sink.start(websocket.switching_head(response.headers))
            connection.switch_protocol(websocket.receive)
        else:
            framing = "Transfer-Encoding: chunked\r\n" if head.is_http_1_1 else ""
            sink.start(response_head(response, framing + ("" if head.keep_alive else CLOSE_HEADER)))
        if not await is_closed_within(sink.closed, response.timeout):
            response.on_timeout()
        sink.close()
        is_backlogged = connection.transport is not None and sink.backlog() > 0
        if is_backlogged:
            connection.abort_later(SLOW_CLIENT_SECONDS)
            await sink.flush()
        await response.before_end()
        transport = connection.transport
        outcome = Outcome(
            status=response.status, bytes_sent=sink.bytes_sent, finished=transport is not None
        )
        if transport is None or not head.is_http_1_1 or websocket is not None:
            head.keep_alive = False
            return outcome
        transport.write(LAST_CHUNK)
        head.keep_alive = head.keep_alive and not is_backlogged
        return outcome

    def _omits_body(self, response: Response) -> bool:
        return self._head.method == "HEAD" or response.status in WITHOUT_BODY

    def _write(self, data: bytes) -> None:
        if self._connection.transport is None:
            raise ConnectionResetError
        self._connection.transport.write(data)

    async def _wait_writable(self) -> None:
        """Wait until the transport's write buffer is mostly empty. Raises TimeoutError."""
        if self._connection.is_writing_paused:
            async with asyncio.timeout(SLOW_CLIENT_SECONDS):
                await self._connection.wait_writable()


def watch_subprotocol(headers: Mapping[str, str]) -> str:
    """Return the subprotocol that the client of a watch over WebSocket offers, or "". Raises
    BadRequest if it offers several."""
    protocols = subprotocols(headers)
    if len(protocols) > 1:
        raise BadRequest("a watch over WebSocket takes one subprotocol")
    return "".join(protocols)


async def is_closed_within(closed: asyncio.Future[None], seconds: float) -> bool:
    """Wait until a stream is closed, and return True; False if the time is over before. 0 seconds
    mean no limit."""
    try:
        async with asyncio.timeout(seconds or None):
            # Not asyncio.wait: its timer would keep the request's context until the timeout.
            await asyncio.shield(closed)
    except TimeoutError:
        return False
    return True


def cut(piece: bytes) -> Iterator[bytes]:
    """Yield the parts of a piece that are written at once. TLS encrypts what it gets in a call."""
    for start in range(0, len(piece), WRITE_BYTES):
        yield piece[start : start + WRITE_BYTES]


async def parts_of(body: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the parts of a body that are written at once. After each of them, other requests have
    their turn: for a fast client, writing never waits."""
    async for piece in _single_piece(body) if isinstance(body, bytes) else body:
        for part in cut(piece):
            yield part
            await next_turn()


async def _single_piece(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _unframed(piece: bytes) -> bytes:
    return piece


def _unfinished(response: Response) -> Outcome:
    return Outcome(status=response.status, bytes_sent=0, finished=False)
