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
from typing import Any, TypeAlias, cast

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter

from kapiserver.apiserver.authentication.user import ANONYMOUS, User
from kapiserver.apiserver.context import Handler
from kapiserver.apiserver.errors import BadRequest, BodyTooLarge, ServerError
from kapiserver.apiserver.faults import DropConnection
from kapiserver.apiserver.request import Certificate, Outcome, Request, parse_query, unquote_path
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.response import Headers, Response, StreamResponse
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
    """The client's end of a stream: writes whole frames as chunks, without waiting.

    A handler opens it inside the filter chain; frames are held back until `start` sends the head,
    which needs the headers that outer filters add.
    """

    __slots__ = ("_chunked", "_held", "_started", "_transport", "_writer", "done", "sent")

    def __init__(
        self, transport: asyncio.WriteTransport, writer: AbstractStreamWriter, *, chunked: bool
    ) -> None:
        self._transport = transport
        self._writer = writer
        self._chunked = chunked
        self._held: list[bytes] | None = []
        loop = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = loop.create_future()
        self.done: asyncio.Future[None] = loop.create_future()
        self.sent = 0
        """Bytes of frames."""

    def write(self, frames: bytes) -> None:
        """Write one or more whole frames of the stream."""
        if self.done.done():
            return
        self.sent += len(frames)
        if self._chunked:
            frames = b"%x\r\n%b\r\n" % (len(frames), frames)
        if self._held is not None:
            self._held.append(frames)
        else:
            self._transport.write(frames)

    def start(self, head: bytes) -> None:
        """Send the head and the frames held back: also of a stream that has ended already."""
        held = self._held or ()
        self._held = None
        if not self._transport.is_closing():
            self._transport.write(b"".join((head, *held)))
        if not self._started.done():
            self._started.set_result(None)

    def backlog(self) -> int:
        """Return the bytes that the client's connection has not taken yet."""
        return sum(map(len, self._held or ())) + self._transport.get_write_buffer_size()

    async def drained(self) -> None:
        """Return when the client has taken most of the backlog, or has gone."""
        await self._started
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    def close(self) -> None:
        """Write nothing more."""
        if not self.done.done():
            self.done.set_result(None)


AnswerError: TypeAlias = Callable[[Request, Exception], Response]
"""Turns an error into the response of a request that no handler was called for."""


class Listener(web.Server):
    """Serves `handle` on every connection that a socket accepts; `user` is who asks before
    authentication knows better."""

    def __init__(
        self,
        handle: Handler,
        answer_error: AnswerError,
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
        request.open_sink = functools.partial(self._open_sink, raw, connection)
        outcome = Outcome(status=0, sent=0, finished=False)
        try:
            response = await self._handle(request)
            if isinstance(response, StreamResponse):
                outcome, reply = await self._stream(raw, response)
            else:
                outcome, reply = await _respond_whole(raw, response)
        except DropConnection:
            if raw.transport is not None:
                raw.transport.abort()
            return _CLOSE
        finally:
            if connection.stream is not None:
                self._close_sink(connection, connection.stream)
            request.complete(outcome)
        if raw.content.exception() is not None:  # bytes after a broken body are no request
            connection.force_close()
        return reply

    def _open_sink(self, raw: web.BaseRequest, connection: _Connection) -> StreamSink:
        if raw.transport is None:
            raise ConnectionResetError
        sink = StreamSink(raw.transport, raw.writer, chunked=raw.version >= (1, 1))
        connection.stream = sink
        self._streams.add(sink)
        return sink

    def _close_sink(self, connection: _Connection, sink: StreamSink) -> None:
        sink.close()
        self._streams.discard(sink)
        connection.stream = None

    async def _stream(
        self, raw: web.BaseRequest, response: StreamResponse
    ) -> tuple[Outcome, web.StreamResponse]:
        sink = cast(StreamSink, response.sink)
        chunked = raw.version >= (1, 1)
        sink.start(_stream_head(response, chunked=chunked))
        if self._draining:
            sink.close()
        await _ended(sink, response.timeout)
        sink.close()
        finished = raw.transport is not None
        outcome = Outcome(status=response.status, sent=sink.sent, finished=finished)
        if raw.transport is None or not chunked:
            return outcome, _CLOSE
        slow = raw.transport.get_write_buffer_size() > 0
        raw.transport.write(_LAST_CHUNK)
        return outcome, _CLOSE if slow or not raw.keep_alive else _KEEP


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


async def _respond_whole(
    raw: web.BaseRequest, response: Response
) -> tuple[Outcome, web.StreamResponse]:
    """Write a response to its end, or cut the connection: half of one must not look whole."""
    try:
        return await _respond(raw, response)
    except ConnectionError:
        return _unfinished(response), _CLOSE
    except TimeoutError:
        _log.info("%s reads its response too slowly", raw.remote)
    except Exception:
        _log.exception("%s %s: the response broke off", raw.method, raw.path)
    if raw.transport is not None:
        raw.transport.abort()
    return _unfinished(response), _CLOSE


def _unfinished(response: Response) -> Outcome:
    return Outcome(status=response.status, sent=0, finished=False)


async def _respond(raw: web.BaseRequest, response: Response) -> tuple[Outcome, web.StreamResponse]:
    transport = raw.transport
    if transport is None:
        return _unfinished(response), _CLOSE
    without_body = raw.method == "HEAD" or response.status in (204, 304)
    reply = _KEEP if raw.keep_alive else _CLOSE
    sent = 0
    if isinstance(response.body, bytes):
        head = _head(raw, response, f"Content-Length: {len(response.body)}\r\n")
        transport.write(head if without_body else head + response.body)
        sent = 0 if without_body else len(response.body)
        await _taken(raw)
    elif response.length is not None:
        transport.write(_head(raw, response, f"Content-Length: {response.length}\r\n"))
        if not without_body:
            sent = await _write_slices(raw, response.body)
    elif raw.version >= (1, 1):
        transport.write(_head(raw, response, "Transfer-Encoding: chunked\r\n"))
        if not without_body:
            sent = await _write_slices(raw, map(_chunk, response.body))
            transport.write(_LAST_CHUNK)
    else:
        transport.write(_head(raw, response, ""))
        sent = await _write_slices(raw, response.body)
        reply = _CLOSE
    return Outcome(status=response.status, sent=sent, finished=True), reply


def _chunk(piece: bytes) -> bytes:
    # An empty one would end the body: a compressor keeps back what it was given.
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""


async def _write_slices(raw: web.BaseRequest, slices: Iterable[bytes]) -> int:
    """Write slices as the client takes them; return their bytes. Raises TimeoutError."""
    sent = 0
    for piece in slices:
        if raw.transport is None:
            raise ConnectionResetError
        raw.transport.write(piece)
        sent += len(piece)
        # A client that takes all at once never makes drain() wait: let others run all the same.
        await _taken(raw)
        await asyncio.sleep(0)
    return sent


async def _taken(raw: web.BaseRequest) -> None:
    """Wait until the client has taken most of what was written. Raises TimeoutError."""
    if raw.protocol.writing_paused:
        async with asyncio.timeout(SLOW_CLIENT_SECONDS):
            await raw.writer.drain()


def _head(raw: web.BaseRequest, answer: Response, framing: str) -> bytes:
    close = "" if raw.keep_alive else "Connection: close\r\n"
    return _head_lines(answer.status, answer.media_type, answer.headers, framing + close)


def _stream_head(answer: StreamResponse, *, chunked: bool) -> bytes:
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
