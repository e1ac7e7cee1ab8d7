"""The errors for requests that reach no handler, as in Go's server and kube-apiserver.

Bytes that are not HTTP get Go's plain text; a broken body or an unknown method gets a Status, as
from a handler. `error_for` looks up the error for the message of the HTTP library, which could not
parse a request; an unknown message gets 400. `error_of_head` returns the error for a request that
the library accepts and Go's server refuses. Knows no socket. Mirrors readRequest, badRequestError,
parseTransferEncoding and sendExpectationFailed of Go's net/http.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct
from multidict import MultiMapping, istr

from kapiserver.apiserver.errors import BadRequest, MethodNotAllowed, ServerError


class PlainTextError(Struct, frozen=True):
    """A response of Go's HTTP server.

    line    status code and reason of the status line
    text    the body; "" means `line`
    """

    line: str
    text: str = ""


HttpError: TypeAlias = PlainTextError | ServerError

HEADERS_TOO_LARGE = PlainTextError("431 Request Header Fields Too Large")
_BAD_REQUEST = PlainTextError("400 Bad Request")
_UNSUPPORTED_ENCODING = PlainTextError("501 Not Implemented", "Unsupported transfer encoding")
_EXPECTATION_FAILED = PlainTextError("417 Expectation Failed")

_NO_HOST = PlainTextError("400 Bad Request: missing required Host header")
_MANY_HOSTS = PlainTextError("400 Bad Request: too many Host headers")
_UNSUPPORTED_VERSION = PlainTextError(
    "505 HTTP Version Not Supported: unsupported protocol version"
)

_ERRORS: tuple[tuple[str, HttpError], ...] = (
    ("Invalid `Transfer-Encoding` header value", _UNSUPPORTED_ENCODING),
    ("Request has invalid `Transfer-Encoding`", _UNSUPPORTED_ENCODING),
    ("Invalid HTTP version", _UNSUPPORTED_VERSION),
    ("Invalid character in chunk size", BadRequest("invalid byte in chunk length")),
    ("Chunk size overflow", BadRequest("http chunk length too large")),
    ("Expected LF after chunk", BadRequest("malformed chunked encoding")),
    ("Missing expected CR after chunk", BadRequest("malformed chunked encoding")),
    ("Chunk extensions", BadRequest("malformed chunked encoding")),
)
"""The errors, by the prefix of the library's message."""

HTTP_1_1 = "1.1"
_VERSIONS = ("1.0", HTTP_1_1)
# Every request is searched for these headers; with istr that is three times as fast as with str.
_HOST = istr("Host")
_TRANSFER_ENCODING = istr("Transfer-Encoding")
_EXPECT = istr("Expect")
_SINGLE = frozenset(
    ("Content-Location", "Content-Range", "Content-Type", "Etag", "Max-Forwards", "User-Agent")
)
"""Headers that a request may have only once, besides Host, Content-Length and Transfer-Encoding; in
title case."""
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
"""Matches a percent sign in a path without two hexadecimal digits after it."""
_INVALID_METHOD = "Invalid method encountered"
_REQUEST_LINE = re.compile(rb"[A-Za-z]+ /\S* HTTP/1\.[01]\r\n")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]")


def error_for(message: str, data: bytes) -> HttpError:
    """Return the error to respond with, for the message of the library's parse error. `data` begins
    with the malformed request, or is empty if its start is unknown."""
    if message == _INVALID_METHOD and _REQUEST_LINE.match(data):
        return MethodNotAllowed()
    return next((fault for begin, fault in _ERRORS if message.startswith(begin)), _BAD_REQUEST)


def error_of_head(
    method: str,
    target: str,
    version: str,
    headers: MultiMapping[str],
    *,
    has_repeated: bool,
) -> HttpError | None:
    """Return the error for a request that the HTTP library accepts and Go's server refuses, or
    None.

    target          the target as in the request line
    version         the version of HTTP, such as "1.1"
    headers         with names in title case
    has_repeated    whether a header occurs more than once
    """
    if version not in _VERSIONS:
        return _UNSUPPORTED_VERSION
    if version == HTTP_1_1 and _HOST not in headers:
        return _NO_HOST
    if has_repeated:
        if len(headers.getall(_HOST, ())) > 1:
            return _MANY_HOSTS
        single = list(filter(_SINGLE.__contains__, headers))
        if len(set(single)) < len(single):
            return _BAD_REQUEST
    if _TRANSFER_ENCODING in headers:
        if version != HTTP_1_1:  # RFC 9112, 6.1: the end of the body is unclear
            return _BAD_REQUEST
        if headers[_TRANSFER_ENCODING].lower() != "chunked":
            return _UNSUPPORTED_ENCODING
    if "%" in target and _BAD_ESCAPE.search(target.partition("?")[0]):
        return _BAD_REQUEST
    if method == "CONNECT":  # the server is not a proxy
        return MethodNotAllowed()
    if target[0] != "/" and not (_ABSOLUTE.match(target) or (method, target) == ("OPTIONS", "*")):
        return _BAD_REQUEST
    if _EXPECT in headers and not expects_continue(headers) and headers[_EXPECT]:
        return _EXPECTATION_FAILED
    return None


def expects_continue(headers: Mapping[str, str]) -> bool:
    """Report whether the client waits for "100 Continue" before it sends the body."""
    expected = headers.get(_EXPECT)
    if expected is None:
        return False
    return "100-continue" in (token.strip() for token in expected.lower().split(","))
