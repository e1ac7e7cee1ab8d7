"""How many bytes of bodies a client may send on all streams of a connection. Pure."""

from __future__ import annotations

from kapiserver.apiserver.serving.http2.limits import ANONYMOUS_WINDOW, ConnectionFault
from kapiserver.codecs.http2 import frames


class ReceiveWindow:
    """The window of one connection. Its methods return the frames to send, or b""."""

    __slots__ = ("_left", "_size", "_unacknowledged")

    def __init__(self) -> None:
        self._size = self._left = ANONYMOUS_WINDOW
        self._unacknowledged = 0

    def begin(self) -> bytes:
        """Return the frame that tells the client the size."""
        return frames.window_update(0, self._size - frames.DEFAULT_WINDOW)

    def use(self, size: int) -> None:
        """The client has sent bytes. Raises ConnectionFault if there are too many."""
        self._left -= size
        if self._left < 0:
            raise ConnectionFault(frames.FLOW_CONTROL_ERROR, "more than the connection's window")

    def acknowledge(self, size: int) -> bytes:
        """Bytes that the client has sent are taken, or dropped."""
        self._unacknowledged += size
        if self._unacknowledged < self._size // 2:
            return b""
        size, self._unacknowledged = self._unacknowledged, 0
        self._left += size
        return frames.window_update(0, size)

    def widen(self, size: int) -> bytes:
        """Let the client send `size` bytes, if it could send less."""
        added = size - self._size
        if added <= 0:
            return b""
        self._size = size
        self._left += added
        return frames.window_update(0, added)
