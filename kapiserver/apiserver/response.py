"""The responses that handlers return: a body of bytes, or a stream. Knows no HTTP library."""

from __future__ import annotations

from asyncio import Future
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeAlias

from msgspec import Struct, field

from kapiserver.apiserver.byte_stream import ByteStream
from kapiserver.storage.cache.query import WatchSink

Headers: TypeAlias = list[tuple[str, str]]


class UpgradedPeer(ByteStream, Protocol):
    """The other end of an upgraded connection."""

    def close(self) -> None:
        """Close the connection when what was written is sent. Idempotent."""

    def abort(self) -> None:
        """Close the connection at once. Idempotent."""


class Response(Struct, frozen=True, kw_only=True):
    """A response with a body of bytes.

    body        the whole body, or slices of about 256 KB; each slice is written when the client
                has received most of the previous one
    length      total bytes of the slices, for Content-Length; None if unknown (sent chunked)
    headers     all but Content-Type and Content-Length; filters append to it
    media_type  the value of Content-Type; "" leaves it out
    is_passed_on    whether the body is another server's or a container's: it is neither compressed
                    nor recorded
    is_endless  whether the slices go on until the client goes, or the server drains
    """

    status: int = 200
    media_type: str = "application/json"
    body: bytes | AsyncIterator[bytes] = b""
    length: int | None = None
    headers: Headers = field(default_factory=list)
    is_passed_on: bool = False
    is_endless: bool = False


async def _at_once() -> None:
    pass


class StreamResponse(Struct, frozen=True, kw_only=True):
    """A response that goes on, such as a watch. Its head is sent after the handler has returned, so
    the handler can still raise errors.

    sink        the sink of `Request.open_sink`; it buffers frames until the head is sent
    timeout     seconds until the stream ends; 0 means no limit
    on_timeout  called before the stream ends because of its timeout; may write last frames
    before_end  awaited before the client sees the end of the stream
    started     is done when the initial objects of a watch are written; None: at once

    The stream ends when the sink is closed, the client disconnects, the timeout expires or the
    server drains. The request's completion callbacks stop the writer of the sink.
    """

    media_type: str
    sink: WatchSink
    timeout: float = 0
    on_timeout: Callable[[], None] = lambda: None
    before_end: Callable[[], Awaitable[None]] = _at_once
    started: Future[None] | None = None
    status: int = 200
    headers: Headers = field(default_factory=list)


class UpgradeResponse(Struct, frozen=True, kw_only=True):
    """A response with status 101, after which the connection speaks another protocol with `peer`.
    It ends when either side closes.

    headers     all of them, Connection and Upgrade included
    """

    peer: UpgradedPeer
    headers: Headers = field(default_factory=list)
    status: int = 101


AnyResponse: TypeAlias = Response | StreamResponse | UpgradeResponse


def text_response(body: str, *, status: int = 200) -> Response:
    """Return a plain text response."""
    return Response(status=status, media_type="text/plain; charset=utf-8", body=body.encode())


def text_error(text: str, status: int) -> Response:
    """Return a plain text response as http.Error of Go makes it."""
    response = text_response(f"{text}\n", status=status)
    response.headers.append(("X-Content-Type-Options", "nosniff"))
    return response


def page_not_found() -> Response:
    """Return the response of Go's HTTP mux for a path without a handler."""
    return text_error("404 page not found", 404)
