"""A peer of an upgraded connection that is part of this server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import TypeAlias

from kapiserver.apiserver.byte_stream import MAX_UNREAD, ByteStream

Serve: TypeAlias = Callable[[ByteStream], Awaitable[None]]
"""Speaks a protocol with the client at the other end of a byte stream."""

_log = logging.getLogger(__name__)


class _Pipe:
    """Bytes in one direction; the writer waits while much is unread."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._is_closed = False
        self._changed = asyncio.Event()

    async def read(self) -> bytes:
        await self._wait_until(lambda: bool(self._data))
        data, self._data = bytes(self._data), bytearray()
        self._changed.set()
        return data

    async def write(self, data: bytes) -> None:
        await self._wait_until(lambda: len(self._data) < MAX_UNREAD)
        if self._is_closed:
            raise ConnectionResetError
        self._data += data
        self._changed.set()

    def close(self) -> None:
        """End both reading, after the bytes that were written, and writing."""
        self._is_closed = True
        self._changed.set()

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition() and not self._is_closed:
            self._changed.clear()
            await self._changed.wait()


class _ServerEnd:
    """The end at which this server speaks. A ByteStream."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self.read = incoming.read
        self.write = outgoing.write


class LocalPeer:
    """Runs the protocol of an upgraded connection in a task. An UpgradedPeer.

    The task starts when the connection is first read. It is cancelled when it goes on for long
    after the client has gone.
    """

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._from_client, self._to_client = _Pipe(), _Pipe()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    async def read(self) -> bytes:
        """Return what the protocol has written for the client. b"" means that it has ended."""
        if self._task is None and not self._is_closed:
            # Outside the context of the request, which would live as long as the connection.
            self._task = asyncio.create_task(self._run(), context=Context())
        return await self._to_client.read()

    async def write(self, data: bytes) -> None:
        """Pass bytes of the client to the protocol. Raises ConnectionResetError."""
        await self._from_client.write(data)

    def close(self) -> None:
        """End the connection with the protocol. Idempotent."""
        self._is_closed = True
        self._from_client.close()
        self._to_client.close()

    def abort(self) -> None:
        """End the connection, and the task. Idempotent."""
        self.close()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            await self._serve(_ServerEnd(self._from_client, self._to_client))
        except ConnectionError:
            pass
        except Exception:
            _log.exception("a stream failed")
        finally:
            self._to_client.close()
