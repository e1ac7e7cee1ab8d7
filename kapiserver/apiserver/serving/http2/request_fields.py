"""Reads the fields of a header block as a request. Pure.

A malformed request resets its stream. As Go's server does, one with a header of HTTP/1.1's
connections gets the text of the error first, and one with too many or too large headers only an
error. Mirrors RFC 9113, sections 8.2 and 8.3, and processHeaders, checkValidHTTP2RequestHeaders and
handleHeaderListTooLong of golang.org/x/net/http2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct
from multidict import CIMultiDict, istr

from kapiserver.apiserver.serving.http1.request_parser import FIELD_COUNT, FIELD_LIMIT, LINE_LIMIT
from kapiserver.codecs.http2.frames import NO_ERROR, PROTOCOL_ERROR
from kapiserver.codecs.http2.hpack import Field

_HOST = istr("Host")
_COOKIE = istr("Cookie")
_CONTENT_LENGTH = b"content-length"
_PSEUDO_HEADERS = frozenset((b":authority", b":method", b":path", b":scheme"))
_CONNECTION_HEADERS = {
    b"connection": "Connection",
    b"keep-alive": "Keep-Alive",
    b"proxy-connection": "Proxy-Connection",
    b"transfer-encoding": "Transfer-Encoding",
    b"upgrade": "Upgrade",
}
_SPECIAL = frozenset((*_CONNECTION_HEADERS, b"te", _CONTENT_LENGTH))
"""Names of headers that need a look at their values."""
CONNECTION_HEADERS = frozenset(name.decode() for name in _CONNECTION_HEADERS)
"""Names that no message of HTTP/2 has."""
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_METHOD = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_USUAL_METHODS = frozenset(("DELETE", "GET", "PATCH", "POST", "PUT"))
_FORBIDDEN = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_MAX_NAMES, _MAX_CACHED_NAME = 512, 64
_names: dict[bytes, istr] = {}
"""Valid names of headers but _SPECIAL ones, in title case; emptied when full."""


class RequestFields(Struct):
    """A request whose headers are complete.

    target      path and query
    headers     looked up case-insensitively; Host has the authority
    length      the Content-Length; None if there is none
    """

    method: str
    target: str
    headers: CIMultiDict[str]
    length: int | None


class RefusedRequest(Exception):
    """A request that reaches no handler.

    status      of the response; 0 for none
    code        of the RST_STREAM after it
    """

    def __init__(self, status: int = 0, text: str = "", code: int = PROTOCOL_ERROR) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


_NO_REQUEST = RequestFields("", "", CIMultiDict(), None)
_REMEMBERED_BYTES = 4096
"""Bytes of the fields that a connection remembers."""
_TOO_LARGE = "<h1>HTTP Error 431</h1><p>Request Header Field(s) Too Large</p>"


class RequestReader:
    """Reads the requests of one connection. Most of them are equal except for their paths."""

    __slots__ = ("_earlier_fields", "_earlier_request", "_path_index")

    def __init__(self) -> None:
        self._earlier_request = _NO_REQUEST
        """An earlier request."""
        self._earlier_fields: list[Field] = []
        """The fields of that request; :path, which has this index, is that of the last request."""
        self._path_index = 0

    def read(self, fields: list[Field]) -> RequestFields:
        """Return the request of a header block; its headers are shared with other requests. Raises
        RefusedRequest."""
        index, request = self._path_index, self._earlier_request
        if fields and len(fields) == len(self._earlier_fields):
            path = self._earlier_fields[index] = fields[index]
            if fields == self._earlier_fields and path[0] == b":path":
                target = _text(path[1])
                _check_target(request.method, target)
                return RequestFields(request.method, target, request.headers, request.length)
        request = _read_request(fields)
        if sum(len(name) + len(value) for name, value in fields) <= _REMEMBERED_BYTES:
            names = [name for name, _ in fields]
            if b":path" in names:
                self._path_index = names.index(b":path")
                self._earlier_request, self._earlier_fields = request, [*fields]
        return request


def _read_request(fields: list[Field]) -> RequestFields:
    if len(fields) > FIELD_COUNT:
        raise RefusedRequest(431, _TOO_LARGE, NO_ERROR)
    pseudo: dict[bytes, str] = {}
    headers: list[tuple[istr, str]] = []
    special: list[Field] = []
    for name, value in fields:
        header = _names.get(name)
        if header is None:
            if name in _PSEUDO_HEADERS and not headers and name not in pseudo:
                pseudo[name] = _text(value)
                continue
            header = _header_name(name)  # refuses pseudo-headers
            if name in _SPECIAL:
                special.append((name, value))
        headers.append((header, _text(value)))
        if len(value) > FIELD_LIMIT:
            raise RefusedRequest(431, _TOO_LARGE, NO_ERROR)
    method, target = _method_and_target(pseudo)
    length = _special_headers(special) if special else None
    by_name = CIMultiDict(headers)
    authority = pseudo.get(b":authority")
    if authority:
        by_name[_HOST] = authority
    if _COOKIE in by_name:
        by_name[_COOKIE] = "; ".join(by_name.getall(_COOKIE))
    return RequestFields(method, target, by_name, length)


def check_trailers(fields: Iterable[Field]) -> None:
    """Raise RefusedRequest for trailers that are malformed."""
    for name, value in fields:
        if name not in _names:
            _header_name(name)  # refuses pseudo-headers, too
        _text(value)


def _method_and_target(pseudo: dict[bytes, str]) -> tuple[str, str]:
    method = pseudo.get(b":method", "")
    if method not in _USUAL_METHODS and not _METHOD.fullmatch(method):
        raise RefusedRequest
    if method == "CONNECT":
        if pseudo.keys() != {b":method", b":authority"}:
            raise RefusedRequest
        return method, "/"
    target = pseudo.get(b":path", "")
    if pseudo.get(b":scheme") not in ("https", "http"):
        raise RefusedRequest
    _check_target(method, target)
    return method, target


def _check_target(method: str, target: str) -> None:
    """Raise RefusedRequest for a target that no request of this method may have."""
    if target[:1] != "/" and (method, target) != ("OPTIONS", "*"):
        raise RefusedRequest
    if len(target) > LINE_LIMIT:
        raise RefusedRequest(431, _TOO_LARGE, NO_ERROR)
    if "%" in target and _BAD_ESCAPE.search(target.partition("?")[0]):
        raise RefusedRequest


def _special_headers(fields: list[Field]) -> int | None:
    """Return the Content-Length among fields with names in _SPECIAL. Raises RefusedRequest for a
    header of connections."""
    lengths: set[bytes] = set()
    for name, value in fields:
        if name == _CONTENT_LENGTH:
            lengths.add(value)
        elif name != b"te":
            text = f'request header "{_CONNECTION_HEADERS[name]}" is not valid in HTTP/2'
            raise RefusedRequest(400, text)
        elif value not in (b"trailers", b""):
            raise RefusedRequest(400, 'request header "TE" may only be "trailers" in HTTP/2')
    if not lengths:
        return None
    length = lengths.pop()
    if lengths or not length.isdigit() or len(length) > 18:
        raise RefusedRequest
    return int(length)


def _text(value: bytes) -> str:
    """Return the value of a field. Raises RefusedRequest for one that no field may have."""
    text = value.decode("utf-8", "surrogateescape")
    if not text.isprintable() and _FORBIDDEN.search(text):
        raise RefusedRequest
    if text.strip(" \t") != text:
        raise RefusedRequest
    return text


def _header_name(name: bytes) -> istr:
    """Return the name of a header in title case. Raises RefusedRequest for an invalid one."""
    if not _NAME.fullmatch(name):
        raise RefusedRequest
    title = istr(name.decode().title())
    if len(name) <= _MAX_CACHED_NAME and name not in _SPECIAL:
        if len(_names) >= _MAX_NAMES:
            _names.clear()
        _names[name] = title
    return title
