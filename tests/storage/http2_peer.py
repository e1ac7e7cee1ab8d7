"""A server's end of HTTP/2 connections, which tests drive frame by frame."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import hpack

from kapiserver.codecs.http2 import frames
from kapiserver.codecs.http2.hpack import encode
from kapiserver.storage.etcd.grpc import GrpcTransport

OK = [(b":status", b"200"), (b"content-type", b"application/grpc")]
DONE = [(b"grpc-status", b"0"), (b"grpc-message", b"")]


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes


def message(content: bytes, compressed: int = 0) -> bytes:
    """A message of gRPC with its prefix."""
    return bytes([compressed]) + len(content).to_bytes(4) + content


def headers(stream: int, fields: Sequence[tuple[bytes, bytes]], *, end: bool = False) -> bytes:
    """A HEADERS frame. It disables the dynamic table, as the client's settings require."""
    flags = frames.END_HEADERS | (frames.END_STREAM if end else 0)
    return frames.frame(frames.HEADERS, flags, stream, b"\x20" + encode(fields))


def data(stream: int, content: bytes, *, end: bool = False) -> bytes:
    """A DATA frame."""
    return frames.frame(frames.DATA, frames.END_STREAM if end else 0, stream, content)


def answer(stream: int, content: bytes) -> bytes:
    """A successful response."""
    start = headers(stream, OK) + data(stream, message(content))
    return start + headers(stream, DONE, end=True)


class Peer:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._skipped: list[Frame] = []
        self.decoder = hpack.Decoder()

    async def read_preface(self) -> None:
        """Read the client's preface, settings and window."""
        assert await self._reader.readexactly(len(frames.PREFACE)) == frames.PREFACE
        assert (await self.read(frames.SETTINGS)).flags == 0
        assert (await self.read(frames.WINDOW_UPDATE)).stream == 0

    async def start(self, settings: dict[int, int] | None = None) -> None:
        """Read the preface, and exchange settings with the client."""
        await self.read_preface()
        self.send(frames.settings(settings or {}), frames.frame(frames.SETTINGS, frames.ACK, 0))
        await self.read(frames.SETTINGS)

    async def read(self, *kinds: int) -> Frame:
        """Return the next frame of these kinds, or of any kind; others stay for later."""
        for frame in self._skipped:
            if not kinds or frame.kind in kinds:
                self._skipped.remove(frame)
                return frame
        while True:
            header = await self._reader.readexactly(frames.HEADER.size)
            high, low, kind, flags, stream = frames.HEADER.unpack(header)
            frame = Frame(kind, flags, stream, await self._reader.readexactly(high << 8 | low))
            if not kinds or kind in kinds:
                return frame
            self._skipped.append(frame)

    async def request(self) -> tuple[int, dict[bytes, bytes], bytes]:
        """Read one whole request; return its stream, headers and message."""
        start = await self.read(frames.HEADERS)
        body = b""
        while True:
            frame = await self.read(frames.DATA)
            body += frame.payload
            length = int.from_bytes(body[1:5])
            if len(body) == 5 + length:
                break
        return start.stream, dict(self.decoder.decode(start.payload, raw=True)), body[5:]

    def send(self, *sent: bytes) -> None:
        """Send frames."""
        self._writer.write(b"".join(sent))

    async def end(self) -> None:
        """Return when the client has closed the connection."""
        with suppress(ConnectionError):
            while await self._reader.read(1 << 16):
                pass

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


class Peers:
    """The connections that a server has accepted."""

    def __init__(self) -> None:
        self.accepted: asyncio.Queue[Peer] = asyncio.Queue()
        self.url = ""

    async def connection(self, settings: dict[int, int] | None = None) -> Peer:
        """Return the next connection, after its start."""
        peer = await self.accepted.get()
        await peer.start(settings)
        return peer


@asynccontextmanager
async def grpc_peers() -> AsyncIterator[tuple[GrpcTransport, Peers]]:
    """Yield a transport, and the connections that it opens to `Peers.url`."""
    peers = Peers()
    writers: list[asyncio.StreamWriter] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        peers.accepted.put_nowait(Peer(reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    peers.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    transport = GrpcTransport(None, "")
    try:
        yield transport, peers
    finally:
        await transport.close()
        for writer in writers:
            writer.close()
        server.close()
        await asyncio.sleep(0)
