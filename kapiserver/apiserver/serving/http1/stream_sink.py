"""The stream of one client: frames that are written to its connection as HTTP chunks.

Knows no HTTP library and no Kubernetes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Protocol

from kapiserver.apiserver.serving.http1.response_head import chunk
from kapiserver.storage.concurrency.requester import REQUESTER, Requester
from kapiserver.storage.concurrency.turns import next_turn

_shared_chunk = functools.lru_cache(maxsize=1)(chunk)
"""Returns the chunk of the last frames again: one after the other, many sinks get the same ones."""
PIECE_BYTES = 64 << 10
"""Bytes that the connection gets at once. More frames wait in the sink: there all streams share the
bytes of an event, while the connection encrypts a copy for each."""


class SinkTransport(Protocol):
    """What a sink writes to: the client's connection, or a stream of it."""

    def write(self, data: bytes) -> None:
        """Send bytes, or keep them until the client takes them."""

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that are kept."""

    def is_closing(self) -> bool:
        """Report whether nothing more can be sent."""

    def abort(self) -> None:
        """Close at once."""


class StreamSink:
    """Writes the frames of a stream to the client's connection, as HTTP chunks, without waiting.

    A handler opens it inside the filter chain; frames are buffered until `start` sends the head,
    to which outer filters add headers.
    """

    __slots__ = (
        "_chunked",
        "_drain",
        "_feeder",
        "_is_open",
        "_offset",
        "_queue",
        "_queued_bytes",
        "_started",
        "_transport",
        "_user",
        "bytes_sent",
        "closed",
    )

    def __init__(
        self,
        transport: SinkTransport,
        drain: Callable[[], Awaitable[None]],
        *,
        chunked: bool,
    ) -> None:
        """Write to `transport`; `drain` returns when most of its write buffer is written."""
        self._transport = transport
        self._drain = drain
        self._chunked = chunked
        self._user = REQUESTER.get().user
        """The user of the request, as whom the stream takes turns."""
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._offset = 0
        self._feeder: asyncio.Task[None] | None = None
        self._is_open = False
        """Whether the head is sent, and the stream has not ended."""
        loop = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.bytes_sent = 0
        """How many bytes of frames were written to the sink."""

    def write(self, frames: bytes) -> int:
        """Write one or more whole frames of the stream, and return the backlog with them."""
        size = len(frames)
        if self._is_open and not self._queued_bytes and 0 < size <= PIECE_BYTES:
            transport = self._transport
            backlog = transport.get_write_buffer_size()
            if backlog <= PIECE_BYTES:
                self.bytes_sent += size
                transport.write(_shared_chunk(frames) if self._chunked else frames)
                return backlog + size
        if not frames or self.closed.done():
            return self._queued_bytes
        self.bytes_sent += size
        self._queue.append(frames)
        self._queued_bytes += size
        self._start_feeder()
        return self.backlog()

    def start(self, head: bytes) -> None:
        """Send the head and the buffered frames, even if the stream has already ended."""
        if self._queued_bytes <= PIECE_BYTES:
            head = b"".join((head, *map(self._chunk, self._queue)))
            self._drop_queue()
        if not self._transport.is_closing():
            self._transport.write(head)
        if not self._started.done():
            self._started.set_result(None)
            self._is_open = not self.closed.done()
        self._start_feeder()

    def backlog(self) -> int:
        """Return the number of bytes that are buffered for the client."""
        return self._queued_bytes + self._transport.get_write_buffer_size()

    async def wait_drained(self) -> None:
        """Return when most of the backlog is written, or the connection is lost."""
        await self._started
        await self.flush()
        with contextlib.suppress(ConnectionError):
            await self._drain()

    async def flush(self) -> None:
        """Return when the connection has all frames, or is lost."""
        while self._feeder is not None:
            await asyncio.wait([self._feeder])

    def abort(self) -> None:
        """Close the connection at once; what is buffered for the client is dropped."""
        self._drop_queue()
        self._transport.abort()
        self.close()

    def close(self) -> None:
        """End the stream; later writes are dropped."""
        self._is_open = False
        if not self.closed.done():
            self.closed.set_result(None)

    def _chunk(self, frames: bytes) -> bytes:
        return chunk(frames) if self._chunked else frames

    def _start_feeder(self) -> None:
        if self._queue and self._feeder is None and self._started.done():
            # Outside the context of the request, which would keep the connection alive.
            context = Context()
            context.run(REQUESTER.set, Requester(self._user))
            self._feeder = asyncio.create_task(self._feed(), context=context)

    async def _feed(self) -> None:
        """Give the connection the queue in pieces, at the speed of the client."""
        try:
            while self._queue:
                await self._drain()
                # For a fast client drain() returns at once. In each round of the event loop one
                # stream writes a piece, or a thousand of them would hold up every other request.
                await next_turn(rounds=1)
                if self._transport.is_closing() or not self._queue:
                    return
                self._transport.write(self._chunk(self._next_piece()))
        except ConnectionError:
            pass
        finally:
            self._drop_queue()
            self._feeder = None

    def _next_piece(self) -> bytes:
        """Remove a piece from the queue and return it: several small writes, or part of one."""
        pieces: list[bytes] = []
        size = 0
        while self._queue and size < PIECE_BYTES:
            frames, start = self._queue[0], self._offset
            piece = frames[start : start + PIECE_BYTES - size]
            pieces.append(piece)
            size += len(piece)
            self._offset += len(piece)
            if self._offset == len(frames):
                self._queue.popleft()
                self._offset = 0
        self._queued_bytes -= size
        return b"".join(pieces)

    def _drop_queue(self) -> None:
        self._queue.clear()
        self._queued_bytes = self._offset = 0
