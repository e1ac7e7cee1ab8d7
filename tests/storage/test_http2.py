"""HTTP/2 connections that receive anything: no input raises, or leaves a stream open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.codecs.http2 import frames
from kapiserver.codecs.http2.frames import ProtocolError
from kapiserver.codecs.http2.hpack import encode
from kapiserver.storage.errors import StorageError
from kapiserver.storage.etcd import http2
from kapiserver.storage.etcd.grpc import GrpcMessageStream
from kapiserver.storage.etcd.http2 import Connection
from kapiserver.storage.etcd.transport import RequestNotSent, ResponseLost
from tests.storage.http2_peer import DONE, OK, answer, data, headers, message

ACKNOWLEDGED = frames.frame(frames.SETTINGS, frames.ACK, 0)
MAX_RECEIVED = 1 << 16


class Socket(asyncio.Transport):
    """Keeps what a connection writes; the peer reads nothing if `full`."""

    def __init__(self, protocol: asyncio.Protocol, *, full: bool = False) -> None:
        super().__init__()
        self.written = b""
        self.closed = False
        self._protocol = protocol
        self._full = full

    def write(self, data: bytes) -> None:
        self.written += data
        if self._full:
            self._protocol.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


def connect(*, full: bool = False, requests: int = 2) -> tuple[Connection, list[GrpcMessageStream]]:
    """A connection with open requests."""
    connection = Connection()
    connection.connection_made(Socket(connection, full=full))
    streams = [GrpcMessageStream(connection) for _ in range(requests)]
    for stream in streams:
        connection.request(stream, encode(OK), b"request", end=True)
    return connection, streams


async def error_of(stream: GrpcMessageStream) -> Exception | None:
    """Read a stream up to its end; return the error that ended it."""
    try:
        async with asyncio.timeout(60):
            async for _ in stream:
                pass
    except (StorageError, RequestNotSent, ResponseLost) as error:
        return error
    return None


HEADERS_3 = encode([*OK, (b"x", b"y" * 100)])
LONG_HEADER = b"\x40\x01x\x7f\xe1\x1e" + b"a" * 4000
HOSTILE: dict[str, bytes] = {
    "no HTTP/2": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a long frame": b"\x00\x40\x01" + bytes(6) + bytes(16385),
    "data of no stream": data(0, b"x"),
    "data of a stream that was not opened": data(5, b"x"),
    "data of a stream of the server": data(2, b"x"),
    "headers of a stream that was not opened": headers(5, OK),
    "a push": frames.frame(frames.PUSH_PROMISE, frames.END_HEADERS, 1, bytes(4) + HEADERS_3),
    "a continuation of nothing": frames.frame(frames.CONTINUATION, 0, 1, b""),
    "a continuation of another stream": frames.frame(frames.HEADERS, 0, 1, b"\x88")
    + frames.frame(frames.CONTINUATION, frames.END_HEADERS, 3, b""),
    "headers that are interrupted": frames.frame(frames.HEADERS, 0, 1, b"\x88") + data(1, b"x"),
    "empty continuations": frames.frame(frames.HEADERS, 0, 1, b"")
    + frames.frame(frames.CONTINUATION, 0, 1, b"") * 100,
    "long continuations": frames.frame(frames.HEADERS, 0, 1, b"")
    + frames.frame(frames.CONTINUATION, 0, 1, bytes(16384)) * 6,
    "an index of no header": frames.frame(frames.HEADERS, frames.END_HEADERS, 1, b"\xff\xff\x01"),
    "index 0": frames.frame(frames.HEADERS, frames.END_HEADERS, 1, b"\x80"),
    "a truncated header": frames.frame(frames.HEADERS, frames.END_HEADERS, 1, b"\x00\x05ab"),
    "an invalid Huffman code": frames.frame(
        frames.HEADERS, frames.END_HEADERS, 1, b"\x00\x84\xff\xff\xff\xff\x00"
    ),
    "an endless integer": frames.frame(
        frames.HEADERS, frames.END_HEADERS, 1, b"\x00\x7f" + b"\xff" * 1000
    ),
    "a dynamic table after it was forbidden": ACKNOWLEDGED
    + frames.frame(frames.HEADERS, frames.END_HEADERS, 1, b"\x88"),
    "a larger dynamic table": frames.frame(
        frames.HEADERS, frames.END_HEADERS, 1, b"\x3f\xff\xff\x03\x88"
    ),
    "headers that expand": frames.frame(
        frames.HEADERS,
        frames.END_HEADERS,
        1,
        LONG_HEADER + b"\xbe" * 9000,
    ),
    "padding beyond the frame": frames.frame(frames.DATA, frames.PADDED, 1, b"\x09x"),
    "padding of nothing": frames.frame(frames.DATA, frames.PADDED, 1, b""),
    "a priority beyond the frame": frames.frame(
        frames.HEADERS, frames.END_HEADERS | frames.PRIORITY_FLAG, 1, b"\x88"
    ),
    "a short PING": frames.frame(frames.PING, 0, 0, b"ping"),
    "a PING of a stream": frames.frame(frames.PING, 0, 1, bytes(8)),
    "a short RST_STREAM": frames.frame(frames.RST_STREAM, 0, 1, b""),
    "a RST_STREAM of no stream": frames.reset(0, 0),
    "a short GOAWAY": frames.frame(frames.GOAWAY, 0, 0, bytes(4)),
    "a short window update": frames.frame(frames.WINDOW_UPDATE, 0, 1, b""),
    "a large window": frames.window_update(0, frames.MAX_WINDOW),
    "a large window of a stream": frames.window_update(1, frames.MAX_WINDOW),
    "a large initial window": frames.settings({frames.INITIAL_WINDOW_SIZE: 1 << 31}),
    "settings of a stream": frames.frame(frames.SETTINGS, 0, 1, b""),
    "truncated settings": frames.frame(frames.SETTINGS, 0, 0, bytes(5)),
    "a compressed message": data(1, message(b"x", compressed=1)),
    "a long message": data(1, b"\x00\xff\xff\xff\xff"),
    "more than the window": data(1, message(bytes(16000))) * 300,
}


@pytest.mark.parametrize("received", HOSTILE.values(), ids=HOSTILE)
async def test_broken_protocol(received: bytes) -> None:
    """A peer that breaks the protocol is dropped, and every stream fails."""
    connection, streams = connect()
    for start in range(0, len(received), MAX_RECEIVED):
        connection.data_received(received[start : start + MAX_RECEIVED])
    assert not connection.usable
    for stream in streams:
        assert stream.ended
        assert await error_of(stream) is not None
    with pytest.raises(ProtocolError):
        connection.request(streams[0], b"", b"", end=True)


async def test_a_server_that_reads_nothing() -> None:
    """A peer that sends PINGs and reads no answer is dropped."""
    connection, streams = connect(full=True)
    await asyncio.sleep(0)
    ping = frames.frame(frames.PING, 0, 0, bytes(8))
    for _ in range(http2.MAX_UNREAD_REPLIES + 1):
        assert connection.usable
        connection.data_received(ping)
    assert not connection.usable
    assert all(stream.ended for stream in streams)


async def test_requests_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of requests that wait for a stream is limited."""
    monkeypatch.setattr(http2, "MAX_WAITING_REQUESTS", 5)
    connection, _ = connect(requests=http2.ASSUMED_MAX_STREAMS + 5)
    stream = GrpcMessageStream(connection)
    with pytest.raises(ProtocolError, match="too many"):
        connection.request(stream, b"", b"", end=True)
    connection.close()


async def test_long_request_headers() -> None:
    """Headers that need more than one frame are not sent."""
    connection, streams = connect(requests=1)
    with pytest.raises(ProtocolError, match="too long"):
        connection.request(streams[0], bytes(frames.FRAME_BYTES + 1), b"", end=True)
    connection.close()


FRAMES = st.builds(
    frames.frame,
    st.integers(0, 11),
    st.sampled_from((0, 1, 4, 5, 8, 9, 12, 13, 0x20, 0x25, 0xFF)),
    st.sampled_from((0, 1, 2, 3, 5, 7)),
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from((HEADERS_3, b"\x20\x88", message(b"x"), bytes(4), bytes(8))),
        st.integers(0, (1 << 32) - 1).map(frames.UINT32.pack),
        st.tuples(st.integers(0, 8), st.integers(0, (1 << 32) - 1)).map(
            lambda setting: frames.SETTING.pack(*setting)
        ),
    ),
)
SENSIBLE = st.sampled_from(
    (
        answer(1, b"x"), answer(3, b"y"), headers(1, OK), data(1, message(b"z")),
        headers(1, DONE, end=True), ACKNOWLEDGED, frames.settings({}), frames.window_update(0, 9),
    )
)  # fmt: skip
INPUT = st.lists(st.one_of(FRAMES, SENSIBLE, st.binary(max_size=30)), max_size=12).map(b"".join)


def check(received: bytes, split: Callable[[int], int]) -> None:
    async def run() -> None:
        connection, streams = connect(requests=4)
        start = 0
        while start < len(received):
            end = start + max(1, split(start))
            connection.data_received(received[start:end])
            start = end
            assert len(connection._buffer) <= frames.FRAME_BYTES + frames.HEADER.size
        await asyncio.sleep(0)
        connection.connection_lost(None)
        for stream in streams:
            assert stream.ended
            await error_of(stream)
        assert not connection._streams
        assert not connection._blocked

    asyncio.run(run())


@given(received=INPUT, size=st.integers(1, 200))
def test_any_frames(received: bytes, size: int) -> None:
    """Every stream ends with its connection, for any bytes of the server in any pieces."""
    check(received, lambda _: size)
