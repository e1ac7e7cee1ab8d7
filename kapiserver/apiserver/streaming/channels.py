"""Streams over WebSocket: the first byte of each message is the number of its stream.

The subprotocols `channel.k8s.io` have binary messages. Those with `base64.` in their names have
text messages: a digit, and data in base64. Version 5 adds a message that ends a stream of the
client. Mirrors the package wsstream of k8s.io/streaming/pkg/httpstream.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable

from kapiserver.apiserver.streaming.stream import Incoming, Unread
from kapiserver.apiserver.streaming.websocket_connection import (
    TOO_BIG,
    Fragment,
    WebSocketConnection,
)

MAX_MESSAGE_BYTES = 1 << 20
"""A message in base64, which is decoded as a whole."""

_CLOSE_SIGNAL = 255


class Channel:
    """One stream. A Stream."""

    def __init__(self, channels: Channels, number: int, unread: Unread) -> None:
        self._channels = channels
        self._number = number
        self.incoming = Incoming(unread)

    async def read(self) -> bytes:
        """Return the data received since the last call; wait for some. b"" means the end."""
        return await self.incoming.read()

    async def write(self, data: bytes) -> None:
        """Send data as a message. Raises ConnectionError."""
        await self._channels.send(self._number, data)

    async def close(self) -> None:
        """Nothing: these protocols have no message that ends a stream of the server."""


class Channels:
    """The streams of one connection. `run` must run as long as streams are used."""

    def __init__(
        self, connection: WebSocketConnection, protocol: str, numbers: Iterable[int]
    ) -> None:
        """`protocol` is the subprotocol, `numbers` are those of the streams."""
        self._connection = connection
        self._is_base64 = "base64." in protocol
        self._has_close_signal = protocol.startswith("v5.")
        self._unread = Unread()
        self._streams = {number: Channel(self, number, self._unread) for number in numbers}
        self._message = bytearray()
        """The parts of a message that have arrived, if it can only be read as a whole."""
        self._number: int | None = None
        """The stream of the message whose parts are passed on as they arrive."""

    def __getitem__(self, number: int) -> Channel:
        return self._streams[number]

    async def run(self) -> None:
        """Read until the connection ends, which ends all streams. Raises ConnectionError."""
        try:
            while (fragment := await self._connection.receive()) is not None:
                if not self._take(fragment):
                    await self._connection.close(TOO_BIG)
                    return
                await self._unread.wait_for_room()
        finally:
            for stream in self._streams.values():
                stream.incoming.end()

    async def send(self, number: int, data: bytes) -> None:
        """Send data of a stream. Raises ConnectionError."""
        if self._is_base64:
            text = str(number).encode() + base64.b64encode(data)
            await self._connection.send(text, is_text=True)
        else:
            await self._connection.send(bytes((number,)) + data)

    async def close(self) -> None:
        """Send that no more messages follow. Raises ConnectionError."""
        await self._connection.close()

    def _take(self, fragment: Fragment) -> bool:
        """Pass on what a part of a message holds; return False if the message is too large."""
        if not self._is_base64 and self._number is not None:
            self._add(self._number, fragment.data)
        else:
            self._message += fragment.data
            if len(self._message) > MAX_MESSAGE_BYTES and self._is_base64:
                return False
            self._take_beginning(is_whole=fragment.is_last)
        if fragment.is_last:
            self._number = None
            self._message.clear()
        return True

    def _take_beginning(self, *, is_whole: bool) -> None:
        message = self._message
        if self._is_base64:
            if is_whole and message:
                self._add(message[0] - ord("0"), _decoded(bytes(message[1:])))
        elif message[:1] == bytes((_CLOSE_SIGNAL,)) and self._has_close_signal:
            if len(message) == 2 and message[1] in self._streams:
                self._streams[message[1]].incoming.end()
            del message[2:]
        elif message:
            self._number = message[0]
            self._add(self._number, bytes(message[1:]))
            message.clear()

    def _add(self, number: int, data: bytes) -> None:
        """Add data to a stream; data of a stream that does not exist is dropped."""
        if number in self._streams:
            self._streams[number].incoming.add(data)


def _decoded(text: bytes) -> bytes:
    """Return the data of a text in base64; b"" if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""
