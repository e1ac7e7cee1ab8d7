"""One client's connection: reads requests from it, and limits what it holds before a handler runs.

Knows no filter, and only the responses to requests that reach no handler.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol, cast

from aiohttp import StreamReader, web

from kapiserver.apiserver.authentication.user import ANONYMOUS, User
from kapiserver.apiserver.errors import BadRequest, BodyTooLarge, ServerError
from kapiserver.apiserver.request import Certificate, Request, parse_query, unquote_path
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.response import Response
from kapiserver.apiserver.serving.connection_limits import (
    HEADER_BYTES,
    SMALL_HEADER_BYTES,
    IncompleteHeaders,
)
from kapiserver.apiserver.serving.http_errors import (
    HEADERS_TOO_LARGE,
    HttpError,
    PlainTextError,
    error_for,
    expects_continue,
)
from kapiserver.apiserver.serving.response_head import (
    CLOSE_HEADER,
    CONTINUE,
    REASONS,
    plain_text_response,
    response_head,
)
from kapiserver.apiserver.serving.stream_sink import StreamSink

HEADER_SECONDS = 32.0
"""Limit of reading the headers of a request; ReadHeaderTimeout of kube-apiserver."""


class Written:
    """The response object that aiohttp expects of a handler; the response is already written."""

    __slots__ = ("keep_alive",)

    def __init__(self, *, keep_alive: bool) -> None:
        self.keep_alive = keep_alive

    async def prepare(self, request: web.BaseRequest) -> None:
        pass

    async def write_eof(self) -> None:
        pass


KEEP_ALIVE = cast(web.StreamResponse, Written(keep_alive=True))
CLOSE = cast(web.StreamResponse, Written(keep_alive=False))


class ConnectionOwner(Protocol):
    """The part of the listener that a connection uses."""

    @property
    def incomplete_headers(self) -> IncompleteHeaders:
        """The bytes of incomplete headers of all connections."""

    @property
    def draining(self) -> bool:
        """Whether every response closes its connection."""

    def error_response(self, request: Request, error: ServerError) -> Response:
        """Return the error response for a request that never reaches a handler."""


class Connection(web.RequestHandler):
    """One client's connection."""

    __slots__ = (
        "__weakref__",
        "_abort_handshake",
        "_abort_timer",
        "_body_bytes",
        "_certificate",
        "_discard",
        "_payload",
        "_unhandled_bytes",
        "body",
        "listener",
        "stream",
    )

    def __init__(self, listener: web.Server, **kwargs: Any) -> None:
        super().__init__(listener, **kwargs)
        self.listener = cast(ConnectionOwner, listener)
        self.stream: StreamSink | None = None
        self.body: StreamReader | None = None
        """The request body that is being read, if any."""
        self._certificate: Certificate | bool | None = True
        self._abort_handshake: Callable[[], object] | None = None
        self._discard: Callable[[], None] | None = None
        self._abort_timer: asyncio.TimerHandle | None = None
        self._payload: StreamReader | None = None
        self._body_bytes = 0
        self._unhandled_bytes = 0

    @property
    def certificate(self) -> Certificate | None:
        """The client's certificate, read once per connection."""
        if self._certificate is True:
            self._certificate = _certificate(self.transport)
        return cast("Certificate | None", self._certificate)

    # Limits before authentication.

    def begin_handshake(self, abort: Callable[[], object], discard: Callable[[], None]) -> None:
        """Set how to abort the connection before its transport exists, and what to call when it
        authenticates or is lost."""
        self._abort_handshake = abort
        self._discard = discard

    def fail_handshake(self) -> None:
        """The connection was lost before its transport existed."""
        self._abort_handshake = None
        self.on_authenticated()

    def on_authenticated(self) -> None:
        """A request has authenticated: the connection no longer counts as unauthenticated."""
        discard, self._discard = self._discard, None
        if discard is not None:
            discard()

    def abort(self) -> None:
        """Close the connection at once."""
        if self.transport is not None:
            self.transport.abort()
        elif self._abort_handshake is not None:
            self._abort_handshake()

    def abort_later(self, seconds: float) -> None:
        """Close the connection after so many seconds, if it is not closed by then."""
        self._cancel_abort_timer()
        self._abort_timer = self._loop.call_later(seconds, self.abort)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._abort_handshake = None
        super().connection_made(transport)
        self.abort_later(HEADER_SECONDS)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.on_authenticated()
        self._cancel_abort_timer()
        self.listener.incomplete_headers.set(self, 0)
        if self.stream is not None:
            self.stream.close()

    def data_received(self, data: bytes) -> None:
        requests_before = self._request_count
        is_body = self._payload is not None and not self._payload.is_eof()
        super().data_received(data)
        body = self.body
        if body is not None and not body.is_eof() and self.body_error is not None:
            # aiohttp queues the error as if it were the next request; without this, the reader of
            # the body would wait forever.
            body.set_exception(self.body_error)
        self._unhandled_bytes += len(data)
        if self._request_count > requests_before:
            self._payload = self._messages[-1][1]
            self._cancel_abort_timer()
        elif self._payload is not None and is_body:
            if self._payload.total_bytes > self._body_bytes:
                self._unhandled_bytes = 0
            self._body_bytes = self._payload.total_bytes
        elif data and self._abort_timer is None:
            self.abort_later(HEADER_SECONDS)
        if self._unhandled_bytes > SMALL_HEADER_BYTES:
            self._limit_headers()

    def on_request(self) -> None:
        """A handler has taken the next request."""
        if self._unhandled_bytes > SMALL_HEADER_BYTES:
            self.listener.incomplete_headers.set(self, 0)
        self._unhandled_bytes = self._body_bytes = 0

    def _limit_headers(self) -> None:
        # Also counts trailers, chunk extensions and the headers of pipelined requests.
        if self._unhandled_bytes <= HEADER_BYTES:
            self.listener.incomplete_headers.set(self, self._unhandled_bytes)
            return
        self.listener.incomplete_headers.set(self, 0)
        if self.transport is not None and self._current_request is None:
            self.transport.write(plain_text_response(HEADERS_TOO_LARGE))
            self.force_close()
        else:
            self.abort()

    def _cancel_abort_timer(self) -> None:
        if self._abort_timer is not None:
            self._abort_timer.cancel()
            self._abort_timer = None

    @property
    def body_error(self) -> ServerError | None:
        """The error of the body that is being read, or None."""
        message = getattr(self._messages[-1][0], "message", None) if self._messages else None
        body_error = None if message is None else error_for(message)
        return body_error if isinstance(body_error, ServerError) else None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Write the response for bytes that aiohttp cannot parse, as Go's HTTP server does."""
        is_bad_request = status == HTTPStatus.BAD_REQUEST
        line = f"{status} {REASONS[status]}"
        return self.refuse(
            request, error_for(message or "") if is_bad_request else PlainTextError(line)
        )

    def refuse(self, request: web.BaseRequest, error: HttpError) -> web.StreamResponse:
        """Write the response for a request that reaches no handler, and close the connection."""
        transport = request.transport
        if transport is None:
            return CLOSE
        if isinstance(error, PlainTextError):
            transport.write(plain_text_response(error))
        else:
            response = self.listener.error_response(request_from(request, self, ANONYMOUS), error)
            body = response.body
            assert isinstance(body, bytes), "the response to an error is a Status"
            framing = f"Content-Length: {len(body)}\r\n{CLOSE_HEADER}"
            head = response_head(response.status, response.media_type, response.headers, framing)
            transport.write(head + body)
        return CLOSE


def request_from(raw: web.BaseRequest, connection: Connection, user: User) -> Request:
    """Return the request that the HTTP library has parsed, as filters and handlers see it."""
    request_target = raw.raw_path
    if not request_target.startswith("/"):  # absolute form, as sent to proxies
        _, _, rest = request_target.partition("://")
        request_target = "/" + rest.partition("/")[2]
    quoted_path, _, query_text = request_target.partition("?")
    path = unquote_path(quoted_path)
    query = parse_query(query_text)
    return Request(
        method=raw.method,
        path=path,
        query=query,
        headers=raw.headers,
        info=parse_request_info(raw.method, path, query),
        read_body=functools.partial(_read_body, raw),
        remote=raw.remote or "",
        uri=raw.raw_path,
        certificate=connection.certificate,
        on_authenticated=connection.on_authenticated,
        user=user,
    )


async def _read_body(raw: web.BaseRequest, limit: int) -> bytes:
    if raw.content_length is not None and raw.content_length > limit:
        raise BodyTooLarge(limit)
    if raw.transport is not None and raw.version >= (1, 1) and expects_continue(raw.headers):
        raw.transport.write(CONTINUE)
    pieces: list[bytes] = []
    size = 0
    connection = cast(Connection, raw.protocol)
    if connection.body_error is not None and not raw.content.is_eof():
        raise connection.body_error
    connection.body = raw.content
    try:
        while piece := await raw.content.readany():
            size += len(piece)
            if size > limit:
                raise BodyTooLarge(limit)
            pieces.append(piece)
    except (web.RequestPayloadError, ConnectionError):  # the client stopped sending or went away
        raise BadRequest("unexpected EOF") from None
    finally:
        connection.body = None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


_UID_ATTRIBUTE = "1.3.6.1.4.1.57683.2"


def _certificate(transport: asyncio.BaseTransport | None) -> Certificate | None:
    """Return the client's certificate, which TLS has verified, or None."""
    peer_certificate = transport.get_extra_info("peercert") if transport is not None else None
    if transport is None or not peer_certificate:
        return None
    ssl_object = transport.get_extra_info("ssl_object")
    attributes = [part for relative in peer_certificate.get("subject", ()) for part in relative]
    names = [value for key, value in attributes if key == "commonName"]
    # Python 3.13 made it a method of SSLObject. None for a resumed session.
    chain = ssl_object._sslobj.get_verified_chain() or ()
    expiries = [peer_certificate["notAfter"], *(each.get_info()["notAfter"] for each in chain)]
    return Certificate(
        common_name=names[-1] if names else "",
        organizations=tuple(value for key, value in attributes if key == "organizationName"),
        uids=tuple(value for key, value in attributes if key == _UID_ATTRIBUTE),
        sha256=_digest(ssl_object.getpeercert(binary_form=True)),
        not_after=min(map(ssl.cert_time_to_seconds, expiries)),
        chain=frozenset(_digest(each.public_bytes(_DER)) for each in chain),
    )


_DER = 2
"""The encoding of `_ssl.Certificate.public_bytes`: `_ssl.ENCODING_DER`."""


def _digest(der: bytes) -> str:
    return hashlib.sha256(der).hexdigest()
