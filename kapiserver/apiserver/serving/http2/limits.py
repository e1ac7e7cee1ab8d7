"""What a client of an HTTP/2 connection may send, and how often it may send what leads to nothing.

The windows bound what the server holds for a client: as over HTTP/1.1, 256 KiB for each request,
and until the client has authenticated 1 MiB for all of them together. A header block, its fields
and its frames have limits of their own.

Frames that lead to nothing are cheap to send: PING, SETTINGS, PRIORITY, empty DATA, the reset of a
stream, and windows of a few bytes or for bytes that were never sent. Each costs a part of the
connection's allowance. Time and useful work refund it, and a client without allowance is sent away
with ENHANCE_YOUR_CALM. So bounded are, among others, CVE-2023-44487 (rapid reset) and CVE-2019-9511
to 9518.
"""

from __future__ import annotations

from kapiserver.apiserver.serving.http1.request_body import UNREAD_BYTES
from kapiserver.codecs.http2.frames import ENHANCE_YOUR_CALM, FRAME_SIZE_ERROR

STREAM_WINDOW = UNREAD_BYTES
"""Bytes that a client may send on a stream before a handler takes them."""
ANONYMOUS_WINDOW = 1 << 20
"""Bytes that a client may send on all streams, until one of its requests has authenticated."""
RUNNING_PER_STREAM = 2
"""A handler may run on for a while when the client has reset its stream. With this many times the
allowed streams in handlers, new streams are refused."""
HEADER_LIST_BYTES = 256 << 10
"""The maximum size of a header block and of its fields. Decoding them takes 10 ms."""
MAX_CONTINUATIONS = 64
"""CONTINUATION frames of a header block."""
MAX_SETTINGS = 100
"""Settings in one frame, as in Go's server."""

ALLOWANCE = 1000
"""How many frames that lead to nothing a client may send at once."""
REFUND_PER_SECOND = 50
REFUND_PER_FRAME = 3
"""What a useful DATA frame to the client refunds: it may answer one with two WINDOW_UPDATEs."""
SMALL_DATA_BYTES = 16
"""A DATA frame with fewer bytes of a body is worth nothing, unless it ends the body."""
SMALL_WINDOW_BYTES = 1024
"""A WINDOW_UPDATE of fewer bytes is worth nothing, and a DATA frame to the client that a window cut
to fewer bytes refunds nothing."""


class ConnectionFault(Exception):
    """The client broke the protocol, and the server closes the connection. `code` is that of
    GOAWAY."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class StreamFault(Exception):
    """The client broke the protocol on one stream, which the server resets with `code`."""

    def __init__(self, stream_id: int, code: int) -> None:
        super().__init__()
        self.stream_id = stream_id
        self.code = code


def check_frame(is_valid: bool, code: int = FRAME_SIZE_ERROR) -> None:
    """Raise ConnectionFault for a frame of a wrong size, or with a wrong stream or value."""
    if not is_valid:
        raise ConnectionFault(code, "an invalid frame")


class Allowance:
    """What a client may still send that leads to nothing."""

    __slots__ = ("_left", "_since")

    def __init__(self) -> None:
        self._left: float = ALLOWANCE
        self._since = 0.0

    def spend(self, count: int, now: float) -> None:
        """Count frames, at a time in seconds. Raises ConnectionFault if nothing is left."""
        self._left -= count
        if self._left < 0:
            self.refund((now - self._since) * REFUND_PER_SECOND)
            self._since = now
            if self._left < 0:
                raise ConnectionFault(ENHANCE_YOUR_CALM, "too many frames that lead to nothing")

    def refund(self, count: float) -> None:
        """Give back a part."""
        left = self._left + count
        self._left = left if left < ALLOWANCE else ALLOWANCE
