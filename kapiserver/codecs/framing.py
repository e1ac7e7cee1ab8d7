"""How objects follow each other in a stream: JSON lines, length-prefixed frames, CBOR sequences.

Sans-io: bodies in, bytes out; chunks of any size in, bodies out. Knows neither what a body means
nor where the bytes travel. Mirrors k8s.io/apimachinery/pkg/util/framer and RFC 8742.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kapiserver.codecs.cbor_items import ItemEnd
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
    reader: Callable[[], FrameReader]


class _Reader:
    """Keeps what is not complete yet; `_end` says where the first body ends, if it does."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        self._rest += data
        bodies = []
        while (end := self._end()) is not None:
            bodies.append(self._body(end))
            del self._rest[:end]
        if len(self._rest) > MAX_FRAME + _PREFIX:
            raise TooLarge("object to decode was longer than maximum allowed size")
        return bodies

    def close(self) -> None:
        if self._rest.strip():
            raise Malformed("unexpected EOF")

    def _end(self) -> int | None:
        raise NotImplementedError

    def _body(self, end: int) -> bytes:
        return bytes(self._rest[:end])


class _LineReader(_Reader):
    def __init__(self) -> None:
        super().__init__()
        self._searched = 0

    def _end(self) -> int | None:
        found = self._rest.find(b"\n", self._searched)
        self._searched = 0 if found >= 0 else len(self._rest)
        return found + 1 if found >= 0 else None


class _LengthReader(_Reader):
    def _end(self) -> int | None:
        if len(self._rest) < _PREFIX:
            return None
        length = int.from_bytes(self._rest[:_PREFIX], "big")
        if length > MAX_FRAME:
            raise TooLarge("object to decode was longer than maximum allowed size")
        return _PREFIX + length if len(self._rest) >= _PREFIX + length else None

    def _body(self, end: int) -> bytes:
        return bytes(self._rest[_PREFIX:end])

    def close(self) -> None:
        if self._rest:
            raise Malformed("unexpected EOF")


class _SequenceReader(_Reader):
    def __init__(self) -> None:
        super().__init__()
        self._item = ItemEnd()

    def _end(self) -> int | None:
        return self._item.find(self._rest)

    def _body(self, end: int) -> bytes:
        self._item = ItemEnd()
        return bytes(self._rest[:end])

    def close(self) -> None:
        if self._rest:
            raise Malformed("unexpected EOF")


def _line(body: bytes) -> bytes:
    return body if body.endswith(b"\n") else body + b"\n"


def _with_length(body: bytes) -> bytes:
    return len(body).to_bytes(_PREFIX, "big") + body


def _bare(body: bytes) -> bytes:
    return body


JSON_LINES = Framing("json-lines", _line, _LineReader)
LENGTH_PREFIXED = Framing("length-prefixed", _with_length, _LengthReader)
CBOR_SEQUENCE = Framing("cbor-sequence", _bare, _SequenceReader)
