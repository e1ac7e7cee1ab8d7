"""Reads the frames that a client sends on an HTTP/2 connection. Pure.

A header block may come in several frames; it is returned as one HEADERS frame. The states:

    state      what arrives                                  next state
    preface    the client's preface                          settings
    settings   SETTINGS                                      frames
    frames     HEADERS without END_HEADERS                   block
               any other frame                               frames
    block      CONTINUATION of the same stream               block
               ... with END_HEADERS                          frames
    any        anything else, or too much                    ConnectionFault

What waits for the rest of a frame or of a block is bounded by FRAME_BYTES and HEADER_LIST_BYTES.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from kapiserver.apiserver.serving.http2.limits import (
    HEADER_LIST_BYTES,
    MAX_CONTINUATIONS,
    ConnectionFault,
)
from kapiserver.codecs.http2 import frames
from kapiserver.codecs.http2.frames import CONTINUATION, END_HEADERS, HEADERS, MAX_STREAM_ID

Frame: TypeAlias = tuple[int, int, int, bytes]
"""Type, flags, stream and payload."""

_HEAD = frames.HEADER
_HEAD_BYTES = _HEAD.size


class FrameReader:
    """Reads the frames of one connection.

    has_preface     whether the client has sent its preface and SETTINGS
    block_bytes     bytes of the frames of a header block that is incomplete
    """

    __slots__ = ("_block", "_block_flags", "_block_stream", "_buffer", "_skips_preface",
                 "block_bytes", "has_preface")  # fmt: skip

    def __init__(self) -> None:
        self.has_preface = False
        self._skips_preface = False
        self._buffer = b""
        self._block: list[bytes] = []
        self._block_stream = 0
        """The stream of a header block that is incomplete; 0 if there is none."""
        self._block_flags = 0
        self.block_bytes = 0

    def close(self) -> None:
        """Drop what waits."""
        self._buffer = b""
        self._end_block()

    def read(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete now; the caller takes all of them, or closes the
        reader. Raises ConnectionFault."""
        if self._buffer:
            data = self._buffer + data
        start, size = 0, len(data)
        if not self._skips_preface:
            start = self._read_preface(data)
        while self._skips_preface and size - start >= _HEAD_BYTES:
            high, low, kind, flags, stream_id = _HEAD.unpack_from(data, start)
            length = high << 8 | low
            if length > frames.FRAME_BYTES:
                raise ConnectionFault(frames.FRAME_SIZE_ERROR, "a frame is too long")
            end = start + _HEAD_BYTES + length
            if end > size:
                break
            frame = kind, flags, stream_id & MAX_STREAM_ID, data[start + _HEAD_BYTES : end]
            start = end
            is_whole = flags & END_HEADERS and stream_id & 1 if kind == HEADERS else True
            if is_whole and self.has_preface and kind != CONTINUATION and not self._block_stream:
                yield frame
            elif (whole := self._check(frame)) is not None:
                yield whole
        self._buffer = data[start:]

    def _read_preface(self, data: bytes) -> int:
        size = len(frames.PREFACE)
        if data[:size] != frames.PREFACE[: len(data)]:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "not the preface of HTTP/2")
        self._skips_preface = len(data) >= size
        return size if self._skips_preface else 0

    def _check(self, frame: Frame) -> Frame | None:
        """Return a frame whose place matters; None for a part of a header block."""
        kind, flags, stream_id, payload = frame
        if not self.has_preface:
            if kind != frames.SETTINGS or flags & frames.ACK:
                raise ConnectionFault(frames.PROTOCOL_ERROR, "the first frame is not SETTINGS")
            self.has_preface = True
            return frame
        if kind == CONTINUATION:
            return self._continue_block(frame)
        if self._block_stream:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "a header block is not continued")
        if not stream_id & 1:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "headers of an even stream")
        if flags & END_HEADERS:
            return frame
        # The padding and the priority are in the first frame, whose rest begins the block.
        payload = unpad(payload, flags, keep_priority=True)
        self._block_stream, self._block_flags = stream_id, flags & ~frames.PADDED
        self._block, self.block_bytes = [payload], _HEAD_BYTES + len(payload)
        return None

    def _continue_block(self, frame: Frame) -> Frame | None:
        _, flags, stream_id, payload = frame
        if not self._block_stream or stream_id != self._block_stream:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "CONTINUATION continues nothing")
        self._block.append(payload)
        self.block_bytes += _HEAD_BYTES + len(payload)
        if self.block_bytes > HEADER_LIST_BYTES or len(self._block) > MAX_CONTINUATIONS:
            raise ConnectionFault(frames.ENHANCE_YOUR_CALM, "a header block is too long")
        if not flags & END_HEADERS:
            return None
        whole = HEADERS, self._block_flags | END_HEADERS, stream_id, b"".join(self._block)
        self._end_block()
        return whole

    def _end_block(self) -> None:
        self._block_stream, self._block, self.block_bytes = 0, [], 0


def unpad(payload: bytes, flags: int, *, keep_priority: bool = False) -> bytes:
    """Return the content of a frame without its padding and priority. Raises ConnectionFault."""
    if keep_priority:
        flags &= ~frames.PRIORITY_FLAG
    try:
        return frames.unpad(payload, flags)
    except frames.ProtocolError as error:
        raise ConnectionFault(frames.PROTOCOL_ERROR, str(error)) from None
