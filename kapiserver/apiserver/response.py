"""What a handler answers: a response of known bytes, or a stream. Knows no HTTP library."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from kapiserver.storage.query import WatchSink

Headers: TypeAlias = list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer of known bytes.

    body        all of it, or slices of about 256 KB that are written one after another as the
                client takes them (`length` is their sum where it is known, else None: chunked)
    headers     beside Content-Type and Content-Length; filters append to it
    """

    status: int = 200
    media_type: str = "application/json"
    body: bytes | Iterable[bytes] = b""
    length: int | None = None
    headers: Headers = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamResponse:
    """A response without an end. The handler has opened the stream, so what can fail has failed.

    sink        from `Request.open_sink`; holds frames back until the head is sent
    timeout     seconds until the stream ends (0: none)

    The stream ends when the sink is closed, the client goes away, the time is over or the server
    drains. The request's completion callbacks stop whatever writes to the sink.
    """

    media_type: str
    sink: WatchSink
    timeout: float = 0
    status: int = 200
    headers: Headers = field(default_factory=list)


AnyResponse: TypeAlias = Response | StreamResponse


def text(body: str, *, status: int = 200) -> Response:
    """A plain text answer."""
    return Response(status=status, media_type="text/plain; charset=utf-8", body=body.encode())


def page_not_found() -> Response:
    """What Go's mux answers for a path nobody serves."""
    answer = text("404 page not found\n", status=404)
    answer.headers.append(("X-Content-Type-Options", "nosniff"))
    return answer
