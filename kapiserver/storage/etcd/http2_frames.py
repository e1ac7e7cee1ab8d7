"""The frames of HTTP/2: their header, the frames that a client sends, and header blocks.

Requests use header blocks without a dynamic table, which are constant for each kind of request. A
client tells the server to use no dynamic table either (SETTINGS_HEADER_TABLE_SIZE 0), so that equal
blocks have equal headers and are decoded once. Mirrors RFC 9113 sections 4 and 6, and RFC 7541.
Knows no connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct

import hpack

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = range(5)
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(5, 10)
"""Types of frames. A receiver ignores other types."""

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY_FLAG = 0x20

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = range(
    1, 6
)
"""Identifiers of settings."""

REFUSED_STREAM, CANCEL = 0x7, 0x8
"""Error codes of RST_STREAM."""

FRAME_BYTES = 16384
"""Maximum bytes of a frame without its header, unless a peer announces another limit."""
MAX_WINDOW = (1 << 31) - 1
DEFAULT_WINDOW = 65535
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

MAX_HEADER_LIST_BYTES = 64 << 10
"""Maximum bytes of the decoded headers of one block."""
MAX_CACHED_BLOCKS = 64
MAX_CACHED_BLOCK_BYTES = 256
"""The maximum number of decoded header blocks that a connection remembers, and of bytes of each."""

Headers = Mapping[bytes, bytes]

HEADER = Struct(">HBBBL")
"""The header of a frame: upper 16 and lower 8 bits of the length, type, flags, stream."""
UINT32 = Struct(">L")
SETTING = Struct(">HL")


class ProtocolError(Exception):
    """The peer broke the protocol; the connection cannot be used further."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Encode one frame."""
    size = len(payload)
    return HEADER.pack(size >> 8, size & 255, kind, flags, stream) + payload


def settings(values: Mapping[int, int]) -> bytes:
    """Encode a SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(SETTING.pack(*item) for item in values.items()))


def window_update(stream: int, size: int) -> bytes:
    """Encode a WINDOW_UPDATE frame."""
    return frame(WINDOW_UPDATE, 0, stream, UINT32.pack(size))


def reset(stream: int, code: int) -> bytes:
    """Encode a RST_STREAM frame."""
    return frame(RST_STREAM, 0, stream, UINT32.pack(code))


def encode_headers(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Encode a header block that changes no dynamic table."""
    never_indexed = [(name, value, True) for name, value in headers]
    return hpack.Encoder().encode(never_indexed, huffman=False)


def unpad(payload: bytes, flags: int) -> bytes:
    """Return the content of a DATA or HEADERS frame without its padding and priority. Raises
    ProtocolError."""
    start, end = 0, len(payload)
    if flags & PADDED:
        if not payload:
            raise ProtocolError("a padded frame is empty")
        start, end = 1, end - payload[0]
    if flags & PRIORITY_FLAG:
        start += 5
    if start > end:
        raise ProtocolError("the padding of a frame is too long")
    return payload[start:end]


class HeaderDecoder:
    """Decodes the header blocks of one connection, in the order of their arrival."""

    def __init__(self) -> None:
        self._decoder = hpack.Decoder(max_header_list_size=MAX_HEADER_LIST_BYTES)
        self._cache: dict[bytes, Headers] | None = None

    def forbid_dynamic_table(self) -> None:
        """Refuse blocks with a dynamic table: the server has acknowledged that it must use none."""
        self._decoder.max_allowed_table_size = 0
        self._cache = {}

    def decode(self, block: bytes) -> Headers:
        """Return the headers by name; the last of equal names counts. Raises ProtocolError."""
        cache = self._cache
        if cache is not None and (cached := cache.get(block)) is not None:
            return cached
        try:
            headers = dict(self._decoder.decode(block, raw=True))
        except hpack.HPACKError as error:
            raise ProtocolError(f"invalid headers: {error}") from error
        if cache is not None and len(block) <= MAX_CACHED_BLOCK_BYTES:
            if len(cache) >= MAX_CACHED_BLOCKS:
                cache.clear()
            cache[block] = headers
        return headers
