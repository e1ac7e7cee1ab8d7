"""Encodes the heads and chunks of HTTP/1.1 responses as bytes. Knows no socket and no library."""

from __future__ import annotations

import functools
import itertools
import time
from email.utils import formatdate
from http import HTTPStatus

from kapiserver.apiserver.response import Headers, Response, StreamResponse
from kapiserver.apiserver.serving.http1.errors import PlainTextError

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
WITHOUT_BODY = (204, 304)
"""The statuses of responses that have neither a body nor its length."""
CLOSE_HEADER = "Connection: close\r\n"
"""Tells the client that the server closes the connection after the response."""
REASONS = {status.value: status.phrase for status in HTTPStatus} | {
    413: "Request Entity Too Large",
    414: "Request URI Too Long",
    416: "Requested Range Not Satisfiable",
    418: "I'm a teapot",
    422: "Unprocessable Entity",
}
"""The phrase of each status, as Go has it; those of Python depend on its version."""


def response_head(response: Response | StreamResponse, framing: str) -> bytes:
    """Return the head of a response. `framing` is the complete lines of Content-Length,
    Transfer-Encoding and Connection."""
    status, media_type, headers = response.status, response.media_type, response.headers
    lines = "%s: %s\r\n" * len(headers) % tuple(itertools.chain.from_iterable(headers))
    content_type = f"Content-Type: {media_type}\r\n" if media_type else ""
    return (
        f"HTTP/1.1 {status} {REASONS.get(status, 'Unknown')}\r\n{lines}"
        f"{content_type}Date: {http_date(int(time.time()))}\r\n{framing}\r\n"
    ).encode("utf-8", "surrogateescape")


def switching_head(headers: Headers) -> bytes:
    """Return the head of a response that changes the protocol of its connection."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 101 Switching Protocols\r\n{lines}\r\n".encode("utf-8", "surrogateescape")


@functools.lru_cache(maxsize=2)
def http_date(second: int) -> str:
    """Return the value of the header Date for a second since the epoch."""
    return formatdate(second, usegmt=True)


def chunk(piece: bytes) -> bytes:
    """Return a chunk of a chunked body."""
    # A compressor may return no bytes for a slice; an empty chunk would end the body.
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""


def plain_text_response(error: PlainTextError) -> bytes:
    """Return a complete response of Go's HTTP server, which closes the connection."""
    return (
        f"HTTP/1.1 {error.line}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"{CLOSE_HEADER}\r\n{error.text or error.line}"
    ).encode()
