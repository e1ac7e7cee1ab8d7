"""Encodes the heads of HTTP/2 responses as header blocks. Pure except for the date."""

from __future__ import annotations

import functools
import time

from kapiserver.apiserver.response import Response, StreamResponse
from kapiserver.apiserver.serving.http1.response_head import WITHOUT_BODY, http_date
from kapiserver.apiserver.serving.http2.request_fields import CONNECTION_HEADERS
from kapiserver.codecs.http2.hpack import encode_field, encode_name, encode_string

_UNIQUE = "Audit-Id"
"""The header whose value is another one in each response."""
_MAX_CACHED_VALUE = 128


def encode_head(response: Response | StreamResponse, length: int | None = None) -> bytes:
    """Return the header block of a response. `length` is its Content-Length, None for none."""
    block = [_status_and_date(response.status, int(time.time()))]
    for name, value in response.headers:
        if name == _UNIQUE or len(value) > _MAX_CACHED_VALUE:
            block.append(_encode_header(name, value))
        else:
            block.append(_header(name, value))
    if response.media_type:
        block.append(_header("Content-Type", response.media_type))
    if length is not None and response.status not in WITHOUT_BODY:
        block.append(_header("Content-Length", str(length)))
    return b"".join(block)


@functools.lru_cache(maxsize=8)
def _status_and_date(status: int, second: int) -> bytes:
    date = encode_field(b"date", http_date(second).encode())
    return encode_field(b":status", b"%d" % status) + date


def _encode_header(name: str, value: str) -> bytes:
    """Return an encoded header, b"" for one that no message of HTTP/2 has."""
    encoded = _header_name(name)
    return encoded and encoded + encode_string(value.encode("utf-8", "surrogateescape"))


_header = functools.lru_cache(maxsize=256)(_encode_header)


@functools.lru_cache(maxsize=256)
def _header_name(name: str) -> bytes:
    """Return the encoded name of a header, b"" for one that no message of HTTP/2 has."""
    lower = name.lower()
    return b"" if lower in CONNECTION_HEADERS else encode_name(lower.encode())
