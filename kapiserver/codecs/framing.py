"""How objects follow each other in a stream: JSON lines, length-prefixed frames, CBOR sequences.

Sans-io: bodies in, bytes out; chunks of any size in, bodies out. Knows neither what a body means
nor where the bytes travel. Mirrors k8s.io/apimachinery/pkg/util/framer and RFC 8742.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kapiserver.codecs.cbor_scanner import ItemScanner
from kapiserver.codecs.errors import Malformed, TooLarge

MAX_FRAME = 16 << 20
"""Bytes of one body: what Kubernetes' own stream decoder takes."""

_PREFIX = 4


class FrameReader(Protocol):
    """Cuts a stream into bodies."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; return the bodies they complete. Raises Malformed, TooLarge."""

    def close(self) -> None:
        """The stream has ended. Raises Malformed when it did so inside a body."""


@dataclass(frozen=True, slots=True)
class Framing:
    """One way to put bodies into a stream.

    frame       one body, ready to be sent
    reader      makes the reader of one stream
    """

    name: str
    frame: Callable[[bytes], bytes]
    make_reader: Callable[[], FrameReader]


class _BufferedReader:
    """Keeps what is not complete yet; `_end` says where the first body ends, if it does."""

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
