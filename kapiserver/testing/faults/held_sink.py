"""The stream of a watch that can hold its frames back, as for a client behind a partition."""

from __future__ import annotations

import asyncio
from typing import cast

from kapiserver.apiserver.serving.http1.stream_sink import StreamSink
from kapiserver.storage.cache.query import WatchSink

MAX_HELD_BYTES = 16 << 20
"""Bytes held back for one client. If there are more, its connection is aborted."""


class HeldSink(WatchSink):
    """Wraps the sink of a connection; passes everything on, except frames while it holds."""

    def __init__(self, sink: WatchSink) -> None:
        self._sink = cast(StreamSink, sink)
        self._held: list[bytes] | None = None
        self._held_bytes = 0

    def hold(self) -> None:
        """Hold frames back from now on. Idempotent."""
        if self._held is None:
            self._held = []

    def release(self) -> None:
        """Write the frames that were held back, and pass on those that come. Idempotent."""
        held, self._held, self._held_bytes = self._held or (), None, 0
        self._sink.write(b"".join(held))

    def discard(self) -> None:
        """Forget the frames that were held back, and pass on those that come. Idempotent."""
        self._held, self._held_bytes = None, 0

    def write(self, frames: bytes) -> int:
        """Write frames, or hold them back."""
        if self._held is None:
            return self._sink.write(frames)
        self._held.append(frames)
        self._held_bytes += len(frames)
        if self._held_bytes > MAX_HELD_BYTES:
            self._sink.abort()
        return self.backlog()

    # As an exchange uses the sink of a connection.

    @property
    def closed(self) -> asyncio.Future[None]:
        """Done when the stream is closed."""
        return self._sink.closed

    @property
    def bytes_sent(self) -> int:
        """Bytes of frames."""
        return self._sink.bytes_sent

    def start(self, head: bytes) -> None:
        """Send the head and the buffered frames."""
        self._sink.start(head)

    def backlog(self) -> int:
        """Return the number of bytes that are buffered for the client."""
        return self._sink.backlog()

    async def wait_drained(self) -> None:
        """Return when most of the backlog is written, or the connection is lost."""
        await self._sink.wait_drained()

    async def flush(self) -> None:
        """Return when the connection has all frames, or is lost."""
        await self._sink.flush()

    def close(self) -> None:
        """End the stream."""
        self._sink.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._sink.abort()
