"""Messages over WebSocket, of a server. Knows no Kubernetes. wsproto parses and builds frames."""

from __future__ import annotations

import asyncio
from collections import deque

from msgspec import Struct
from wsproto.connection import Connection, ConnectionType
from wsproto.events import (
    BytesMessage,
    CloseConnection,
    Event,
    Message,
    Ping,
    Pong,
    TextMessage,
)
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from kapiserver.apiserver.byte_stream import ByteStream

IDLE_SECONDS = 4 * 3600.0
"""A connection on which nothing arrives is closed after this time; as by a kubelet."""
NORMAL, TOO_BIG = 1000, 1009
"""Codes of closed connections."""


class Fragment(Struct, frozen=True):
    """A part of a message: a large message is passed on as it arrives."""

    data: bytes
    is_first: bool
    is_last: bool


class WebSocketConnection:
    """One connection whose handshake is over. Answers pings."""

    def __init__(self, transport: ByteStream) -> None:
        self._transport = transport
        self._protocol = Connection(ConnectionType.SERVER)
        self._events: deque[Event] = deque()
        self._is_first = True
        self._write_lock = asyncio.Lock()

    async def receive(self) -> Fragment | None:
        """Return the next part of a message; wait for it. None means that the client has closed the
        connection, or broken the protocol. Raises ConnectionError."""
        while True:
            try:
                event = await self._next_event()
            except (RemoteProtocolError, TimeoutError) as error:
                code = getattr(getattr(error, "event_hint", None), "code", NORMAL)
                await self.close(int(code))
                return None
            match event:
                case None:
                    return None
                case Ping(payload=payload):
                    await self._send(Pong(payload=bytes(payload)))
                case CloseConnection():
                    await self._send(event.response())
                    return None
                case Message(data=data):
                    fragment = Fragment(_as_bytes(data), self._is_first, event.message_finished)
                    self._is_first = event.message_finished
                    return fragment

    async def send(self, data: bytes, *, is_text: bool = False) -> None:
        """Send a message. Raises ConnectionError."""
        message: Event = TextMessage(data=data.decode()) if is_text else BytesMessage(data=data)
        await self._send(message)

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Send that no more messages follow. Raises ConnectionError."""
        await self._send(CloseConnection(code=code, reason=reason))

    async def _next_event(self) -> Event | None:
        """Return the next event. None means that the transport has ended."""
        while not self._events:
            async with asyncio.timeout(IDLE_SECONDS):
                data = await self._transport.read()
            if not data:
                return None
            self._protocol.receive_data(data)
            self._events.extend(self._protocol.events())
        return self._events.popleft()

    async def _send(self, event: Event) -> None:
        async with self._write_lock:
            try:
                data = self._protocol.send(event)
            except LocalProtocolError:
                raise ConnectionResetError from None  # it has been closed
            await self._transport.write(data)


def _as_bytes(data: bytes | bytearray | str) -> bytes:
    return data.encode() if isinstance(data, str) else bytes(data)


class Tunnel:
    """The binary messages of a WebSocket connection as one byte stream. A Stream."""

    def __init__(self, connection: WebSocketConnection) -> None:
        self._connection = connection

    async def read(self) -> bytes:
        """Return the bytes of the next messages; wait for some. b"" means the end."""
        while (fragment := await self._connection.receive()) is not None:
            if fragment.data:
                return fragment.data
        return b""

    async def write(self, data: bytes) -> None:
        """Send bytes as a message. Raises ConnectionError."""
        await self._connection.send(data)

    async def close(self) -> None:
        """Send that no more messages follow. Raises ConnectionError."""
        await self._connection.close()
