"""What the HTTP library cannot read, answered as Go's server and kube-apiserver answer it.

A request that is no HTTP gets Go's plain text; a broken body or an unknown method gets a Status,
as from a handler. Found by the words of the library's errors; words that are not known here are a
400. Knows no socket. Mirrors readRequest and badRequestError of Go's net/http.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from kapiserver.apiserver.errors import BadRequest, MethodNotAllowed, ServerError


@dataclass(frozen=True, slots=True)
class Plain:
    """Go's answer: what follows the version in the first line, and the text (empty: the same)."""

    line: str
    text: str = ""


Fault: TypeAlias = Plain | ServerError

_TOO_LARGE = Plain("431 Request Header Fields Too Large")
BAD_REQUEST = Plain("400 Bad Request")

_FAULTS: tuple[tuple[str, Fault], ...] = (
    ("Got more than", _TOO_LARGE),
    ("Too many headers", _TOO_LARGE),
    ("Missing 'Host'", Plain("400 Bad Request: missing required Host header")),
    ("Duplicate 'Host'", Plain("400 Bad Request: too many Host headers")),
    ("Request has invalid `Transfer-Encoding`",
     Plain("501 Not Implemented", "Unsupported transfer encoding")),
    ("Bad status line:\n  Invalid HTTP version",
     Plain("505 HTTP Version Not Supported: unsupported protocol version")),
    ("Invalid character in chunk size", BadRequest("invalid byte in chunk length")),
    ("Chunk size overflow", BadRequest("http chunk length too large")),
    ("Expected LF after chunk", BadRequest("malformed chunked encoding")),
    ("Chunk extensions", BadRequest("malformed chunked encoding")),
)  # fmt: skip
"""By the beginning of the library's words."""

_UNKNOWN_METHOD = re.compile(r"Invalid method encountered:\s+b'[A-Za-z]+ /\S* HTTP/1\.[01]'")


def fault_of(words: str) -> Fault:
    """How to answer what the library says of a request."""
    if _UNKNOWN_METHOD.match(words):
        return MethodNotAllowed()
    return next((fault for begin, fault in _FAULTS if words.startswith(begin)), BAD_REQUEST)
