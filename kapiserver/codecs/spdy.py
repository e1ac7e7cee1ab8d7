"""Frames of SPDY/3.1, in which exec, attach and port-forward multiplex streams on one connection.

Pure: bytes to frames and back. Flow control is left out, as in the library that Kubernetes uses:
SETTINGS and WINDOW_UPDATE are read over, and a slow reader holds up the connection. Source: SPDY
Protocol, drafts 3 and 3.1; no kept Python library has it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

MAX_CONTROL_BYTES = 64 << 10
"""Payload of a control frame, and of its headers when they are decompressed."""
MAX_DATA_BYTES = (1 << 24) - 1
"""Payload of a data frame."""
PROTOCOL_ERROR, INVALID_STREAM, REFUSED_STREAM, CANCEL = 1, 2, 3, 5
"""Why a stream is reset."""

Headers: TypeAlias = Mapping[str, str]
"""Names in lower case."""

_VERSION = 3
_CONTROL = 0x8000
_FIN, _UNIDIRECTIONAL = 0x01, 0x02
_HEAD_BYTES = 8
_ID_MASK = 0x7FFFFFFF

_NAMES = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language "
    "accept-ranges age allow authorization cache-control connection content-base content-encoding "
    "content-language content-length content-location content-md5 content-range content-type date "
    "etag expect expires from host if-match if-modified-since if-none-match if-range "
    "if-unmodified-since last-modified location max-forwards pragma proxy-authenticate "
    "proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url "
    "public set-cookie keep-alive origin"
)
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 "
    "Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age="
    "gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _with_length(text: bytes) -> bytes:
    return len(text).to_bytes(4) + text


DICTIONARY = b"".join(
    _with_length(name.replace("_", " ").encode()) for name in _NAMES.split(" ")
) + _REST.encode()  # fmt: skip
"""What the compression of headers begins with; section 2.6.10.1 of draft 3."""


class _Kind(IntEnum):
    """The kinds of control frames that are read and written."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    PING = 6
    GOAWAY = 7
    HEADERS = 8


class SpdyError(ValueError):
    """The bytes are not frames of SPDY/3.1, or exceed a limit."""


class SynStream(Struct, frozen=True):
    """Opens a stream."""

    stream_id: int
    headers: Headers
    fin: bool = False
    unidirectional: bool = False


class SynReply(Struct, frozen=True):
    """Accepts a stream."""

    stream_id: int
    headers: Headers
    fin: bool = False


class Reset(Struct, frozen=True):
    """Ends a stream in both directions."""

    stream_id: int
    status: int


class Ping(Struct, frozen=True):
    """Is sent back by the other side."""

    ping_id: int


class GoAway(Struct, frozen=True):
    """Announces that the sender accepts no more streams."""

    last_stream_id: int
    status: int = 0


class MoreHeaders(Struct, frozen=True):
    """Adds headers to a stream."""

    stream_id: int
    headers: Headers
    fin: bool = False


class Data(Struct, frozen=True):
    """Data of a stream; a frame is read as several if it does not arrive at once."""

    stream_id: int
    data: bytes
    fin: bool = False


Frame: TypeAlias = SynStream | SynReply | Reset | Ping | GoAway | MoreHeaders | Data


class FrameWriter:
    """Encodes frames. The headers of all frames of a connection are compressed as one stream, so
    frames must be sent in the order in which they were encoded."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(zdict=DICTIONARY)

    def encode(self, frame: Frame) -> bytes:
        """Return a frame. Raises SpdyError if it exceeds a limit."""
        match frame:
            case Data(stream_id, data, fin):
                if len(data) > MAX_DATA_BYTES:
                    raise SpdyError("a data frame is too large")
                return stream_id.to_bytes(4) + _flags_and_size(fin * _FIN, data) + data
            case SynStream(stream_id, headers, fin, unidirectional):
                flags = fin * _FIN | unidirectional * _UNIDIRECTIONAL
                fields = stream_id.to_bytes(4) + bytes(6)  # no associated stream, highest priority
                return _control(_Kind.SYN_STREAM, fields + self._header_block(headers), flags)
            case SynReply(stream_id, headers, fin):
                block = self._header_block(headers)
                return _control(_Kind.SYN_REPLY, stream_id.to_bytes(4) + block, fin * _FIN)
            case MoreHeaders(stream_id, headers, fin):
                block = self._header_block(headers)
                return _control(_Kind.HEADERS, stream_id.to_bytes(4) + block, fin * _FIN)
            case Reset(stream_id, status):
                return _control(_Kind.RST_STREAM, stream_id.to_bytes(4) + status.to_bytes(4))
            case Ping(ping_id):
                return _control(_Kind.PING, ping_id.to_bytes(4))
            case GoAway(last_stream_id, status):
                return _control(_Kind.GOAWAY, last_stream_id.to_bytes(4) + status.to_bytes(4))

    def _header_block(self, headers: Headers) -> bytes:
        plain = len(headers).to_bytes(4) + b"".join(
            _with_length(name.lower().encode()) + _with_length(value.encode())
            for name, value in headers.items()
        )
        if len(plain) > MAX_CONTROL_BYTES - 1024:  # incompressible headers grow a little
            raise SpdyError("the headers of a stream are too large")
        return self._compressor.compress(plain) + self._compressor.flush(zlib.Z_SYNC_FLUSH)


class FrameReader:
    """Decodes the bytes of one connection. After an error it must not be used."""

    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(zdict=DICTIONARY)
        self._buffer = bytearray()
        self._data_left = 0
        """Bytes of a data frame that are still to come."""
        self._stream_id = 0
        self._has_fin = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that the next bytes of the connection complete. Raises SpdyError."""
        self._buffer += data
        while (frame := self._next()) is not None:
            if not isinstance(frame, _Skipped):
                yield frame

    def _next(self) -> Frame | _Skipped | None:
        if self._data_left:
            return self._next_data() if self._buffer else None
        head = self._buffer[:_HEAD_BYTES]
        if len(head) < _HEAD_BYTES:
            return None
        flags, size = head[4], int.from_bytes(head[5:8])
        if not int.from_bytes(head[:2]) & _CONTROL:
            del self._buffer[:_HEAD_BYTES]
            self._stream_id, self._has_fin = int.from_bytes(head[:4]), bool(flags & _FIN)
            self._data_left = size
            return self._next_data() if self._buffer or not size else _SKIPPED
        if int.from_bytes(head[:2]) & ~_CONTROL != _VERSION:
            raise SpdyError("a frame has another version of SPDY")
        if size > MAX_CONTROL_BYTES:
            raise SpdyError("a control frame is too large")
        if len(self._buffer) < _HEAD_BYTES + size:
            return None
        payload = bytes(self._buffer[_HEAD_BYTES : _HEAD_BYTES + size])
        del self._buffer[: _HEAD_BYTES + size]
        return self._control_frame(int.from_bytes(head[2:4]), flags, payload)

    def _next_data(self) -> Data:
        piece = bytes(self._buffer[: self._data_left])
        del self._buffer[: self._data_left]
        self._data_left -= len(piece)
        return Data(self._stream_id, piece, self._has_fin and not self._data_left)

    def _control_frame(self, kind: int, flags: int, payload: bytes) -> Frame | _Skipped:
        smallest = _SMALLEST.get(kind)
        if smallest is None:
            return _SKIPPED
        if len(payload) < smallest:
            raise SpdyError("a control frame is too short")
        number, fin = int.from_bytes(payload[:4]), bool(flags & _FIN)
        stream_id = number & _ID_MASK
        match kind:
            case _Kind.SYN_STREAM:
                headers = self._headers(payload[10:])
                return SynStream(stream_id, headers, fin, bool(flags & _UNIDIRECTIONAL))
            case _Kind.SYN_REPLY:
                return SynReply(stream_id, self._headers(payload[4:]), fin)
            case _Kind.RST_STREAM:
                return Reset(stream_id, int.from_bytes(payload[4:8]))
            case _Kind.PING:
                return Ping(number)
            case _Kind.GOAWAY:
                return GoAway(stream_id, int.from_bytes(payload[4:8]))
            case _:
                return MoreHeaders(stream_id, self._headers(payload[4:]), fin)

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            plain = self._decompressor.decompress(block, MAX_CONTROL_BYTES)
        except zlib.error as error:
            raise SpdyError(f"headers cannot be decompressed: {error}") from None
        if self._decompressor.unconsumed_tail or self._decompressor.eof:
            raise SpdyError("the headers of a stream are too large")
        return _parsed_headers(plain)


class _Skipped:
    """Stands for bytes that say nothing."""


_SKIPPED = _Skipped()
_SMALLEST: Mapping[int, int] = {
    _Kind.SYN_STREAM: 10,
    _Kind.SYN_REPLY: 4,
    _Kind.RST_STREAM: 8,
    _Kind.PING: 4,
    _Kind.GOAWAY: 8,
    _Kind.HEADERS: 4,
}
"""The bytes of the fields of each kind of control frame that is read."""


def _control(kind: int, payload: bytes, flags: int = 0) -> bytes:
    head = (_CONTROL | _VERSION).to_bytes(2) + kind.to_bytes(2)
    return head + _flags_and_size(flags, payload) + payload


def _flags_and_size(flags: int, payload: bytes) -> bytes:
    return bytes((flags,)) + len(payload).to_bytes(3)


def _parsed_headers(plain: bytes) -> dict[str, str]:
    texts, position = [], 4
    for _ in range(2 * int.from_bytes(plain[:4])):
        start = position + 4
        position = start + int.from_bytes(plain[position:start])
        if start > len(plain) or position > len(plain):
            raise SpdyError("the headers of a stream are cut off")
        texts.append(plain[start:position].decode("utf-8", "replace"))
    return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}
