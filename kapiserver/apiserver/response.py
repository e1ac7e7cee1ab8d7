"""What a handler answers: a response of known bytes, or a stream. Knows no HTTP library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

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


class Running(Protocol):
    """What a stream's `open` started; storage's Watching is one."""

    def cancel(self) -> None:
        """Stop writing to the sink. Idempotent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """An answer without an end: `open` starts what writes whole frames to the sink.

    `open` may raise any mapped error until it has written its first frame: it becomes an ordinary
    Status answer, since the head goes out with the first frame or when `open` returns. The stream
    ends when the sink is closed, the client goes away, `timeout` seconds (0: none) have passed or
    the server drains.
    """

    media_type: str
    open: Callable[[WatchSink], Awaitable[Running]]
    timeout: float = 0
    status: int = 200
    headers: Headers = field(default_factory=list)


Answer: TypeAlias = Response | Stream


def text(body: str, *, status: int = 200) -> Response:
    """A plain text answer."""
    return Response(status=status, media_type="text/plain; charset=utf-8", body=body.encode())


def page_not_found() -> Response:
    """What Go's mux answers for a path nobody serves."""
    answer = text("404 page not found\n", status=404)
    answer.headers.append(("X-Content-Type-Options", "nosniff"))
    return answer
