"""Parses the requests of one connection with httptools, which wraps Node's parser llhttp.

The parser reports each request as soon as its head is complete; the body follows. Most requests of
a connection differ in their first line only. If a head frames no body, and equals the head before
it except for the first line, httptools is not called, which saves 15,000 instructions. Knows no
socket. Mirrors readRequest and readTransfer of Go's net/http.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Mapping
from typing import TypeAlias

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from msgspec import Struct, field
from multidict import CIMultiDict, istr

from kapiserver.apiserver.serving.http1.errors import (
    HEADERS_TOO_LARGE,
    HTTP_1_1,
    HttpError,
    PlainTextError,
    error_for,
    error_of_head,
    expects_continue,
)
from kapiserver.apiserver.serving.http1.request_body import (
    EMPTY_BODY,
    NO_SOURCE,
    BodySource,
    RequestBody,
)

LINE_LIMIT = 128 * 1024
"""Bytes of a request line; long label selectors need it."""
FIELD_LIMIT = 64 * 1024
FIELD_COUNT = 128
Fields: TypeAlias = list[tuple[bytes, bytes]]
"""Names and values of headers as the client sent them."""
_KNOWN_BYTES = 2048
"""Headers of more bytes are not kept for the next request."""
_PLAIN_METHODS = {method.encode(): method for method in ("DELETE", "GET", "HEAD")}
_PLAIN_BYTES = (string.ascii_letters + string.digits + "_!$&'()*+,./:;=?@~-").encode()
_PLAIN_TARGET = bytes(byte if byte in _PLAIN_BYTES else 0 for byte in range(256))
"""A table for `bytes.translate`, which leaves targets as they are that need no further check."""

_TRANSFER_ENCODING = istr("Transfer-Encoding")
_CONTENT_LENGTH = istr("Content-Length")
_MAX_NAMES = 512
_MAX_CACHED_NAME = 64
_names: dict[bytes, istr] = {}
"""Names of headers, by the bytes that clients sent; emptied when full. Looking up an istr takes a
third of the time of a str."""


class RequestHead(Struct, eq=False):
    """A request whose headers are complete.

    target      the target as in the request line
    headers     looked up case-insensitively; names are in title case
    keep_alive  whether the connection stays open: the client wants to send another request, and the
                response does not end the connection
    error       the request is malformed: the other fields may be empty; None if it is valid
    """

    method: str = "GET"
    target: str = "/"
    is_http_1_1: bool = True
    headers: Mapping[str, str] = field(default_factory=CIMultiDict)
    keep_alive: bool = False
    body: RequestBody = EMPTY_BODY
    error: HttpError | None = None


class _Headers(Struct, frozen=True):
    """The decoded headers of a request, and whether one occurs more than once."""

    headers: CIMultiDict[str]
    has_repeated: bool


_NO_HEADERS = _Headers(CIMultiDict(), False)


class _InvalidHead(Exception):
    """Ends the parsing of a connection; raised in a callback of httptools."""

    def __init__(self, error: HttpError) -> None:
        super().__init__()
        self.error = error


class RequestParser:
    """Parses bytes, and calls `on_head` with each RequestHead. After a malformed request, and after
    one that closes its connection, it ignores all bytes.

    body        the body of the last request
    """

    def __init__(self, source: BodySource, on_head: Callable[[RequestHead], None]) -> None:
        self._source = source
        self._on_head = on_head
        self.body = EMPTY_BODY
        self._target = b""
        self._fields: Fields = []
        self._known_fields: Fields = []
        self._known_headers = _NO_HEADERS
        """Those of an earlier request. Most requests of a connection have equal headers."""
        self._ends = False
        """Whether the last request closes the connection."""
        self._has_ended_request = False
        """Whether a request ended in the bytes that are parsed: they begin with no other."""
        self._is_between = True
        """Whether httptools has seen the end of a request, and nothing of the next."""
        self._known_rest: bytes | None = None
        """What followed the first line of a request without a body, which did not close the
        connection."""
        self._rest_headers = _NO_HEADERS
        """The headers in these bytes."""
        self._last_headers = _NO_HEADERS
        """Those of the last request."""
        self._framing = b""
        """The header that frames the body."""
        self._is_in_upgrade = False
        # httptools finds the callbacks by the names of the attributes.
        self._parser: HttpRequestParser | None = HttpRequestParser(self)

    def close(self) -> None:
        """Ignore all further bytes, and break the reference cycle with httptools."""
        self._parser = self._known_rest = None

    def release(self) -> None:
        """Close, and break the reference cycles with the connection, which has ended."""
        self.close()
        self.body = EMPTY_BODY
        self._source = NO_SOURCE
        self._on_head = _ignore_head

    def feed(self, data: bytes) -> None:
        """Parse the next bytes of the connection."""
        is_begin = self._is_between
        if is_begin and self._known_rest is not None and self._take_known(data, self._known_rest):
            return
        while data and self._parser is not None:
            self._has_ended_request = False
            try:
                self._parser.feed_data(data)
            except HttpParserUpgrade as upgrade:
                data, is_begin = data[upgrade.args[0] :], False
                self._refuse_upgrade()
            except HttpParserError as error:
                self._fail(error, data)
            else:
                if is_begin and self.body is EMPTY_BODY:
                    self._keep_rest(data)
                return

    def _take_known(self, data: bytes, known_rest: bytes) -> bool:
        """Report the request in some bytes, and return True, if these are a plain first line and
        what stood behind that of an earlier request."""
        plain = _plain_line(data[: -len(known_rest)]) if data.endswith(known_rest) else None
        if plain is None:
            return False
        self.body = EMPTY_BODY
        self._on_head(RequestHead(*plain, True, self._rest_headers.headers, True, EMPTY_BODY))
        return True

    def _keep_rest(self, data: bytes) -> None:
        """Keep what follows a plain first line, if these bytes are one whole request."""
        end = data.find(b"\r\n")
        if (
            self._is_between
            and not self._ends
            and len(data) - end <= _KNOWN_BYTES
            and data.find(b"\r\n\r\n", end) == len(data) - 4
            and _plain_line(data[:end]) is not None
        ):
            self._known_rest, self._rest_headers = data[end:], self._last_headers

    def _fail(self, error: HttpParserError, data: bytes) -> None:
        """Report a malformed request, or break the body that is being parsed."""
        self.close()
        cause = error.__context__
        if cause is not None and not isinstance(cause, _InvalidHead):
            raise cause  # a fault of a callback
        begin = b"" if self._has_ended_request else data
        http_error = error_for(str(error), begin) if cause is None else cause.error
        if not self.body.is_complete:
            message = http_error.line if isinstance(http_error, PlainTextError) else http_error
            self.body.fail(str(message))
        elif not self._ends:
            self._on_head(RequestHead(error=http_error))

    def _refuse_upgrade(self) -> None:
        """Go on after the head of a request that asks for another protocol. The server does not
        change the protocol, so the body and other requests follow, but httptools has ended the
        request. Another parser therefore reads the body, after a head that only frames it."""
        self._parser = HttpRequestParser(self)
        if not self.body.is_complete:
            self._is_in_upgrade = True
            self._parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n\r\n" % self._framing)
            self._is_in_upgrade = False

    # The callbacks of httptools.

    def on_message_begin(self) -> None:
        """The next request has begun."""
        self._is_between = False

    def on_url(self, part: bytes) -> None:
        """Take a part of the target. Raises _InvalidHead."""
        self._target += part
        if len(self._target) > LINE_LIMIT:
            raise _InvalidHead(HEADERS_TOO_LARGE)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer of a chunked body. Raises _InvalidHead."""
        fields = self._fields
        fields.append((name, value))
        if len(fields) > FIELD_COUNT:
            raise _InvalidHead(HEADERS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        """Report the request. Raises _InvalidHead."""
        parser = self._parser
        assert parser is not None
        if self._is_in_upgrade:
            return
        record = self._known_headers if self._fields == self._known_fields else self._read_headers()
        self._fields, self._last_headers = [], record
        headers = record.headers
        method = parser.get_method().decode()
        target = self._target.decode("utf-8", "surrogateescape")
        version = parser.get_http_version()
        error = error_of_head(method, target, version, headers, has_repeated=record.has_repeated)
        if error is not None:
            raise _InvalidHead(error)
        keep_alive = parser.should_keep_alive()
        self._ends = not keep_alive
        self.body = self._new_body(headers, version)
        self._on_head(
            RequestHead(method, target, version == HTTP_1_1, headers, keep_alive, self.body)
        )

    def _read_headers(self) -> _Headers:
        """Decode the headers, and keep them for the next request if they are short. Raises
        _InvalidHead."""
        fields = self._fields
        size = sum(map(len, itertools.chain.from_iterable(fields)))
        if size > FIELD_LIMIT and any(
            len(name) + len(value) > FIELD_LIMIT for name, value in fields
        ):
            raise _InvalidHead(HEADERS_TOO_LARGE)
        pairs = [
            (
                _names.get(name) or _header_name(name),
                value.rstrip(b" \t").decode("utf-8", "surrogateescape"),
            )
            for name, value in fields
        ]
        record = _Headers(CIMultiDict(pairs), len(dict(pairs)) < len(pairs))
        if size <= _KNOWN_BYTES:
            self._known_fields, self._known_headers = fields, record
        return record

    def on_body(self, piece: bytes) -> None:
        """Take a part of the body."""
        self.body.add(piece)

    def on_message_complete(self) -> None:
        """Complete the request, and drop its trailers."""
        self._has_ended_request = self._is_between = True
        self._target = b""
        self._fields = []
        if self.body.is_complete:
            return
        parser = self._parser
        assert parser is not None
        if not parser.should_upgrade():
            self.body.complete()

    def _new_body(self, headers: Mapping[str, str], version: str) -> RequestBody:
        length = headers.get(_CONTENT_LENGTH)
        if length is not None:
            self._framing = b"Content-Length: " + length.encode()
            if int(length) == 0:
                return EMPTY_BODY
        elif _TRANSFER_ENCODING in headers:
            self._framing = b"Transfer-Encoding: chunked"
        else:
            return EMPTY_BODY
        return RequestBody(
            self._source,
            length=None if length is None else int(length),
            expects_continue=version == HTTP_1_1 and expects_continue(headers),
        )


def _plain_line(line: bytes) -> tuple[str, str] | None:
    """Return method and target of a request line that needs no further check, else None."""
    method, _, rest = line.partition(b" ")
    target, _, version = rest.partition(b" ")
    if (
        method not in _PLAIN_METHODS
        or version != b"HTTP/1.1"
        or not target.startswith(b"/")
        or target.translate(_PLAIN_TARGET) != target
        or len(line) > LINE_LIMIT
    ):
        return None
    return _PLAIN_METHODS[method], target.decode()


def _ignore_head(_head: RequestHead) -> None:
    """Stop taking requests."""


def _header_name(name: bytes) -> istr:
    """Return the name of a header in title case."""
    text = istr(name.decode("utf-8", "surrogateescape").title())
    if len(name) <= _MAX_CACHED_NAME:
        if len(_names) >= _MAX_NAMES:
            _names.clear()
        _names[name] = text
    return text
