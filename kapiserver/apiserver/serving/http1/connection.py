"""One client's connection: reads requests from it, and limits what it holds before a handler runs.

The parser runs ahead of the responses: a head that it completes waits in `_requests` until one task
has responded to the requests before it. So a connection reads and responds at the same time, and
its state is that of its responses:

    state       what happens                                       next state
    handshake   `connection_made`                                  idle
                `fail_handshake`                                   lost
    idle        a head is complete: `_on_head`                     responding
                HEADER_BYTES arrive without a complete head        refusing
                IDLE_SECONDS pass                                  closing
                HEADER_SECONDS pass without a complete head        lost
    responding  "keep alive", and no head waits                    idle
                the handler calls `switch_protocol`                upgraded
                HEADER_BYTES arrive, as above                      refusing
                "linger": a head or a body was malformed           lingering
                "close", or `stop`                                 closing
    refusing    the error is written, after earlier responses      lingering
    upgraded    the handler returns                                closing
    lingering   the client is silent, or sends too long or much    closing
    closing     the transport has written what it holds            lost
    any         `connection_lost`                                  lost

`_task` runs in the states responding, refusing and upgraded. `_receive` takes the bytes in place of
the parser: it drops them in refusing, is the handler's in upgraded and LingeringClose's in
lingering. `transport` is None in handshake and lost. Knows no filter and no handler's response.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, TypeAlias

from kapiserver.apiserver.errors import ServerError
from kapiserver.apiserver.request import Certificate, Request, no_stream, parse_target
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.response import Response
from kapiserver.apiserver.serving.accepted_connection import AcceptedConnection
from kapiserver.apiserver.serving.connection_limits import (
    HEADER_BYTES,
    SMALL_HEADER_BYTES,
    IncompleteHeaders,
)
from kapiserver.apiserver.serving.http1.errors import HEADERS_TOO_LARGE, HttpError, PlainTextError
from kapiserver.apiserver.serving.http1.lingering_close import (
    LINGER_BYTES,
    LINGER_SECONDS,
    LingeringClose,
)
from kapiserver.apiserver.serving.http1.request_body import EMPTY_BODY, RequestBody
from kapiserver.apiserver.serving.http1.request_parser import RequestHead, RequestParser
from kapiserver.apiserver.serving.http1.response_head import (
    CLOSE_HEADER,
    CONTINUE,
    plain_text_response,
    response_head,
)
from kapiserver.apiserver.serving.http1.stream_sink import StreamSink
from kapiserver.apiserver.user import ANONYMOUS, User
from kapiserver.storage.cache.query import WatchSink

HEADER_SECONDS = 32.0
"""Limit of reading the headers of a request; ReadHeaderTimeout of kube-apiserver."""
IDLE_SECONDS = 90.0
"""An idle connection is closed after this time, as by kube-apiserver."""
MAX_WAITING = 32
"""How many requests wait for the previous one. The bytes of later requests stay unparsed."""
PARSE_BYTES = 16 << 10
"""Bytes parsed at once, which limits the requests that they may hold."""

_log = logging.getLogger(__name__)


class ConnectionOwner(Protocol):
    """The part of the listener that a connection uses."""

    @property
    def incomplete_headers(self) -> IncompleteHeaders:
        """The bytes of incomplete headers of all connections."""

    def handle(self, connection: Connection, head: RequestHead) -> Awaitable[None]:
        """Respond to a request, and clear `head.keep_alive` if the connection ends."""

    def error_response(self, request: Request, error: ServerError) -> Response:
        """Return the error response for a request that never reaches a handler."""

    def connection_made(self, connection: Connection) -> None:
        """A connection is ready."""

    def connection_lost(self, connection: Connection) -> None:
        """A connection was closed."""


def _drop(_data: bytes) -> None:
    pass


_End: TypeAlias = Literal["keep alive", "close", "linger"]
"""What becomes of a connection after a response. It lingers if the client may still be sending."""


class Connection(AcceptedConnection):
    """One client's connection.

    stream          the stream that the running request has opened
    is_writing_paused   whether the client has much of the responses still to read
    on_lost         called when the connection is lost; None if nothing waits for that
    has_gone        reports whether the client has closed the connection; it holds no reference to
                    the connection, because tasks and timers that a request starts keep it for long
    """

    __slots__ = (
        "__weakref__",
        "_abort_timer",
        "_body_bytes",
        "_has_new_head",
        "_idle_since",
        "_idle_timer",
        "_is_reading_paused",
        "_loop",
        "_owner",
        "_parser",
        "_receive",
        "_requests",
        "_task",
        "_unhandled_bytes",
        "_unparsed",
        "_writable",
        "body",
        "has_gone",
        "is_writing_paused",
        "on_lost",
        "stream",
    )

    def __init__(self, owner: ConnectionOwner) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._owner = owner
        self._parser = RequestParser(self, self._on_head)
        self._receive: Callable[[bytes], None] | None = None
        self.stream: StreamSink | None = None
        self.body: RequestBody = EMPTY_BODY
        """The body of the request that a handler processes now."""
        self.has_gone = functools.partial(_has_gone, weakref.ref(self))
        self.on_lost: Callable[[], object] | None = None
        self.is_writing_paused = False
        self._writable = asyncio.Event()
        self._requests: deque[RequestHead] = deque()
        self._task: asyncio.Task[None] | None = None
        """Responds to requests; None while there are none."""
        self._has_new_head = False
        """Whether the bytes received last have completed the head of a request."""
        self._unparsed = b""
        self._is_reading_paused = False
        self._abort_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_since = 0.0
        self._body_bytes = 0
        self._unhandled_bytes = 0

    @property
    def awaits_head(self) -> bool:
        return self._abort_timer is not None

    def abort_later(self, seconds: float) -> None:
        """Close the connection after this many seconds, if it is not closed by then."""
        self._cancel_abort_timer()
        self._abort_timer = self._loop.call_later(seconds, self.abort)

    def close(self) -> None:
        """Close the connection when the responses are written."""
        self._parser.close()
        self._requests.clear()  # ends the loop of `_respond`
        if self.transport is not None:
            self.transport.close()

    def _linger(self) -> None:
        """Close the connection when the client sends nothing more."""
        self._parser.close()
        self._requests.clear()
        self._unparsed = b""
        self._owner.incomplete_headers.set(self, 0)
        if self.transport is not None:
            self._receive = LingeringClose(self.transport).receive
            # After `_unparsed` is empty: `resume_reading` does nothing while bytes wait.
            self.resume_reading()

    def shut_down(self) -> None:
        """Do nothing: the next response says that the connection closes."""

    def stop(self) -> None:
        """Cancel the running request, and close the connection."""
        if self._task is not None:
            self._task.cancel()
        self.close()

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is ready, after its TLS handshake."""
        self.take_transport(transport)
        self._owner.connection_made(self)
        self.abort_later(HEADER_SECONDS)
        self._idle_since = self._loop.time()
        self._idle_timer = self._loop.call_later(IDLE_SECONDS, self._close_if_idle)

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection was closed: end what waits for the client."""
        # First, because what is woken below looks at the transport to learn that it is gone.
        self.transport = self._receive = None
        self._parser.release()
        self._requests.clear()
        self._unparsed = b""
        self._cancel_abort_timer()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if not self.body.is_complete:
            self.body.fail("unexpected EOF")
        if self.stream is not None:
            self.stream.close()
        if self.on_lost is not None:
            self.on_lost()
        self.resume_writing()  # wakes `wait_writable`, which raises
        self.on_authenticated()
        self._owner.incomplete_headers.set(self, 0)
        self._owner.connection_lost(self)

    def pause_writing(self) -> None:
        """The client has much to read."""
        self.is_writing_paused = True
        self._writable.clear()

    def resume_writing(self) -> None:
        """The client has read most of it, or is gone."""
        self.is_writing_paused = False
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Parse bytes from the client, and respond to the requests in them."""
        if self._receive is not None:
            self._receive(data)
            return
        if self._unparsed:  # a transport may deliver bytes that it had read before the pause
            self._unparsed += data
            return
        # The body before the parse: the bytes may end it and begin the next head.
        body, self._has_new_head = self._parser.body, False
        was_in_body = not body.is_complete
        self._parse(data)
        self._unhandled_bytes += len(data)
        if was_in_body:
            if body.received > self._body_bytes:
                self._body_bytes = body.received
                self._unhandled_bytes = 0
                self._owner.incomplete_headers.set(self, 0)
        elif not self._has_new_head and self._abort_timer is None:
            self.abort_later(HEADER_SECONDS)
        if self._unhandled_bytes > SMALL_HEADER_BYTES:
            self._limit_headers()

    def call_when_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` when the connection is lost during the running request, or now if it is
        lost already."""
        self.on_lost = callback
        if self.transport is None:
            callback()

    # Reading.

    def _parse(self, data: bytes) -> None:
        for start in range(0, len(data), PARSE_BYTES):
            # Before each piece, because a parser cannot stop within one.
            if len(self._requests) >= MAX_WAITING:
                self._unparsed = data[start:]
                self.pause_reading()
                return
            self._parser.feed(data[start : start + PARSE_BYTES])

    def _on_head(self, head: RequestHead) -> None:
        self._has_new_head = True
        self._cancel_abort_timer()
        self._requests.append(head)
        if self._task is None:  # else the running task takes the head in its turn
            self._task = self._loop.create_task(self._respond())

    def pause_reading(self) -> None:
        """Stop reading from the client."""
        if self.transport is not None and not self._is_reading_paused:
            self._is_reading_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the client again, unless bytes wait for earlier requests."""
        if self.transport is not None and self._is_reading_paused and not self._unparsed:
            self._is_reading_paused = False
            self.transport.resume_reading()

    def switch_protocol(self, receive: Callable[[bytes], None]) -> None:
        """Stop parsing requests, and pass all further bytes of the client to `receive`."""
        self._receive = receive

    def send_continue(self) -> None:
        """Send "100 Continue"."""
        if self.transport is not None:
            self.transport.write(CONTINUE)

    def _limit_headers(self) -> None:
        # Also counts trailers, chunk extensions and the headers of pipelined requests.
        if self._unhandled_bytes <= HEADER_BYTES:
            self._owner.incomplete_headers.set(self, self._unhandled_bytes)
            return
        self._owner.incomplete_headers.set(self, 0)
        self._receive = _drop  # before the error is queued, so that no later head follows it
        self._parser.close()
        body = self._parser.body
        if body.is_complete:
            self._on_head(RequestHead(error=HEADERS_TOO_LARGE))
        else:
            body.fail(HEADERS_TOO_LARGE.line)

    def _cancel_abort_timer(self) -> None:
        if self._abort_timer is not None:
            self._abort_timer.cancel()
            self._abort_timer = None

    def _close_if_idle(self) -> None:
        now = self._loop.time()
        idle_since = self._idle_since if self._task is None else now
        if now - idle_since >= IDLE_SECONDS:
            self.close()
        else:
            self._idle_timer = self._loop.call_at(idle_since + IDLE_SECONDS, self._close_if_idle)

    # Responding.

    async def _respond(self) -> None:
        """Respond to the waiting requests, and to requests that arrive during that."""
        try:
            while self._requests:
                end = await self._respond_to(self._requests.popleft())
                # Both empty `_requests`: a request behind a response that ends the connection is
                # not processed, and the client learns that from the close.
                if end == "close":
                    self.close()
                elif end == "linger":
                    self._linger()
        except Exception:
            _log.exception("the connection of client %s failed", self.remote)
            self.abort()
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            # No await lies between the last look at `_requests` and this line, so that no head is
            # left without a task.
            self._task = None
            self._idle_since = self._loop.time()

    async def _respond_to(self, head: RequestHead) -> _End:
        """Respond to one request; return what becomes of the connection."""
        self._parse_more()  # first, so that the client sends on while this request runs
        if self._unhandled_bytes > SMALL_HEADER_BYTES:
            self._owner.incomplete_headers.set(self, 0)
        self._unhandled_bytes = self._body_bytes = 0
        if head.error is not None:
            self._refuse(head.error)
            return "linger"
        body = self.body = head.body
        try:
            await self._owner.handle(self, head)
        finally:
            self.body = EMPTY_BODY
            self.on_lost = self.stream = None
        keep_alive = head.keep_alive
        # The rest of the body lies before the next head.
        if body is not EMPTY_BODY:
            if not body.is_complete and self.transport is not None:
                await self._drop_rest(body)
            self.resume_reading()  # paused by a body that was complete before a handler read it
            if body.is_broken:
                return "linger"
            keep_alive = keep_alive and body.is_complete
        return "keep alive" if keep_alive else "close"

    def _parse_more(self) -> None:
        """Parse bytes that had to wait for earlier requests."""
        if self._unparsed and len(self._requests) <= MAX_WAITING // 2:
            data, self._unparsed = self._unparsed, b""
            self._parse(data)  # may set `_unparsed` again, which keeps reading paused
            self.resume_reading()

    async def _drop_rest(self, body: RequestBody) -> None:
        """Drop the rest of a body, within limits."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await body.discard(LINGER_BYTES)

    async def wait_writable(self) -> None:
        """Return when the client has read most of the responses. Raises ConnectionResetError."""
        if self.is_writing_paused:
            await self._writable.wait()
        if self.transport is None:
            raise ConnectionResetError

    def _refuse(self, error: HttpError) -> None:
        """Write the response for a request that reaches no handler, as Go's HTTP server does."""
        if self.transport is None:
            return
        if isinstance(error, PlainTextError):
            self.transport.write(plain_text_response(error))
            return
        response = self._owner.error_response(request_from(RequestHead(), self, ANONYMOUS), error)
        body = response.body
        assert isinstance(body, bytes), "the response to an error is a Status"
        framing = f"Content-Length: {len(body)}\r\n{CLOSE_HEADER}"
        self.transport.write(response_head(response, framing) + body)


class RequestClient(Protocol):
    """The client of a request: its connection, or its stream of a connection.

    remote      the address
    certificate the TLS certificate, or None
    tls_host    the host of the TLS handshake, or ""
    has_gone    reports whether the client has gone
    """

    @property
    def remote(self) -> str: ...

    @property
    def certificate(self) -> Certificate | None: ...

    @property
    def tls_host(self) -> str: ...

    @property
    def has_gone(self) -> Callable[[], bool]: ...

    @property
    def on_authenticated(self) -> Callable[[], None]:
        """Called when the request has authenticated."""

    def call_when_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` when the client goes during the request."""


def request_from(
    head: RequestHead,
    client: RequestClient,
    user: User,
    open_sink: Callable[[], WatchSink] = no_stream,
) -> Request:
    """Return a request as filters and handlers see it."""
    target = parse_target(head.target)
    return Request(
        method=head.method,
        path=target.path,
        query=target.query,
        headers=head.headers,
        info=parse_request_info(head.method, target.path, target.query),
        read_body=head.body.read,
        stream_body=head.body.pieces,
        remote=client.remote,
        uri=head.target,
        certificate=client.certificate,
        tls_host=client.tls_host,
        open_sink=open_sink,
        has_gone=client.has_gone,
        on_gone=client.call_when_lost,
        on_authenticated=client.on_authenticated,
        user=user,
    )


def _has_gone(reference: weakref.ref[Connection]) -> bool:
    connection = reference()
    return connection is None or connection.transport is None
