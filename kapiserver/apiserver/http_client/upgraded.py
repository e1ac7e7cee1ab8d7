"""A connection to a server that has changed its protocol (status 101). Knows no HTTP."""

from __future__ import annotations

import asyncio

from kapiserver.apiserver.byte_stream import Received


class UpgradedConnection(asyncio.Protocol):
    """Takes over a transport: bytes pass in both directions. A ByteStream."""

    def __init__(self, transport: asyncio.Transport, received: bytes) -> None:
        """`received` are bytes of the new protocol that have arrived already."""
        self._transport = transport
        self._received = Received(transport.pause_reading, transport.resume_reading)
        self._writable = asyncio.Event()
        self._writable.set()
        if received:
            self._received.add(received)
        if transport.is_closing():
            self._received.end()
        transport.set_protocol(self)

    async def read(self) -> bytes:
        """Return the bytes received since the last call; wait for some. b"" means the end."""
        return await self._received.read()

    async def write(self, data: bytes) -> None:
        """Send bytes, and return when most bytes are sent. Raises ConnectionResetError."""
        if not self._transport.is_closing():
            self._transport.write(data)
            await self._writable.wait()
        if self._transport.is_closing():
            raise ConnectionResetError

    def close(self) -> None:
        """Close the connection when what was written is sent. Idempotent."""
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once. Idempotent."""
        self._transport.abort()

    # Called by the transport.

    def data_received(self, data: bytes) -> None:
        self._received.add(data)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._received.end()
        self._writable.set()
