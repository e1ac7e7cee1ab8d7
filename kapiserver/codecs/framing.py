"""Delimits objects in a stream: JSON lines, length-prefixed frames, CBOR sequences.

I/O-free: framing turns bodies into bytes, and a reader turns chunks of any size into bodies. Knows
no object and no connection. Mirrors k8s.io/apimachinery/pkg/util/framer and RFC 8742.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from kapiserver.codecs.cbor_scanner import ItemScanner
from kapiserver.codecs.errors import Malformed, TooLarge

MAX_FRAME = 16 << 20
"""The largest body in bytes, as in Kubernetes' stream decoder."""

_PREFIX = 4


class FrameReader(Protocol):
    """Splits a stream into bodies."""

    def feed(self, data: bytes) -> list[bytes]:
        """Add the next bytes and return the completed bodies. Raises Malformed, TooLarge."""

    def close(self) -> None:
        """Signal the end of the stream. Raises Malformed if it ended inside a body."""


class Framing(Struct, frozen=True):
    """One way to delimit bodies in a stream.

    frame           returns one body with its delimiter
    make_reader     returns a new reader for one stream
    """

    name: str
    frame: Callable[[bytes], bytes]
    make_reader: Callable[[], FrameReader]


class _BufferedReader:
    """Buffers incomplete data. `_find_end` returns the end of the first body, or None."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        self._buffer += data
        bodies = []
        while (end := self._find_end()) is not None:
            bodies.append(self._body(end))
            del self._buffer[:end]
        if len(self._buffer) > MAX_FRAME + _PREFIX:
            raise TooLarge("object to decode was longer than maximum allowed size")
        return bodies

    def close(self) -> None:
        if self._buffer.strip():
            raise Malformed("unexpected EOF")

    def _find_end(self) -> int | None:
        raise NotImplementedError

    def _body(self, end: int) -> bytes:
        return bytes(self._buffer[:end])


class _LineReader(_BufferedReader):
    def __init__(self) -> None:
        super().__init__()
        self._scanned = 0

    def _find_end(self) -> int | None:
        newline = self._buffer.find(b"\n", self._scanned)
        self._scanned = 0 if newline >= 0 else len(self._buffer)
        return newline + 1 if newline >= 0 else None


class _LengthPrefixReader(_BufferedReader):
    def _find_end(self) -> int | None:
        if len(self._buffer) < _PREFIX:
            return None
        length = int.from_bytes(self._buffer[:_PREFIX], "big")
        if length > MAX_FRAME:
            raise TooLarge("object to decode was longer than maximum allowed size")
        return _PREFIX + length if len(self._buffer) >= _PREFIX + length else None

    def _body(self, end: int) -> bytes:
        return bytes(self._buffer[_PREFIX:end])

    def close(self) -> None:
        if self._buffer:
            raise Malformed("unexpected EOF")


class _SequenceReader(_BufferedReader):
    def __init__(self) -> None:
        super().__init__()
        self._scanner = ItemScanner()

    def _find_end(self) -> int | None:
        return self._scanner.find_end(self._buffer)

    def _body(self, end: int) -> bytes:
        self._scanner = ItemScanner()
        return bytes(self._buffer[:end])

    def close(self) -> None:
        if self._buffer:
            raise Malformed("unexpected EOF")


def _frame_line(body: bytes) -> bytes:
    return body if body.endswith(b"\n") else body + b"\n"


def _frame_with_length(body: bytes) -> bytes:
    return len(body).to_bytes(_PREFIX, "big") + body


def _frame_unchanged(body: bytes) -> bytes:
    return body


JSON_LINES = Framing("json-lines", _frame_line, _LineReader)
LENGTH_PREFIXED = Framing("length-prefixed", _frame_with_length, _LengthPrefixReader)
CBOR_SEQUENCE = Framing("cbor-sequence", _frame_unchanged, _SequenceReader)
