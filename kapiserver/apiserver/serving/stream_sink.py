"""The stream of one client: frames that are written to its connection as HTTP chunks.

Knows no HTTP library and no Kubernetes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from kapiserver.apiserver.serving.response_head import chunk


class StreamSink:
    """Writes the frames of a stream to the client's connection, as HTTP chunks, without waiting.

    A handler opens it inside the filter chain; frames are buffered until `start` sends the head,
    to which outer filters add headers.
    """

    __slots__ = ("_chunked", "_drain", "_pending", "_started", "_transport", "bytes_sent", "done")

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        drain: Callable[[], Awaitable[None]],
        *,
        chunked: bool,
    ) -> None:
        """Write to `transport`; `drain` returns when most of its write buffer is written."""
        self._transport = transport
        self._drain = drain
        self._chunked = chunked
        self._pending: list[bytes] | None = []
        loop = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = loop.create_future()
        self.done: asyncio.Future[None] = loop.create_future()
        self.bytes_sent = 0
        """Bytes of frames."""

    def write(self, frames: bytes) -> None:
        """Write one or more whole frames of the stream."""
        if self.done.done():
            return
        self.bytes_sent += len(frames)
        if self._chunked:
            frames = chunk(frames)
        if self._pending is not None:
            self._pending.append(frames)
        else:
            self._transport.write(frames)

    def start(self, head: bytes) -> None:
        """Send the head and the buffered frames, even if the stream has already ended."""
        pending = self._pending or ()
        self._pending = None
        if not self._transport.is_closing():
            self._transport.write(b"".join((head, *pending)))
        if not self._started.done():
            self._started.set_result(None)

    def backlog(self) -> int:
        """Return the number of bytes that are buffered for the client."""
        return sum(map(len, self._pending or ())) + self._transport.get_write_buffer_size()

    async def drained(self) -> None:
        """Return when most of the backlog is written, or the connection is lost."""
        await self._started
        with contextlib.suppress(ConnectionError):
            await self._drain()

    def abort(self) -> None:
        """Close the connection at once; what is buffered for the client is dropped."""
        self._pending = None if self._pending is None else []
        self._transport.abort()
        self.close()

    def close(self) -> None:
        """End the stream; later writes are dropped."""
        if not self.done.done():
            self.done.set_result(None)
