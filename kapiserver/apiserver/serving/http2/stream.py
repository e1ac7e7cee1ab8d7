"""One stream of an HTTP/2 connection: a request and its response. Pure.

A stream is in two directions, each of which ends on its own. RFC 9113, section 5.1, has the states:

    state                 what happens                             next state
    idle                  the client sends HEADERS                 open
                          ... with END_STREAM                      half-closed (remote)
    open                  the client sends END_STREAM              half-closed (remote)
                          our response is sent whole               closed, by RST_STREAM
    half-closed (remote)  our response is sent whole               closed
    open, half-closed     RST_STREAM of either side                closed
                          the client sends what it may not         closed, by RST_STREAM
                          the connection is lost                   closed

An idle or a closed stream has no Stream: the connection knows the highest number that the client
has used. `half-closed (local)` does not occur, because RST_STREAM follows a response to a request
that is still arriving.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum

from kapiserver.apiserver.serving.http2.limits import (
    STREAM_WINDOW,
    ConnectionFault,
    StreamFault,
)
from kapiserver.codecs.http2.frames import PROTOCOL_ERROR, STREAM_CLOSED


class End(Enum):
    """How a stream was closed; it decides about frames that arrive later."""

    WHOLE = "END_STREAM in both directions"
    RESET_BY_US = "RST_STREAM of the server: the client may not know yet"
    RESET_BY_CLIENT = "RST_STREAM of the client"


class Stream:
    """One stream.

    has_request     whether the request has arrived whole
    is_closed       whether both directions have ended
    is_refused      whether no handler reads the request; its body is dropped
    expected        bytes of the body still to come by its Content-Length; None if unknown
    receive_window  bytes that the client may send
    unread          bytes that were received and are not acknowledged
    send_window     bytes that the client accepts
    head            the header block of the response, while it waits
    unsent          bytes of the response that wait
    is_finishing    whether nothing more is added to the response
    code            of the RST_STREAM that ends the response; None for END_STREAM
    on_drained      called when nothing of the response waits any more, or the stream is closed
    """

    __slots__ = (
        "_offset",
        "_pending",
        "code",
        "expected",
        "has_request",
        "head",
        "id",
        "is_closed",
        "is_finishing",
        "is_refused",
        "on_drained",
        "receive_window",
        "send_window",
        "unread",
        "unsent",
    )

    def __init__(self, stream_id: int, send_window: int) -> None:
        self.id = stream_id
        self.has_request = False
        self.is_closed = False
        self.is_refused = False
        self.expected: int | None = None
        self.receive_window = STREAM_WINDOW
        self.unread = 0
        self.send_window = send_window
        self.head = b""
        self._pending: deque[bytes] = deque()
        self._offset = 0
        self.unsent = 0
        self.is_finishing = False
        self.code: int | None = None
        self.on_drained: Callable[[], object] | None = None

    def add(self, data: bytes) -> None:
        """Add bytes to the response."""
        self._pending.append(data)
        self.unsent += len(data)

    def take(self, size: int) -> bytes:
        """Remove up to `size` bytes of the response, and return them."""
        pending = self._pending
        if len(pending) == 1 and not self._offset and self.unsent <= size:
            self.unsent = 0
            return pending.popleft()
        pieces: list[bytes] = []
        left = size
        while pending and left:
            first, start = pending[0], self._offset
            piece = first[start : start + left]
            pieces.append(piece)
            left -= len(piece)
            self._offset += len(piece)
            if self._offset == len(first):
                pending.popleft()
                self._offset = 0
        self.unsent -= size - left
        return b"".join(pieces)

    def close(self) -> None:
        """Both directions have ended; what waits is dropped."""
        self.is_closed = True
        self.head = b""
        self._pending.clear()
        self.unsent = self._offset = 0
        self.drained()

    def drained(self) -> None:
        """Report that nothing of the response waits."""
        if self.on_drained is not None:
            self.on_drained()


class ClosedStreams:
    """How the streams were closed that a connection has closed last: more than those that the
    client can take for open."""

    __slots__ = ("_ends", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ends: dict[int, End] = {}

    def add(self, stream_id: int, end: End) -> None:
        """A stream was closed."""
        self._ends[stream_id] = end
        if len(self._ends) > self._limit:
            del self._ends[next(iter(self._ends))]

    def check(self, stream_id: int) -> None:
        """Check a DATA or HEADERS frame of a closed stream: only one that the server has reset may
        have them. Raises StreamFault or ConnectionFault."""
        end = self._ends.get(stream_id)
        if end is End.RESET_BY_CLIENT:
            raise StreamFault(stream_id, STREAM_CLOSED)
        if end is End.WHOLE:
            raise ConnectionFault(STREAM_CLOSED, "a frame of a stream that has ended")
        if end is None:
            raise ConnectionFault(PROTOCOL_ERROR, "a frame of a stream that was left out")
