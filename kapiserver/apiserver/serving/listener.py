"""Hands HTTP requests to their handler and writes the responses.

aiohttp parses requests (`serving/connection.py`). Responses are written here: a body in one call,
slices at the speed of the client. Watch frames go through `serving/stream_sink.py`. Knows no
Kubernetes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeAlias, cast

from aiohttp import web

from kapiserver.apiserver.authentication.user import User
from kapiserver.apiserver.context import Handler
from kapiserver.apiserver.errors import ServerError
from kapiserver.apiserver.faults import DropConnection
from kapiserver.apiserver.request import Outcome, Request
from kapiserver.apiserver.response import Response, StreamResponse
from kapiserver.apiserver.serving.connection import CLOSE, KEEP_ALIVE, Connection, request_from
from kapiserver.apiserver.serving.connection_limits import IncompleteHeaders
from kapiserver.apiserver.serving.http_errors import refusal_of
from kapiserver.apiserver.serving.response_head import (
    CLOSE_HEADER,
    LAST_CHUNK,
    chunk,
    response_head,
)
from kapiserver.apiserver.serving.stream_sink import StreamSink

_log = logging.getLogger(__name__)

LINE_LIMIT = 128 * 1024
"""Bytes of a request line; long label selectors need it."""
FIELD_LIMIT = 64 * 1024
FIELD_COUNT = 128
LINGER_SECONDS = 5.0
CLOSE_SECONDS = 1.0
LAST_REQUEST_SECONDS = 0.2
"""A draining server waits so long for requests that clients were about to send on connections that
are open. Their responses say that the connection closes."""
IDLE_SECONDS = 90.0
"""An idle connection is closed after this time, as by kube-apiserver."""
WRITE_BYTES = 256 << 10
"""Bytes of a body that are written at once."""
SLOW_CLIENT_SECONDS = 60.0
"""The connection of a client that reads nothing of its response for so long is aborted."""


ErrorHandler: TypeAlias = Callable[[Request, Exception], Response]
"""Returns the error response for a request that never reaches a handler."""


class Listener(web.Server):
    """Calls `handle` for the requests of every connection that a socket accepts.

    user                of requests before authentication
    incomplete_headers  shared by the listeners of a server
    """

    def __init__(
        self,
        handle: Handler,
        error_response: ErrorHandler,
        *,
        user: User,
        incomplete_headers: IncompleteHeaders | None = None,
    ) -> None:
        super().__init__(
            self._count_request,
            access_log=None,
            max_line_size=LINE_LIMIT,
            max_field_size=FIELD_LIMIT,
            max_headers=FIELD_COUNT,
            auto_decompress=False,
            lingering_time=LINGER_SECONDS,
            keepalive_timeout=IDLE_SECONDS,
        )
        self._handle = handle
        self._user = user
        self.incomplete_headers = incomplete_headers or IncompleteHeaders()
        self._error_response = error_response
        self._streams: set[StreamSink] = set()
        self._in_flight = 0
        self._all_finished = asyncio.Event()
        self._open = 0
        self._all_closed = asyncio.Event()
        self.draining = False
        """Whether every response closes its connection."""
        self._drained = False

    def __call__(self) -> web.RequestHandler:
        return Connection(self, loop=self._loop, **self._kwargs)

    def error_response(self, request: Request, error: ServerError) -> Response:
        """Return the error response for a request that never reaches a handler."""
        return self._error_response(request, error)

    async def drain(self, seconds: float) -> None:
        """End every stream cleanly, give requests in flight that many seconds to finish, then close
        all connections. The caller has stopped accepting new ones.

        Responses carry `Connection: close` from now on. Connections that are idle stay open for
        `LAST_REQUEST_SECONDS`, so that a request on its way gets its response, too."""
        self.draining = True
        for stream in tuple(self._streams):
            stream.close()
        if self._open:
            await _wait(self._all_closed, min(seconds, LAST_REQUEST_SECONDS))
        if self._in_flight:
            self._all_finished.clear()
            await _wait(self._all_finished, seconds)
        self.pre_shutdown()
        await self.shutdown(CLOSE_SECONDS)
        self._drained = True

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Track a connection; abort one that arrives after `drain` has closed the others."""
        super().connection_made(handler, transport)
        self._open += 1
        if self._drained:
            transport.abort()

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        """Count the open connections."""
        super().connection_lost(handler, exc)
        self._open -= 1
        if self.draining and not self._open:
            self._all_closed.set()

    async def _count_request(self, raw: web.BaseRequest) -> web.StreamResponse:
        self._in_flight += 1
        try:
            return await self._handle_request(raw)
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._all_finished.set()

    async def _handle_request(self, raw: web.BaseRequest) -> web.StreamResponse:
        connection = cast(Connection, raw.protocol)
        connection.on_request()
        refusal = refusal_of(raw.method, raw.raw_path, raw.version, raw.headers)
        if refusal is not None:
            return connection.refuse(raw, refusal)
        request = request_from(raw, connection, self._user)
        request.open_sink = functools.partial(self._open_sink, raw, connection)
        # Tasks and timers that a request starts keep its context, and so this function, for long.
        request.has_gone = functools.partial(_has_gone, weakref.ref(connection))
        outcome = Outcome(status=0, bytes_sent=0, finished=False)
        try:
            response = await self._handle(request)
            if isinstance(response, StreamResponse):
                outcome, reply = await self._write_stream(raw, response)
            else:
                outcome, reply = await _write_response_or_abort(raw, response)
        except DropConnection:
            if raw.transport is not None:
                raw.transport.abort()
            return CLOSE
        finally:
            if connection.stream is not None:
                self._close_sink(connection, connection.stream)
            request.complete(outcome)
        if raw.content.exception() is not None:  # do not parse the rest of a broken body
            connection.force_close()
        return reply

    def _open_sink(self, raw: web.BaseRequest, connection: Connection) -> StreamSink:
        if raw.transport is None:
            raise ConnectionResetError
        sink = StreamSink(raw.transport, raw.writer.drain, chunked=raw.version >= (1, 1))
        connection.stream = sink
        self._streams.add(sink)
        return sink

    def _close_sink(self, connection: Connection, sink: StreamSink) -> None:
        sink.close()
        self._streams.discard(sink)
        connection.stream = None

    async def _write_stream(
        self, raw: web.BaseRequest, response: StreamResponse
    ) -> tuple[Outcome, web.StreamResponse]:
        sink = cast(StreamSink, response.sink)
        chunked = raw.version >= (1, 1)
        keep_alive = chunked and _keeps_alive(raw)
        sink.start(_stream_head(response, chunked=chunked, keep_alive=keep_alive))
        if self.draining:
            sink.close()
        await _wait_closed(sink, response.timeout)
        sink.close()
        finished = raw.transport is not None
        outcome = Outcome(status=response.status, bytes_sent=sink.bytes_sent, finished=finished)
        if raw.transport is None or not chunked:
            return outcome, CLOSE
        is_backlogged = raw.transport.get_write_buffer_size() > 0
        raw.transport.write(LAST_CHUNK)
        if is_backlogged:
            cast(Connection, raw.protocol).abort_later(SLOW_CLIENT_SECONDS)
        return outcome, KEEP_ALIVE if keep_alive and not is_backlogged else CLOSE


def _has_gone(connection: weakref.ref[Connection]) -> bool:
    """Report whether the client has closed the connection."""
    alive = connection()
    return alive is None or alive.transport is None


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _keeps_alive(raw: web.BaseRequest) -> bool:
    """Report whether the connection stays open after a response that begins now."""
    return raw.keep_alive and not cast(Connection, raw.protocol).listener.draining


async def _wait_closed(sink: StreamSink, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds or None):
            await sink.done


async def _write_response_or_abort(
    raw: web.BaseRequest, response: Response
) -> tuple[Outcome, web.StreamResponse]:
    """Write a response; on an error abort the connection, so that the client sees the failure."""
    try:
        return await _write_response(raw, response)
    except ConnectionError:
        return _unfinished(response), CLOSE
    except TimeoutError:
        _log.info("client %s reads its response too slowly; connection aborted", raw.remote)
    except Exception:
        _log.exception("%s %s: writing the response failed", raw.method, raw.path)
    if raw.transport is not None:
        raw.transport.abort()
    return _unfinished(response), CLOSE


def _unfinished(response: Response) -> Outcome:
    return Outcome(status=response.status, bytes_sent=0, finished=False)


async def _write_response(
    raw: web.BaseRequest, response: Response
) -> tuple[Outcome, web.StreamResponse]:
    transport = raw.transport
    if transport is None:
        return _unfinished(response), CLOSE
    omit_body = raw.method == "HEAD" or response.status in (204, 304)
    keep_alive = _keeps_alive(raw)
    close = "" if keep_alive else CLOSE_HEADER
    bytes_sent = 0
    if isinstance(response.body, bytes):
        head = _head(response, f"Content-Length: {len(response.body)}\r\n{close}")
        bytes_sent = 0 if omit_body else len(response.body)
        if bytes_sent > WRITE_BYTES:  # TLS encrypts what it is given at once
            transport.write(head)
            await _write_slices(raw, _single_slice(response.body))
        else:
            transport.write(head if omit_body else head + response.body)
            await _wait_writable(raw)
    elif response.length is not None:
        transport.write(_head(response, f"Content-Length: {response.length}\r\n{close}"))
        if not omit_body:
            bytes_sent = await _write_slices(raw, response.body)
    elif raw.version >= (1, 1):
        transport.write(_head(response, f"Transfer-Encoding: chunked\r\n{close}"))
        if not omit_body:
            bytes_sent = await _write_slices(raw, response.body, chunk)
            transport.write(LAST_CHUNK)
    else:
        transport.write(_head(response, CLOSE_HEADER))
        bytes_sent = await _write_slices(raw, response.body)
        keep_alive = False
    outcome = Outcome(status=response.status, bytes_sent=bytes_sent, finished=True)
    return outcome, KEEP_ALIVE if keep_alive else CLOSE


async def _single_slice(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _cut(piece: bytes) -> Iterator[bytes]:
    for start in range(0, len(piece), WRITE_BYTES):
        yield piece[start : start + WRITE_BYTES]


async def _write_slices(
    raw: web.BaseRequest,
    slices: AsyncIterator[bytes],
    frame: Callable[[bytes], bytes] = lambda piece: piece,
) -> int:
    """Write slices at the speed of the client; return the bytes written. Raises TimeoutError."""
    bytes_sent = 0
    async for piece in slices:
        for part in _cut(piece):
            if raw.transport is None:
                raise ConnectionResetError
            framed = frame(part)
            raw.transport.write(framed)
            bytes_sent += len(framed)
            # For a fast client drain() returns at once; yield to other requests all the same.
            await _wait_writable(raw)
            await asyncio.sleep(0)
    return bytes_sent


async def _wait_writable(raw: web.BaseRequest) -> None:
    """Wait until the transport's write buffer is mostly empty. Raises TimeoutError."""
    if raw.protocol.writing_paused:
        async with asyncio.timeout(SLOW_CLIENT_SECONDS):
            await raw.writer.drain()


def _head(response: Response | StreamResponse, framing: str) -> bytes:
    return response_head(response.status, response.media_type, response.headers, framing)


def _stream_head(response: StreamResponse, *, chunked: bool, keep_alive: bool) -> bytes:
    framing = "Transfer-Encoding: chunked\r\n" if chunked else ""
    return _head(response, framing + ("" if keep_alive else CLOSE_HEADER))
