"""The frames of HTTP/2, as the client of etcd and the server of `serving/http2/` use them. Pure.

Mirrors RFC 9113, sections 4, 6 and 7. `codecs/http2/hpack.py` has the header blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = range(5)
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(5, 10)
"""Types of frames. A receiver ignores other types."""

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY_FLAG = 0x20

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS = 1, 2, 3
INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = 4, 5, 6
"""Identifiers of settings."""

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0x0, 0x1, 0x2, 0x3
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL = 0x5, 0x6, 0x7, 0x8
COMPRESSION_ERROR, ENHANCE_YOUR_CALM, INADEQUATE_SECURITY = 0x9, 0xB, 0xC
"""Error codes of RST_STREAM and GOAWAY."""

FRAME_BYTES = 16384
"""Maximum bytes of a frame without its header, unless a peer announces another limit."""
MAX_FRAME_BYTES = (1 << 24) - 1
"""The largest limit that a peer may announce."""
MAX_STREAM_ID = (1 << 31) - 1
MAX_WINDOW = (1 << 31) - 1
DEFAULT_WINDOW = 65535
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

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


def goaway(last_stream: int, code: int, text: str = "") -> bytes:
    """Encode a GOAWAY frame; `text` is for the peer's log."""
    return frame(GOAWAY, 0, 0, UINT32.pack(last_stream) + UINT32.pack(code) + text.encode())


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
