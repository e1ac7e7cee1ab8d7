"""One of several streams on a connection, as commands and forwarded ports use it."""

from __future__ import annotations

import asyncio
from typing import Protocol

from kapiserver.apiserver.byte_stream import MAX_UNREAD, ByteStream

STREAM_TYPE = "streamtype"
"""The header that says what a stream carries: STDIN, ERROR, ..."""
STDIN, STDOUT, STDERR, ERROR, RESIZE = "stdin", "stdout", "stderr", "error", "resize"
DATA = "data"


class Stream(ByteStream, Protocol):
    """A stream that can be closed in one direction."""

    async def close(self) -> None:
        """Write no more. The other side may still write. Raises ConnectionError."""


class Unread:
    """What all streams of a connection have received and nobody has read. While it is much, the
    connection reads no more: a slow reader of one stream holds up the others, as in Kubernetes."""

    def __init__(self) -> None:
        self._size = 0
        self._changed = asyncio.Event()

    def add(self, size: int) -> None:
        """Count bytes; a negative size means that they were read."""
        self._size += size
        self._changed.set()

    async def wait_for_room(self) -> None:
        """Return when the connection may read more."""
        while self._size > MAX_UNREAD:
            self._changed.clear()
            await self._changed.wait()


class Incoming:
    """The direction of a stream that is read."""

    def __init__(self, unread: Unread) -> None:
        self._unread = unread
        self._data = bytearray()
        self._has_ended = False
        self._changed = asyncio.Event()

    def add(self, data: bytes) -> None:
        """Add bytes that have arrived. What arrives after the end is dropped."""
        if not self._has_ended:
            self._data += data
            self._unread.add(len(data))
            self._changed.set()

    def end(self) -> None:
        """Record that no more bytes arrive. Idempotent."""
        self._has_ended = True
        self._changed.set()

    async def read(self) -> bytes:
        """Return what has arrived; wait for it. b"" means the end."""
        while not self._data and not self._has_ended:
            self._changed.clear()
            await self._changed.wait()
        data, self._data = bytes(self._data), bytearray()
        self._unread.add(-len(data))
        return data


async def read_to_end(stream: ByteStream, limit: int) -> bytes:
    """Return all that a stream carries, at most `limit` bytes of it."""
    data = bytearray()
    while piece := await stream.read():
        data += piece[: limit - len(data)]
    return bytes(data)


async def discard(stream: ByteStream) -> None:
    """Read a stream to its end, so that it does not hold up the connection."""
    while await stream.read():
        pass


async def copy(source: ByteStream, target: Stream) -> None:
    """Pass on what a stream carries, and its end. Returns when either is closed."""
    try:
        while data := await source.read():
            await target.write(data)
        await target.close()
    except ConnectionError:
        pass
