"""Where HTTP bytes meet requests and answers: the only module that speaks the HTTP library.

aiohttp's low-level server reads; we write ourselves: an answer of known bytes in one call, slices
as the client takes them, streams straight to the transport. Knows no Kubernetes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import re
import time
from collections.abc import Callable, Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, cast

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter

from kapiserver.apiserver.context import Handler
from kapiserver.apiserver.errors import BadRequest, BodyTooLarge, ServerError
from kapiserver.apiserver.request import (
    ANONYMOUS,
    Certificate,
    Request,
    User,
    parse_query,
    unquote_path,
)
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.response import Headers, Response, Stream
from kapiserver.apiserver.serving.http_errors import BAD_REQUEST, Plain, fault_of

_log = logging.getLogger(__name__)

LINE_LIMIT = 128 * 1024
"""Bytes of a request line: long label selectors fit."""
FIELD_LIMIT = 64 * 1024
FIELD_COUNT = 128
LINGER_SECONDS = 5.0
CLOSE_SECONDS = 1.0
IDLE_SECONDS = 90.0
"""An idle connection ends after that, as with kube-apiserver."""
SLOW_CLIENT_SECONDS = 60.0
"""A client that takes nothing of its answer for so long is cut off."""

_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
"""In a path; Go's server answers by itself."""
_LAST_CHUNK = b"0\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class _Sent:
    """What aiohttp wants of a response; by then everything is written."""

    __slots__ = ("keep_alive",)

    def __init__(self, *, keep_alive: bool) -> None:
        self.keep_alive = keep_alive

    async def prepare(self, request: web.BaseRequest) -> None:
        pass

    async def write_eof(self) -> None:
        pass


_KEEP = cast(web.StreamResponse, _Sent(keep_alive=True))
_CLOSE = cast(web.StreamResponse, _Sent(keep_alive=False))


class _Connection(web.RequestHandler):
    """One client's connection."""

    __slots__ = ("_certificate", "body", "stream")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stream: StreamSink | None = None
        self.body: StreamReader | None = None
        """The body that is being read."""
        self._certificate: Certificate | bool | None = True

    @property
    def certificate(self) -> Certificate | None:
        """The client's certificate, read once a connection."""
        if self._certificate is True:
            self._certificate = _certificate(self.transport)
        return cast("Certificate | None", self._certificate)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if self.stream is not None:
            self.stream.close()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        body = self.body
        if body is not None and not body.is_eof() and self.fault is not None:
            # The library tells it as the next request, and would let this one wait for ever.
            body.set_exception(self.fault)

    @property
    def fault(self) -> ServerError | None:
        """What is wrong with the body that is being read."""
        words = getattr(self._messages[-1][0], "message", None) if self._messages else None
        fault = None if words is None else fault_of(words)
        return fault if isinstance(fault, ServerError) else None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What is no HTTP at all gets Go's answer, and nothing of what we think of it."""
        transport = request.transport
        if transport is None:
            return _CLOSE
        known = status == HTTPStatus.BAD_REQUEST
        fault = fault_of(message or "") if known else Plain(f"{status} {_REASONS[status]}")
        if isinstance(fault, Plain):
            transport.write(_plain(fault))
        else:
            listener = cast(Listener, self._manager)
            answer = listener.answer_fault(_request(request, self, ANONYMOUS), fault)
            body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
            framing = f"Content-Length: {len(body)}\r\nConnection: close\r\n"
            head = _head_lines(answer.status, answer.media_type, answer.headers, framing)
            transport.write(head + body)
        return _CLOSE


class StreamSink:
    """The client's end of a stream: takes whole frames, writes them as chunks at once."""

    __slots__ = ("_chunked", "_head", "_transport", "_writer", "done")

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        writer: AbstractStreamWriter,
        head: bytes,
        *,
        chunked: bool,
    ) -> None:
        self._transport = transport
        self._writer = writer
        self._head = head
        self._chunked = chunked
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def started(self) -> bool:
        """Whether the head went out."""
        return not self._head

    def write(self, frames: bytes) -> None:
        """One or more whole frames of the stream."""
        if self.done.done():
            return
        if self._chunked:
            frames = b"%x\r\n%b\r\n" % (len(frames), frames)
        if self._head:
            frames, self._head = self._head + frames, b""
        self._transport.write(frames)

    def start(self) -> None:
        """Send the head where no frame has: also of a stream that ended before it began."""
        if self._head and not self._transport.is_closing():
            self._transport.write(self._head)
            self._head = b""

    def backlog(self) -> int:
        """Bytes written and not yet taken by the client's connection."""
        return self._transport.get_write_buffer_size()

    async def drained(self) -> None:
        """Return when the client has taken most of it, or has gone."""
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    def close(self) -> None:
        """Nothing more will be written."""
        if not self.done.done():
            self.done.set_result(None)


class Listener(web.Server):
    """Serves `handle` on every connection that a socket accepts; `user` is who asks before
    authentication knows better."""

    def __init__(
        self,
        handle: Handler,
        answer_error: Callable[[Request, Exception], Response],
        *,
        user: User,
    ) -> None:
        super().__init__(
            self._serve,
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
        self._answer_error = answer_error
        self._streams: set[StreamSink] = set()
        self._busy = 0
        self._idle = asyncio.Event()
        self._draining = False
        self._drained = False

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)

    def answer_fault(self, request: Request, error: ServerError) -> Response:
        """The Status for what no handler was asked."""
        return self._answer_error(request, error)

    async def drain(self, seconds: float) -> None:
        """End every stream cleanly, let what is in flight finish within that time, then close
        all connections. Nothing accepts new ones by now."""
        self._draining = True
        for stream in tuple(self._streams):
            stream.close()
        if self._busy:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._idle.wait()
        self.pre_shutdown()
        await self.shutdown(CLOSE_SECONDS)
        self._drained = True

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Know of a connection; one that was accepted when all others were closed ends."""
        super().connection_made(handler, transport)
        if self._drained:
            transport.abort()

    async def _serve(self, raw: web.BaseRequest) -> web.StreamResponse:
        self._busy += 1
        try:
            sent = await self._answer(raw)
        finally:
            self._busy -= 1
            if self._draining and not self._busy:
                self._idle.set()
        return _CLOSE if self._draining else sent

    async def _answer(self, raw: web.BaseRequest) -> web.StreamResponse:
        connection = cast(_Connection, raw.protocol)
        if _BAD_ESCAPE.search(raw.raw_path.partition("?")[0]):
            if raw.transport is not None:
                raw.transport.write(_plain(BAD_REQUEST))
            return _CLOSE
        request = _request(raw, connection, self._user)
        answer = await self._handle(request)
        if isinstance(answer, Stream):
            return await self._stream(raw, connection, request, answer)
        sent = await _respond_whole(raw, answer)
        if raw.content.exception() is not None:  # what follows a broken body is no request
            connection.force_close()
        return sent

    async def _stream(
        self, raw: web.BaseRequest, connection: _Connection, request: Request, answer: Stream
    ) -> web.StreamResponse:
        transport = raw.transport
        if transport is None:
            return _CLOSE
        chunked = raw.version >= (1, 1)
        head = _stream_head(answer, chunked=chunked)
        sink = StreamSink(transport, raw.writer, head, chunked=chunked)
        connection.stream = sink
        self._streams.add(sink)
        try:
            running = await answer.open(sink)
            try:
                sink.start()
                if self._draining:
                    sink.close()
                await _ended(sink, answer.timeout)
            finally:
                running.cancel()
        except Exception as error:
            if sink.started:
                raise
            return await _respond_whole(raw, self._failed(request, answer, error))
        finally:
            sink.close()
            self._streams.discard(sink)
            connection.stream = None
        if raw.transport is None or not chunked:
            return _CLOSE
        slow = transport.get_write_buffer_size() > 0
        transport.write(_LAST_CHUNK)
        return _CLOSE if slow or not raw.keep_alive else _KEEP

    def _failed(self, request: Request, answer: Stream, error: Exception) -> Response:
        instead = self._answer_error(request, error)
        instead.headers.extend(answer.headers)
        return instead


async def _ended(sink: StreamSink, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds or None):
            await sink.done


def _plain(fault: Plain) -> bytes:
    return (
        f"HTTP/1.1 {fault.line}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Connection: close\r\n\r\n{fault.text or fault.line}"
    ).encode()


def _request(raw: web.BaseRequest, connection: _Connection, user: User) -> Request:
    target = raw.raw_path
    if not target.startswith("/"):  # absolute form: a proxy's way to ask
        _, _, rest = target.partition("://")
        target = "/" + rest.partition("/")[2]
    quoted, _, text = target.partition("?")
    path = unquote_path(quoted)
    query = parse_query(text)
    return Request(
        method=raw.method,
        path=path,
        query=query,
        headers=raw.headers,
        info=parse_request_info(raw.method, path, query),
        read_body=functools.partial(_read_body, raw),
        remote=raw.remote or "",
        certificate=connection.certificate,
        user=user,
    )


async def _read_body(raw: web.BaseRequest, limit: int) -> bytes:
    if raw.content_length is not None and raw.content_length > limit:
        raise BodyTooLarge(limit)
    if raw.headers.get("Expect", "").lower() == "100-continue" and raw.transport is not None:
        raw.transport.write(_CONTINUE)
    pieces: list[bytes] = []
    size = 0
    connection = cast(_Connection, raw.protocol)
    if connection.fault is not None and not raw.content.is_eof():
        raise connection.fault
    connection.body = raw.content
    try:
        while piece := await raw.content.readany():
            size += len(piece)
            if size > limit:
                raise BodyTooLarge(limit)
            pieces.append(piece)
    except (web.RequestPayloadError, ConnectionError):  # broken off, or nobody is left to tell
        raise BadRequest("unexpected EOF") from None
    finally:
        connection.body = None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _respond_whole(raw: web.BaseRequest, answer: Response) -> web.StreamResponse:
    """Write an answer to its end, or cut the connection: half of one must not look like one."""
    try:
        return await _respond(raw, answer)
    except ConnectionError:
        return _CLOSE
    except TimeoutError:
        _log.info("%s takes its answer too slowly", raw.remote)
    except Exception:
        _log.exception("%s %s: the answer broke off", raw.method, raw.path)
    if raw.transport is not None:
        raw.transport.abort()
    return _CLOSE


async def _respond(raw: web.BaseRequest, answer: Response) -> web.StreamResponse:
    transport = raw.transport
    if transport is None:
        return _CLOSE
    without_body = raw.method == "HEAD" or answer.status in (204, 304)
    if isinstance(answer.body, bytes):
        head = _head(raw, answer, f"Content-Length: {len(answer.body)}\r\n")
        transport.write(head if without_body else head + answer.body)
        await _taken(raw)
    elif answer.length is not None:
        transport.write(_head(raw, answer, f"Content-Length: {answer.length}\r\n"))
        if not without_body:
            await _write_slices(raw, answer.body)
    elif raw.version >= (1, 1):
        transport.write(_head(raw, answer, "Transfer-Encoding: chunked\r\n"))
        if not without_body:
            await _write_slices(raw, map(_chunk, answer.body))
            transport.write(_LAST_CHUNK)
    else:
        transport.write(_head(raw, answer, ""))
        await _write_slices(raw, answer.body)
        return _CLOSE
    return _KEEP if raw.keep_alive else _CLOSE


def _chunk(piece: bytes) -> bytes:
    # An empty one would end the body: a compressor keeps back what it was given.
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""


async def _write_slices(raw: web.BaseRequest, slices: Iterable[bytes]) -> None:
    for piece in slices:
        if raw.transport is None:
            raise ConnectionResetError
        raw.transport.write(piece)
        # A client that takes all at once never makes drain() wait: let others run all the same.
        await _taken(raw)
        await asyncio.sleep(0)


async def _taken(raw: web.BaseRequest) -> None:
    """Wait until the client has taken most of what was written. Raises TimeoutError."""
    if raw.protocol.writing_paused:
        async with asyncio.timeout(SLOW_CLIENT_SECONDS):
            await raw.writer.drain()


def _head(raw: web.BaseRequest, answer: Response, framing: str) -> bytes:
    close = "" if raw.keep_alive else "Connection: close\r\n"
    return _head_lines(answer.status, answer.media_type, answer.headers, framing + close)


def _stream_head(answer: Stream, *, chunked: bool) -> bytes:
    framing = "Transfer-Encoding: chunked\r\n" if chunked else "Connection: close\r\n"
    return _head_lines(answer.status, answer.media_type, answer.headers, framing)


def _head_lines(status: int, media_type: str, headers: Headers, framing: str) -> bytes:
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
    return (
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\n{lines}"
        f"Content-Type: {media_type}\r\n{_date(int(time.time()))}{framing}\r\n"
    ).encode()


@functools.lru_cache(maxsize=2)
def _date(second: int) -> str:
    return f"Date: {formatdate(second, usegmt=True)}\r\n"


def _certificate(transport: asyncio.BaseTransport | None) -> Certificate | None:
    """The subject of the client's certificate, which TLS has verified against our client CAs."""
    shown = transport.get_extra_info("peercert") if transport is not None else None
    if not shown:
        return None
    parts = [part for relative in shown.get("subject", ()) for part in relative]
    names = [value for key, value in parts if key == "commonName"]
    return Certificate(
        common_name=names[-1] if names else "",
        organizations=tuple(value for key, value in parts if key == "organizationName"),
    )
