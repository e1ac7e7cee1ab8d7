"""Clients of streams in this process: both ends speak over a LocalPeer, without sockets."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Pong, TextMessage

from kapiserver.apiserver.response import UpgradedPeer
from kapiserver.apiserver.streaming.spdy_connection import (
    OnStream,
    SpdyConnection,
    SpdyStream,
    refuse_stream,
)

_PIECE = 64 << 10


@asynccontextmanager
async def spdy_client(
    peer: UpgradedPeer, on_stream: OnStream = refuse_stream
) -> AsyncIterator[SpdyConnection]:
    """The client's side of SPDY, and its end."""
    connection = SpdyConnection(peer, on_stream, is_client=True)
    reading = asyncio.create_task(connection.run())
    try:
        yield connection
    finally:
        peer.close()
        await asyncio.wait([reading], timeout=60)
        peer.abort()


async def contents(stream: SpdyStream) -> bytes:
    """All that a stream carries."""
    data = b""
    while piece := await stream.read():
        data += piece
    return data


class WebSocketClient:
    """The client's side of WebSocket."""

    def __init__(self, peer: UpgradedPeer) -> None:
        self._peer = peer
        self._protocol = Connection(ConnectionType.CLIENT)
        self.closed: CloseConnection | None = None
        self.pongs: list[bytes] = []

    async def send(self, *events: Event) -> None:
        """Send messages, as they would arrive from a socket."""
        data = b"".join(map(self._protocol.send, events))
        for start in range(0, len(data), _PIECE):
            await self._peer.write(data[start : start + _PIECE])

    async def send_bytes(self, data: bytes) -> None:
        await self.send(BytesMessage(data=data))

    async def send_raw(self, data: bytes) -> None:
        """Send bytes that are no frame."""
        await self._peer.write(data)

    async def messages(self) -> AsyncIterator[bytes | str]:
        """Yield whole messages until the server closes the connection, and close it, too."""
        message: list[bytes | str] = []
        while data := await self._peer.read():
            self._protocol.receive_data(data)
            for event in self._protocol.events():
                if isinstance(event, BytesMessage | TextMessage):
                    message.append(_plain(event.data))
                    if event.message_finished:
                        yield type(message[0])().join(message)
                        message.clear()
                elif isinstance(event, Pong):
                    self.pongs.append(bytes(event.payload))
                elif isinstance(event, CloseConnection):
                    self.closed = event
                    self._peer.close()

    async def send_on_channel(self, number: int, data: bytes, *, is_base64: bool) -> None:
        if is_base64:
            await self.send(TextMessage(data=str(number) + base64.b64encode(data).decode()))
        else:
            await self.send_bytes(bytes((number,)) + data)

    @staticmethod
    def decoded(message: bytes | str, *, is_base64: bool) -> tuple[int, bytes]:
        """The channel and the data of a message."""
        assert isinstance(message, str) is is_base64
        if isinstance(message, str):
            return int(message[0]), base64.b64decode(message[1:], validate=True)
        return message[0], message[1:]

    async def decoded_messages(self, *, is_base64: bool) -> list[tuple[int, bytes]]:
        messages = await self.all_messages()
        return [self.decoded(message, is_base64=is_base64) for message in messages]

    async def all_messages(self) -> list[bytes | str]:
        return [message async for message in self.messages()]


class TunnelledClient:
    """The messages of a WebSocket as the client's byte stream. An UpgradedPeer."""

    def __init__(self, peer: UpgradedPeer) -> None:
        self._peer = peer
        self._websocket = WebSocketClient(peer)
        self._messages = self._websocket.messages()
        self.close, self.abort = peer.close, peer.abort

    async def read(self) -> bytes:
        message = await anext(self._messages, b"")
        assert isinstance(message, bytes)
        return message

    async def write(self, data: bytes) -> None:
        await self._websocket.send_bytes(data)


def _plain(data: bytes | bytearray | str) -> bytes | str:
    return data if isinstance(data, str) else bytes(data)
