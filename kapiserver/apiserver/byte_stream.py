"""Bytes that a connection receives, as a reader takes them: with back pressure, and with an end.

Two byte streams are joined when a request changes the protocol of its connection. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

MAX_UNREAD = 256 << 10
"""While this many bytes are not read, the connection receives no more."""


class ByteStream(Protocol):
    """One end of a connection that speaks a protocol of its own."""

    async def read(self) -> bytes:
        """Return the bytes received since the last call; wait for some. b"" means the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes, and return when most bytes are sent. Raises ConnectionError."""


class Received:
    """The bytes that a connection has received and nobody has read."""

    def __init__(self, pause: Callable[[], object], resume: Callable[[], object]) -> None:
        """`pause` and `resume` stop and continue receiving."""
        self._pause = pause
        self._resume = resume
        self._data = bytearray()
        self._has_ended = False
        self._changed = asyncio.Event()

    def add(self, data: bytes) -> None:
        """Add bytes that have arrived."""
        self._data += data
        if len(self._data) > MAX_UNREAD:
            self._pause()
        self._changed.set()

    def end(self) -> None:
        """Record that no more bytes arrive."""
        self._has_ended = True
        self._changed.set()

    async def read(self) -> bytes:
        """Return what has arrived; wait for it. b"" means the end."""
        while not self._data and not self._has_ended:
            self._changed.clear()
            await self._changed.wait()
        data, self._data = bytes(self._data), bytearray()
        if len(data) > MAX_UNREAD and not self._has_ended:
            self._resume()
        return data


async def join(one: ByteStream, other: ByteStream) -> None:
    """Pass bytes in both directions until either end has closed."""
    copies = [asyncio.create_task(_copy(one, other)), asyncio.create_task(_copy(other, one))]
    try:
        await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for copy in copies:
            copy.cancel()
        await asyncio.gather(*copies, return_exceptions=True)


async def _copy(source: ByteStream, target: ByteStream) -> None:
    try:
        while data := await source.read():
            await target.write(data)
    except ConnectionError:
        pass
