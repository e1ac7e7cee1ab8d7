"""What an HTTP/2 connection sends: frames in order, and responses as the windows allow. Pure.

Frames about the connection go out with the next `take`. Responses wait in their streams, and each
`take` moves a bounded part of them into frames, a frame of one stream after a frame of another. So
a stream with much to send does not hold up the others, and the bytes that wait on a connection are
those of its streams, not copies.

    state of a response   what happens                         next state
    none                  `send`                               ready
    ready                 `take` has sent all of it so far     none
                          ... and it is finishing              closed
                          its window is used up                blocked
                          the connection's window is used up   starved
    blocked               WINDOW_UPDATE of the stream          ready
    starved               WINDOW_UPDATE of the connection      ready
    any                   the stream is closed                 closed
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kapiserver.apiserver.serving.http2.limits import (
    REFUND_PER_FRAME,
    SMALL_WINDOW_BYTES,
    Allowance,
    check_frame,
)
from kapiserver.apiserver.serving.http2.stream import Stream
from kapiserver.codecs.http2 import frames
from kapiserver.codecs.http2.hpack import NO_TABLE

MAX_SENT_FRAME_BYTES = 64 << 10
"""Bytes of a DATA frame, even if the client takes more: other streams wait for its end."""
_HEADER = frames.HEADER


class Outgoing:
    """The frames that wait for the client.

    window          bytes that the client accepts on all streams
    initial_window  bytes that the client accepts on a new stream
    frame_bytes     the largest frame that the client accepts
    """

    __slots__ = (
        "_allowance",
        "_blocked",
        "_frames",
        "_has_sent_headers",
        "_on_sent",
        "_ready",
        "_starved",
        "_unacknowledged",
        "frame_bytes",
        "initial_window",
        "window",
    )

    def __init__(self, allowance: Allowance, on_sent: Callable[[Stream], object]) -> None:
        """`on_sent` is called when a response is sent whole."""
        self._allowance = allowance
        self._on_sent = on_sent
        self._frames: list[bytes] = []
        self._ready: dict[Stream, None] = {}
        self._blocked: set[Stream] = set()
        self._starved: dict[Stream, None] = {}
        self._has_sent_headers = False
        self._unacknowledged = 0
        """Bytes of DATA that the client may acknowledge, on its stream and on the connection."""
        self.window = frames.DEFAULT_WINDOW
        self.initial_window = frames.DEFAULT_WINDOW
        self.frame_bytes = frames.FRAME_BYTES

    @property
    def has_frames(self) -> bool:
        """Whether `take` returns bytes, given room."""
        return bool(self._frames or self._ready)

    def set(self, key: int, value: int, streams: Collection[Stream]) -> None:
        """Take a setting of the client. Raises ConnectionFault for an invalid value."""
        if key == frames.ENABLE_PUSH:
            check_frame(value <= 1, frames.PROTOCOL_ERROR)
        elif key == frames.MAX_FRAME_SIZE:
            is_valid = frames.FRAME_BYTES <= value <= frames.MAX_FRAME_BYTES
            check_frame(is_valid, frames.PROTOCOL_ERROR)
            self.frame_bytes = value
        elif key == frames.INITIAL_WINDOW_SIZE:
            check_frame(value <= frames.MAX_WINDOW, frames.FLOW_CONTROL_ERROR)
            change, self.initial_window = value - self.initial_window, value
            for stream in streams:
                stream.send_window += change  # may become negative
                check_frame(stream.send_window <= frames.MAX_WINDOW, frames.FLOW_CONTROL_ERROR)
                self.widen(stream)

    def acknowledge(self, size: int) -> bool:
        """A window grows. Return whether that acknowledges DATA, and not only a few bytes: clients
        send such a WINDOW_UPDATE for each 4 KiB of a list, also when its stream has ended."""
        is_useful = SMALL_WINDOW_BYTES <= size <= self._unacknowledged
        if is_useful:
            self._unacknowledged -= size
        return is_useful

    def write(self, frame: bytes) -> None:
        """Send a frame that waits for nothing; b"" is none."""
        if frame:
            self._frames.append(frame)

    def write_head(self, stream: Stream, block: bytes, *, is_last: bool) -> None:
        """Send a header block that waits for nothing."""
        if not self._has_sent_headers:
            # The client may allow us no table; saying that we use none is right in any case.
            self._has_sent_headers = True
            block = NO_TABLE + block
        first, rest = block[: self.frame_bytes], block[self.frame_bytes :]
        flags = (frames.END_STREAM if is_last else 0) | (0 if rest else frames.END_HEADERS)
        self.write(frames.frame(frames.HEADERS, flags, stream.id, first))
        while rest:
            part, rest = rest[: self.frame_bytes], rest[self.frame_bytes :]
            flags = 0 if rest else frames.END_HEADERS
            self.write(frames.frame(frames.CONTINUATION, flags, stream.id, part))

    def send(self, stream: Stream) -> None:
        """Send what the stream has to send."""
        if stream not in self._blocked and stream not in self._starved:
            self._ready[stream] = None

    def forget(self, stream: Stream) -> None:
        """Send nothing more of a stream, which is closed."""
        self._ready.pop(stream, None)
        self._blocked.discard(stream)
        self._starved.pop(stream, None)

    def widen(self, stream: Stream | None) -> None:
        """A window has grown: that of a stream, or that of the connection."""
        if stream is None:
            if self.window > 0:
                self._ready |= self._starved
                self._starved.clear()
        elif stream.send_window > 0 and stream in self._blocked:
            self._blocked.discard(stream)
            self._ready[stream] = None

    def take(self, room: int) -> bytes:
        """Return the next bytes for the client: all frames that wait for nothing, and about `room`
        bytes of responses."""
        while self._ready and room > 0:
            stream = next(iter(self._ready))
            del self._ready[stream]
            room -= self._send_some(stream)
        taken, self._frames = self._frames, []
        return taken[0] if len(taken) == 1 else b"".join(taken)

    def _send_some(self, stream: Stream) -> int:
        """Send a part of a response; return its bytes."""
        sent = 1  # so that responses without bodies use up the room, too
        if stream.head:
            is_last = stream.is_finishing and not stream.unsent and stream.code is None
            sent = len(stream.head)
            self.write_head(stream, stream.head, is_last=is_last)
            stream.head = b""
            if is_last:
                self._on_sent(stream)
                return sent
        if stream.unsent:
            sent += self._send_data(stream)
            if stream.unsent:
                return sent
            stream.drained()
        elif stream.is_finishing and stream.code is None:
            self.write(frames.frame(frames.DATA, frames.END_STREAM, stream.id))
        if stream.is_finishing:
            self._on_sent(stream)
        return sent

    def _send_data(self, stream: Stream) -> int:
        window = min(stream.send_window, self.window)
        size = min(window, self.frame_bytes, MAX_SENT_FRAME_BYTES, stream.unsent)
        if size <= 0:
            self._wait(stream)
            return 0
        data = stream.take(size)
        stream.send_window -= size
        self.window -= size
        self._unacknowledged += 2 * size
        is_last = not stream.unsent and stream.is_finishing and stream.code is None
        flags = frames.END_STREAM if is_last else 0
        header = _HEADER.pack(size >> 8, size & 255, frames.DATA, flags, stream.id)
        self._frames += (header, data)
        if size >= SMALL_WINDOW_BYTES or not stream.unsent:
            self._allowance.refund(REFUND_PER_FRAME)
        if stream.unsent:
            self._wait(stream)
        return size

    def _wait(self, stream: Stream) -> None:
        """Put a stream with more to send where it waits."""
        if stream.send_window <= 0:
            self._blocked.add(stream)
        elif self.window <= 0:
            self._starved[stream] = None
        else:
            self._ready[stream] = None  # behind the others
