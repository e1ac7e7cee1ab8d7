"""Exchanges over HTTP/2: a stream of a connection is an Exchange.

The body of a request is acknowledged as its handler takes it, so that a client sends no more than
UNREAD_BYTES ahead. A response waits in its stream for the windows of the client; a watch waits in
its sink, behind at most PIECE_BYTES in the stream. Knows no frame and no Kubernetes.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import weakref
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from kapiserver.apiserver.request import Certificate, Outcome, Request
from kapiserver.apiserver.response import AnyResponse, Response, StreamResponse
from kapiserver.apiserver.serving.http1 import exchange as http_exchange
from kapiserver.apiserver.serving.http1.connection import request_from
from kapiserver.apiserver.serving.http1.errors import expects_continue
from kapiserver.apiserver.serving.http1.exchange import (
    WRITE_BYTES,
    is_closed_within,
    parts_of,
)
from kapiserver.apiserver.serving.http1.request_body import EMPTY_BODY, RequestBody
from kapiserver.apiserver.serving.http1.request_parser import RequestHead
from kapiserver.apiserver.serving.http1.stream_sink import StreamSink
from kapiserver.apiserver.serving.http2.events import Requested
from kapiserver.apiserver.serving.http2.protocol import ServerProtocol
from kapiserver.apiserver.serving.http2.response_fields import encode_head
from kapiserver.apiserver.user import User
from kapiserver.codecs.http2.frames import CANCEL, INTERNAL_ERROR

_log = logging.getLogger(__name__)


class ExchangeConnection(Protocol):
    """The part of the connection that an exchange uses."""

    @property
    def protocol(self) -> ServerProtocol:
        """The frames of the connection."""

    @property
    def remote(self) -> str:
        """The client's address."""

    @property
    def certificate(self) -> Certificate | None:
        """The client's certificate."""

    @property
    def tls_host(self) -> str:
        """The host of the client's TLS handshake."""

    @property
    def is_writing_paused(self) -> bool:
        """Whether the client has much of the responses still to read."""

    def on_authenticated(self) -> None:
        """A request has authenticated."""

    async def wait_writable(self) -> None:
        """Return when the client has read most of the responses. Raises ConnectionResetError."""

    def flush_soon(self) -> None:
        """Write what the protocol has to send in this turn of the event loop."""

    def flush(self) -> None:
        """Write what the protocol has to send, now if the connection has no other request."""


class Http2Exchange:
    """One request of a connection, and the way to its response. An Exchange.

    It is also the source of the request's body (BodySource), and what its sink writes to.

    body        the body of the request
    task        the task that responds
    has_gone    reports whether the client has closed the stream; as that of `connection.py`, it
                holds no reference to the exchange
    """

    __slots__ = (
        "__weakref__",
        "_connection",
        "_drained",
        "_head",
        "_is_lost",
        "_is_reading",
        "_on_gone",
        "_sink",
        "_stream",
        "_unacknowledged",
        "body",
        "has_gone",
        "task",
    )

    task: asyncio.Task[None]

    def __init__(self, connection: ExchangeConnection, requested: Requested) -> None:
        request = requested.request
        self._connection = connection
        self._stream = requested.stream
        self._drained: asyncio.Event | None = None
        self._is_lost = False
        self._is_reading = False
        self._unacknowledged = 0
        self._on_gone: Callable[[], object] | None = None
        self._sink: StreamSink | None = None
        self.has_gone = functools.partial(_has_gone, weakref.ref(self))
        self.body = EMPTY_BODY
        if requested.has_body:
            continues = expects_continue(request.headers)
            self.body = RequestBody(self, length=request.length, expects_continue=continues)
        self._head = RequestHead(
            request.method, request.target, headers=request.headers, body=self.body
        )

    # What a request needs of its client.

    @property
    def remote(self) -> str:
        """The client's address."""
        return self._connection.remote

    @property
    def certificate(self) -> Certificate | None:
        """The client's certificate."""
        return self._connection.certificate

    @property
    def tls_host(self) -> str:
        """The host of the client's TLS handshake."""
        return self._connection.tls_host

    @property
    def on_authenticated(self) -> Callable[[], None]:
        """Called when the request has authenticated."""
        return self._connection.on_authenticated

    def call_when_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` when the client resets the stream or the connection is lost, or now if
        that has happened."""
        self._on_gone = callback
        if self._is_lost:
            callback()

    def make_request(self, user: User) -> Request:
        """Return the request as filters and handlers see it."""
        return request_from(self._head, self, user, self._open_sink)

    def _open_sink(self) -> StreamSink:
        if self._is_lost:
            raise ConnectionResetError
        self._sink = StreamSink(self, self.wait_writable, chunked=False)
        return self._sink

    # What the connection reports.

    def receive(self, data: bytes) -> None:
        """Take a piece of the request's body."""
        self._unacknowledged += len(data)
        self.body.add(data)
        if self._is_reading:
            self.resume_reading()

    def lose(self) -> None:
        """The client has reset the stream, or the connection is lost: end what waits for it."""
        self._is_lost = True
        self.fail_body()
        self.close_stream()
        if self._drained is not None:
            self._drained.set()
        if self._on_gone is not None:
            self._on_gone()

    def end(self) -> None:
        """The response is written: break the cycles of references."""
        self.fail_body()
        self._head.body = self.body = EMPTY_BODY
        self._sink = self._on_gone = None
        self._stream.on_drained = None

    def fail_body(self) -> None:
        """The rest of the body does not arrive."""
        if not self.body.is_complete:
            self.body.fail("unexpected EOF")

    # The source of the body.

    def pause_reading(self) -> None:
        """Acknowledge nothing more, so that the client stops sending."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Acknowledge what has arrived, and what arrives from now on."""
        self._is_reading = True
        if self._unacknowledged:
            size, self._unacknowledged = self._unacknowledged, 0
            self._connection.protocol.acknowledge(self._stream, size)
            self._connection.flush_soon()

    def send_continue(self) -> None:
        """Send "100 Continue"."""
        self._connection.protocol.send_continue(self._stream)
        self._connection.flush_soon()

    # What a sink writes to.

    def write(self, data: bytes) -> None:
        """Send bytes of the response, as the client lets."""
        self._send(data=data)

    def get_write_buffer_size(self) -> int:
        """Return the bytes of the response that wait."""
        return self._stream.unsent

    def is_closing(self) -> bool:
        """Report whether nothing more can be sent."""
        return self._is_lost or self._stream.is_closed

    async def wait_writable(self) -> None:
        """Return when all bytes are on their way. Raises ConnectionResetError."""
        if self._stream.unsent:
            self._drained = asyncio.Event()
            self._stream.on_drained = self._drained.set
            await self._drained.wait()
        if self._is_lost:
            raise ConnectionResetError

    # The response.

    async def respond(self, response: AnyResponse, *, is_last: bool) -> Outcome:
        """Write a response, and return how it ended. GOAWAY says what `is_last` says."""
        bytes_sent = 0
        try:
            if isinstance(response, Response):
                bytes_sent = await self._write_response(response)
            elif isinstance(response, StreamResponse):
                await self._write_stream(response)
            else:  # no request asks for one: its headers are refused
                response.peer.abort()
                self.abort()
        except ConnectionError:
            pass
        except TimeoutError:
            _log.info("client %s reads its response too slowly; stream aborted", self.remote)
            self.abort()
        except Exception:
            method, target = self._head.method, self._head.target
            _log.exception("%s %s: writing the response failed", method, target)
            self.abort()
        if self._sink is not None:
            bytes_sent = self._sink.bytes_sent
        finished = not self._is_lost
        return Outcome(status=response.status, bytes_sent=bytes_sent, finished=finished)

    def close_stream(self) -> None:
        """End the stream that the request has opened, if it has."""
        if self._sink is not None:
            self._sink.close()

    def abort(self) -> None:
        """Reset the stream, so that the client sees the failure."""
        self._reset(INTERNAL_ERROR)

    def cancel(self) -> None:
        """Reset the stream: the server shuts down."""
        self._reset(CANCEL)

    def _reset(self, code: int) -> None:
        self._connection.protocol.reset(self._stream, code)
        self._connection.flush_soon()
        self._is_lost = True

    async def _write_response(self, response: Response) -> int:
        """Write a body; return its bytes. Raises ConnectionError and TimeoutError."""
        body, status = response.body, response.status
        length = len(body) if isinstance(body, bytes) else response.length
        head = encode_head(response, length)
        if self._connection.is_writing_paused:
            await _within_limit(self._wait_for_connection())
        if self._head.method == "HEAD" or status in (204, 304):
            self._send(head=head, is_last=True)
            return 0
        if isinstance(body, bytes) and len(body) <= WRITE_BYTES:
            is_sent_at_once = self._connection.protocol.can_send(self._stream, len(body))
            self._send(head=head, data=body, is_last=True)
            if not is_sent_at_once:
                await _within_limit(self.wait_writable())
            return len(body)
        self._send(head=head)
        bytes_sent = 0
        async for part in parts_of(body):
            self._send(data=part)
            bytes_sent += len(part)
            await _within_limit(self.wait_writable())
        self._send(is_last=True)
        return bytes_sent

    async def _write_stream(self, response: StreamResponse) -> None:
        """Send the head of a stream and wait until it ends. Raises ConnectionError and
        TimeoutError."""
        sink = cast(StreamSink, response.sink)
        self._send(head=encode_head(response))
        sink.start(b"")
        if not await is_closed_within(sink.closed, response.timeout):
            response.on_timeout()
        sink.close()
        if sink.backlog() and not self._is_lost:
            await _within_limit(self._flush(sink))
        await response.before_end()
        self._send(is_last=True)

    async def _flush(self, sink: StreamSink) -> None:
        """Return when everything in a sink is on its way. Raises ConnectionResetError."""
        await sink.flush()
        await self.wait_writable()

    async def _wait_for_connection(self) -> None:
        """Return when the client has read most of the responses of its connection."""
        await self._connection.wait_writable()
        if self._is_lost:
            raise ConnectionResetError

    def _send(self, *, head: bytes = b"", data: bytes = b"", is_last: bool = False) -> None:
        """Send parts of the response. Raises ConnectionResetError."""
        if self._is_lost:
            raise ConnectionResetError
        connection = self._connection
        connection.protocol.send(self._stream, head=head, data=data, is_last=is_last)
        if is_last:
            connection.flush()
        else:
            connection.flush_soon()


async def _within_limit(work: Awaitable[None]) -> None:
    """Wait for the client. Raises TimeoutError if it reads nothing for too long."""
    async with asyncio.timeout(http_exchange.SLOW_CLIENT_SECONDS):
        await work


def _has_gone(reference: weakref.ref[Http2Exchange]) -> bool:
    exchange = reference()
    return exchange is None or exchange.is_closing()
