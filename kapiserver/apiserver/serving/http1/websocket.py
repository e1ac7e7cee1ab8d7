"""Streams over WebSocket, for watches of clients in browsers and in Java: one message an event.

Knows no Kubernetes. Mirrors ServeWS of endpoints/handlers/watch.go of k8s.io/apiserver. Source: RFC
6455.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kapiserver.apiserver.response import Headers
from kapiserver.apiserver.serving.http1.response_head import switching_head
from kapiserver.apiserver.serving.http1.stream_sink import StreamSink
from kapiserver.apiserver.streaming.handshake import accept_key

MAX_PONG_BACKLOG = 64 << 10
"""Bytes buffered for the client above which its pings get no answer."""

_TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x1, 0x2, 0x8, 0x9, 0xA
_FINAL = 0x80
_MASKED = 0x80
_MAX_CONTROL = 125
"""The maximum size of the payload of a control frame."""
_NORMAL_CLOSURE = (1000).to_bytes(2)


def frame(opcode: int, payload: bytes) -> bytes:
    """Return a frame of the server that holds a whole message."""
    size = len(payload)
    first = _FINAL | opcode
    if size <= _MAX_CONTROL:
        return bytes((first, size)) + payload
    if size < 1 << 16:
        return bytes((first, 126)) + size.to_bytes(2) + payload
    return bytes((first, 127)) + size.to_bytes(8) + payload


class WebSocketSink(StreamSink):
    """Writes each event of a JSON stream, a line, as a text message. Other encodings have binary
    messages of one or more whole events.

    It answers the client's pings, ends the stream at its close frame, and ignores its messages.
    """

    __slots__ = ("_key", "_ping", "_protocol", "_received", "_skip")

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        drain: Callable[[], Awaitable[None]],
        *,
        key: str,
        protocol: str = "",
    ) -> None:
        """Write to `transport`; `key` is the client's Sec-WebSocket-Key, `protocol` the subprotocol
        that it offers."""
        super().__init__(transport, drain, chunked=False)
        self._key = key
        self._protocol = protocol
        self._received = b""
        self._ping: bytes | None = None
        self._skip = 0
        """Bytes of the client's message that are still to come."""

    def switching_head(self, headers: Headers) -> bytes:
        """Return the head of the response that ends the handshake."""
        if self._protocol:  # browsers close a connection whose response does not name it
            headers = [*headers, ("Sec-WebSocket-Protocol", self._protocol)]
        handshake = [("Upgrade", "websocket"), ("Connection", "Upgrade")]
        handshake.append(("Sec-WebSocket-Accept", accept_key(self._key)))
        return switching_head([*handshake, *headers])

    def write(self, frames: bytes) -> int:
        """Write one or more whole events."""
        if frames[:1] == b"{" and frames[-1:] == b"\n":
            messages = [frame(_TEXT, line) for line in frames.splitlines(keepends=True)]
            return super().write(b"".join(messages))
        return super().write(frame(_BINARY, frames) if frames else b"")

    def close(self) -> None:
        """End the stream with a close frame."""
        if not self.closed.done() and not self._transport.is_closing():
            super().write(frame(_CLOSE, _NORMAL_CLOSURE))
        super().close()

    def receive(self, data: bytes) -> None:
        """Take bytes of the client. A close frame, and a frame that breaks the protocol, end the
        stream. If several pings come at once, only the last one gets an answer."""
        data = self._received + data
        position = 0
        self._ping = None
        while position < len(data) and not self.closed.done():
            consumed = min(self._skip, len(data) - position)
            self._skip -= consumed
            if not consumed:
                consumed = self._take_frame(data, position)
            if not consumed:
                break
            position += consumed
        self._received = data[position:]
        if self._ping is not None and self.backlog() < MAX_PONG_BACKLOG:
            super().write(frame(_PONG, self._ping))

    def _take_frame(self, data: bytes, start: int) -> int:
        """Take a control frame, or the head of a message. Return how many bytes it has; 0 if it is
        not complete."""
        head = data[start : start + 10]
        if len(head) < 2:
            return 0
        opcode, size = head[0] & 0x0F, head[1] & 0x7F
        is_control = opcode >= _CLOSE
        if not head[1] & _MASKED or opcode == _CLOSE or (is_control and size > _MAX_CONTROL):
            self.close()
            return 0
        if is_control:
            return self._take_control_frame(opcode, data[start : start + 6 + size], size)
        length_bytes = {126: 2, 127: 8}.get(size, 0)
        if len(head) < 2 + length_bytes:
            return 0
        if length_bytes:
            size = int.from_bytes(head[2 : 2 + length_bytes], "big")
        self._skip = 4 + size  # the mask and the payload
        return 2 + length_bytes

    def _take_control_frame(self, opcode: int, data: bytes, size: int) -> int:
        """Take a frame with a payload of `size` bytes. Return how many bytes it has; 0 if it is not
        complete."""
        if len(data) < 6 + size:
            return 0
        if opcode == _PING:
            mask, payload = data[2:6], data[6:]
            self._ping = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
        return 6 + size
