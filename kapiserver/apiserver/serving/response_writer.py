"""Writes the response to one request: a body in one call, slices at the speed of the client.

Watch frames go through `serving/stream_sink.py`. Knows no Kubernetes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import cast

from kapiserver.apiserver.request import Outcome
from kapiserver.apiserver.response import Response, StreamResponse
from kapiserver.apiserver.serving.connection import Connection
from kapiserver.apiserver.serving.request_parser import RequestHead
from kapiserver.apiserver.serving.response_head import (
    CLOSE_HEADER,
    LAST_CHUNK,
    chunk,
    response_head,
)
from kapiserver.apiserver.serving.stream_sink import StreamSink
from kapiserver.apiserver.serving.websocket import WebSocketSink

WRITE_BYTES = 256 << 10
"""Bytes of a body that are written at once."""
SLOW_CLIENT_SECONDS = 60.0
"""If a client reads nothing of its response for this time, its connection is aborted."""

_log = logging.getLogger(__name__)


async def write_response(
    connection: Connection, head: RequestHead, response: Response, *, keep_alive: bool
) -> tuple[Outcome, bool]:
    """Write a response; return its outcome, and whether the connection stays open. An error aborts
    the connection, so that the client sees the failure."""
    try:
        if isinstance(response.body, bytes) and len(response.body) <= WRITE_BYTES:
            return await _write_small(connection, head, response, keep_alive=keep_alive)
        return await _write_large(connection, head, response, keep_alive=keep_alive)
    except ConnectionError:
        return _unfinished(response), False
    except TimeoutError:
        _log.info("client %s reads its response too slowly; connection aborted", connection.remote)
    except Exception:
        _log.exception("%s %s: writing the response failed", head.method, head.target)
    connection.abort()
    return _unfinished(response), False


def _unfinished(response: Response) -> Outcome:
    return Outcome(status=response.status, bytes_sent=0, finished=False)


def _omits_body(head: RequestHead, response: Response) -> bool:
    return head.method == "HEAD" or response.status in (204, 304)


async def _write_small(
    connection: Connection, head: RequestHead, response: Response, *, keep_alive: bool
) -> tuple[Outcome, bool]:
    body = cast(bytes, response.body)
    close = "" if keep_alive else CLOSE_HEADER
    data = _head(response, f"Content-Length: {len(body)}\r\n{close}")
    if _omits_body(head, response):
        body = b""
    _write(connection, data + body)
    if connection.is_writing_paused:
        await _wait_writable(connection)
    return Outcome(status=response.status, bytes_sent=len(body), finished=True), keep_alive


async def _write_large(
    connection: Connection, head: RequestHead, response: Response, *, keep_alive: bool
) -> tuple[Outcome, bool]:
    length = response.length
    if isinstance(response.body, bytes):
        length, slices = len(response.body), _single_slice(response.body)
    else:
        slices = response.body
    omits_body = _omits_body(head, response)
    is_chunked = length is None and head.is_http_1_1 and not omits_body
    if is_chunked:
        framing = "Transfer-Encoding: chunked\r\n"
    elif length is not None:
        framing = f"Content-Length: {length}\r\n"
    else:
        framing, keep_alive = "", keep_alive and omits_body
    _write(connection, _head(response, framing + ("" if keep_alive else CLOSE_HEADER)))
    bytes_sent = 0
    if not omits_body:
        bytes_sent = await _write_slices(connection, slices, chunk if is_chunked else _unframed)
        if is_chunked:
            _write(connection, LAST_CHUNK)
    return Outcome(status=response.status, bytes_sent=bytes_sent, finished=True), keep_alive


async def _single_slice(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _unframed(piece: bytes) -> bytes:
    return piece


def _cut(piece: bytes) -> Iterator[bytes]:
    for start in range(0, len(piece), WRITE_BYTES):  # TLS encrypts what it is given at once
        yield piece[start : start + WRITE_BYTES]


async def _write_slices(
    connection: Connection, slices: AsyncIterator[bytes], frame: Callable[[bytes], bytes]
) -> int:
    """Write slices at the speed of the client; return the bytes written. Raises TimeoutError."""
    bytes_sent = 0
    async for piece in slices:
        for part in _cut(piece):
            framed = frame(part)
            _write(connection, framed)
            bytes_sent += len(framed)
            # For a fast client waiting returns at once; yield to other requests all the same.
            await _wait_writable(connection)
            await asyncio.sleep(0)
    return bytes_sent


def _write(connection: Connection, data: bytes) -> None:
    if connection.transport is None:
        raise ConnectionResetError
    connection.transport.write(data)


async def _wait_writable(connection: Connection) -> None:
    """Wait until the transport's write buffer is mostly empty. Raises TimeoutError."""
    if connection.is_writing_paused:
        async with asyncio.timeout(SLOW_CLIENT_SECONDS):
            await connection.wait_writable()


async def write_stream(
    connection: Connection, head: RequestHead, response: StreamResponse, *, keep_alive: bool
) -> tuple[Outcome, bool]:
    """Send the head of a stream and wait until it ends; return its outcome, and whether the
    connection stays open."""
    sink = cast(StreamSink, response.sink)
    keep_alive = keep_alive and head.is_http_1_1
    websocket = connection.stream if isinstance(connection.stream, WebSocketSink) else None
    if websocket is not None:
        sink.start(websocket.switching_head(response.headers))
        connection.switch_protocol(websocket.receive)
    else:
        framing = "Transfer-Encoding: chunked\r\n" if head.is_http_1_1 else ""
        sink.start(_head(response, framing + ("" if keep_alive else CLOSE_HEADER)))
    if not await _is_closed_within(sink, response.timeout):
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
        return outcome, False
    transport.write(LAST_CHUNK)
    return outcome, keep_alive and not is_backlogged


async def _is_closed_within(sink: StreamSink, seconds: float) -> bool:
    """Wait until the stream is closed, and return True; False if the time is over before."""
    try:
        async with asyncio.timeout(seconds or None):
            # Not asyncio.wait: its timer would keep the request's context until the timeout.
            await asyncio.shield(sink.closed)
    except TimeoutError:
        return False
    return True


def _head(response: Response | StreamResponse, framing: str) -> bytes:
    return response_head(response.status, response.media_type, response.headers, framing)
