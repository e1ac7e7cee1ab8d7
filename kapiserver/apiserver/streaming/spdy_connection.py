"""Streams over SPDY/3.1, of a server and of a client.

Knows no Kubernetes. Mirrors the package spdy of k8s.io/streaming/pkg/httpstream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from kapiserver.apiserver.byte_stream import ByteStream
from kapiserver.apiserver.streaming.stream import Incoming, Unread
from kapiserver.codecs.spdy import (
    CANCEL,
    INVALID_STREAM,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    Data,
    Frame,
    FrameReader,
    FrameWriter,
    GoAway,
    Headers,
    MoreHeaders,
    Ping,
    Reset,
    SpdyError,
    SynReply,
    SynStream,
)

MAX_STREAMS = 1000
"""Streams that a connection has at the same time."""
IDLE_SECONDS = 4 * 3600.0
"""A connection on which nothing arrives is closed after this time; as by a kubelet."""
WRITE_BYTES = 256 << 10
"""Data that one frame has at most."""


class SpdyStream:
    """One stream. A Stream.

    headers     what the side that opened it says about it
    """

    def __init__(self, connection: SpdyConnection, stream_id: int, headers: Headers) -> None:
        self._connection = connection
        self.stream_id = stream_id
        self.headers = headers
        self.incoming = Incoming(connection.unread)
        self.has_read_end = self.has_written_end = False
        self.replied = asyncio.Event()
        """Is set when the other side has accepted the stream, or the stream has ended."""

    async def read(self) -> bytes:
        """Return the data received since the last call; wait for some. b"" means the end."""
        return await self.incoming.read()

    async def write(self, data: bytes) -> None:
        """Send data. Raises ConnectionResetError if the stream has ended."""
        for start in range(0, len(data), WRITE_BYTES):
            if self.has_written_end:
                raise ConnectionResetError
            piece = data[start : start + WRITE_BYTES]
            await self._connection.send(Data(self.stream_id, piece))

    async def close(self) -> None:
        """Send the end of the data. Idempotent. Raises ConnectionError."""
        if not self.has_written_end:
            self.has_written_end = True
            await self._connection.send(Data(self.stream_id, b"", fin=True))
            self._connection.forget_ended(self)

    async def reset(self, status: int = CANCEL) -> None:
        """End the stream in both directions. Raises ConnectionError."""
        self.end()
        await self._connection.send(Reset(self.stream_id, status))

    def end(self) -> None:
        """Take no more data, and send none."""
        self.has_written_end = True
        self.end_reading()

    def end_reading(self) -> None:
        """Record that the other side sends no more."""
        self.has_read_end = True
        self.incoming.end()
        self.replied.set()
        self._connection.forget_ended(self)


OnStream: TypeAlias = Callable[[SpdyStream], None]
"""Takes a stream that the other side has opened. Raises ValueError to refuse it."""


def refuse_stream(stream: SpdyStream) -> None:
    """Refuse all streams that the other side opens."""
    raise ValueError("no stream is expected")


class SpdyConnection:
    """The streams of one connection. `run` must run as long as streams are used."""

    def __init__(
        self, transport: ByteStream, on_stream: OnStream = refuse_stream, *, is_client: bool = False
    ) -> None:
        self._transport = transport
        self._on_stream = on_stream
        self._reader, self._writer = FrameReader(), FrameWriter()
        self._write_lock = asyncio.Lock()
        self._streams: dict[int, SpdyStream] = {}
        self._next_id = 1 if is_client else 2
        self._last_peer_id = 0
        self._has_ended = False
        self.unread = Unread()

    async def run(self) -> None:
        """Read until the connection ends, which ends all streams. Raises ConnectionError."""
        try:
            while data := await self._read():
                for frame in self._reader.feed(data):
                    await self._receive(frame)
                await self.unread.wait_for_room()
        except (SpdyError, TimeoutError):
            await self.send(GoAway(self._last_peer_id, PROTOCOL_ERROR))
        finally:
            self._has_ended = True
            for stream in list(self._streams.values()):
                stream.end()

    async def open(self, headers: Headers) -> SpdyStream:
        """Open a stream, and wait until the other side has accepted it. Raises
        ConnectionResetError if it does not."""
        stream = SpdyStream(self, self._next_id, headers)
        self._next_id += 2
        self._streams[stream.stream_id] = stream
        await self.send(SynStream(stream.stream_id, headers))
        await stream.replied.wait()
        if stream.has_written_end:
            raise ConnectionResetError
        return stream

    async def send(self, frame: Frame) -> None:
        """Send a frame, and return when most bytes are sent. Raises ConnectionError."""
        if self._has_ended:
            raise ConnectionResetError
        async with self._write_lock:
            await self._transport.write(self._writer.encode(frame))

    def forget_ended(self, stream: SpdyStream) -> None:
        """Forget a stream that has ended in both directions."""
        if stream.has_read_end and stream.has_written_end:
            self._streams.pop(stream.stream_id, None)

    async def _read(self) -> bytes:
        async with asyncio.timeout(IDLE_SECONDS):
            return await self._transport.read()

    async def _receive(self, frame: Frame) -> None:
        match frame:
            case SynStream():
                await self._accept(frame)
            case Data(stream_id, data, fin):
                await self._receive_data(stream_id, data, fin=fin)
            case SynReply(stream_id, _, fin) | MoreHeaders(stream_id, _, fin):
                if stream := self._streams.get(stream_id):
                    stream.replied.set()
                    if fin:
                        stream.end_reading()
            case Reset(stream_id):
                if stream := self._streams.get(stream_id):
                    stream.end()
            case Ping(ping_id):
                if ping_id % 2 != self._next_id % 2:  # else it answers one of ours
                    await self.send(frame)

    async def _accept(self, frame: SynStream) -> None:
        stream_id = frame.stream_id
        if stream_id % 2 == self._next_id % 2 or stream_id <= self._last_peer_id:
            raise SpdyError("a stream has the number of another one")
        self._last_peer_id = stream_id
        stream = SpdyStream(self, stream_id, frame.headers)
        if len(self._streams) >= MAX_STREAMS:
            await self.send(Reset(stream_id, REFUSED_STREAM))
            return
        self._streams[stream_id] = stream
        stream.has_written_end = frame.unidirectional
        if frame.fin:
            stream.end_reading()
        try:
            self._on_stream(stream)
        except ValueError:
            await stream.reset(REFUSED_STREAM)
            return
        await self.send(SynReply(stream_id, {}))

    async def _receive_data(self, stream_id: int, data: bytes, *, fin: bool) -> None:
        stream = self._streams.get(stream_id)
        if stream is None or stream.has_read_end:
            if data:
                await self.send(Reset(stream_id, INVALID_STREAM))
            return
        stream.incoming.add(data)
        if fin:
            stream.end_reading()
