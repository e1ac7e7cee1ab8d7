"""The errors for bytes that the HTTP library cannot parse, as in Go's server and kube-apiserver.

Bytes that are not HTTP get Go's plain text; a broken body or an unknown method gets a Status, as
from a handler. The error is looked up by the library's message; an unknown message gets 400. Knows
no socket. Mirrors readRequest and badRequestError of Go's net/http.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from kapiserver.apiserver.errors import BadRequest, MethodNotAllowed, ServerError


@dataclass(frozen=True, slots=True)
class PlainTextError:
    """A response of Go's HTTP server.

    line    status code and reason of the status line
    text    the body; "" means `line`
    """

    line: str
    text: str = ""


HttpError: TypeAlias = PlainTextError | ServerError

_TOO_LARGE = PlainTextError("431 Request Header Fields Too Large")
BAD_REQUEST = PlainTextError("400 Bad Request")

_ERRORS: tuple[tuple[str, HttpError], ...] = (
    ("Got more than", _TOO_LARGE),
    ("Too many headers", _TOO_LARGE),
    ("Missing 'Host'", PlainTextError("400 Bad Request: missing required Host header")),
    ("Duplicate 'Host'", PlainTextError("400 Bad Request: too many Host headers")),
    ("Request has invalid `Transfer-Encoding`",
     PlainTextError("501 Not Implemented", "Unsupported transfer encoding")),
    ("Bad status line:\n  Invalid HTTP version",
     PlainTextError("505 HTTP Version Not Supported: unsupported protocol version")),
    ("Invalid character in chunk size", BadRequest("invalid byte in chunk length")),
    ("Chunk size overflow", BadRequest("http chunk length too large")),
    ("Expected LF after chunk", BadRequest("malformed chunked encoding")),
    ("Chunk extensions", BadRequest("malformed chunked encoding")),
)  # fmt: skip
"""By prefix of the library's message."""

_UNKNOWN_METHOD = re.compile(r"Invalid method encountered:\s+b'[A-Za-z]+ /\S* HTTP/1\.[01]'")


def error_for(message: str) -> HttpError:
    """Return the error to respond with, for the message of the library's parse error."""
    if _UNKNOWN_METHOD.match(message):
        return MethodNotAllowed()
    return next((fault for begin, fault in _ERRORS if message.startswith(begin)), BAD_REQUEST)
