"""The gRPC transport of etcd, against a server that tests drive frame by frame."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kapiserver.codecs.http2 import frames
from kapiserver.storage.errors import Unavailable
from kapiserver.storage.etcd import grpc, http2
from kapiserver.storage.etcd import transport as etcd_transport
from kapiserver.storage.etcd.grpc import GrpcTransport
from kapiserver.storage.etcd.transport import EtcdError, RequestNotSent, ResponseLost
from tests.storage.http2_peer import (
    DONE,
    OK,
    Peers,
    answer,
    data,
    grpc_peers,
    headers,
    message,
)


def call(
    transport: GrpcTransport, peers: Peers, content: bytes = b"hi", token: str = ""
) -> asyncio.Task[bytes]:
    """Start a call."""
    return asyncio.create_task(transport.call(peers.url, "pkg.Service/Call", content, token))


async def test_a_call() -> None:
    """A request has the headers of gRPC; a response is read however it is split, and so is the next
    one on the same connection."""
    async with grpc_peers() as (transport, peers):
        first = call(transport, peers, token="secret")
        peer = await peers.connection()
        stream, fields, content = await peer.request()
        assert (stream, content) == (1, b"hi")
        assert fields.pop(b":authority") == peers.url.removeprefix("http://").encode()
        assert fields == {
            b":method": b"POST", b":scheme": b"http", b":path": b"/pkg.Service/Call",
            b"content-type": b"application/grpc", b"te": b"trailers", b"hasleader": b"true",
            b"token": b"secret",
        }  # fmt: skip
        for byte in answer(stream, b"hello"):
            peer.send(bytes([byte]))
            await asyncio.sleep(0)
        assert await first == b"hello"
        second = call(transport, peers)
        stream, _, _ = await peer.request()
        peer.send(answer(stream, b""))
        assert (stream, await second) == (3, b"")


async def test_frames_of_other_servers() -> None:
    """Padding, priorities, continued headers, a dynamic table until the settings are acknowledged,
    and unknown frames and settings are understood."""
    async with grpc_peers() as (transport, peers):
        calling = call(transport, peers)
        peer = await peers.accepted.get()
        await peer.read_preface()
        stream, _, _ = await peer.request()
        block = b"\x88" + b"\x40\x01x\x01y" + b"\xbe"  # :status 200, x: y, and x: y by its index
        padded = b"\x03" + bytes(5) + block[:3] + bytes(3)
        padding = frames.PADDED | frames.PRIORITY_FLAG
        body = b"\x02" + message(b"hello") + bytes(2)
        peer.send(
            frames.settings({99: 1}),
            frames.frame(77, 0, 0, b"?"),
            frames.frame(frames.PRIORITY, 0, stream, bytes(5)),
            frames.frame(frames.HEADERS, padding, stream, padded),
            frames.frame(frames.CONTINUATION, 0, stream, block[3:5]),
            frames.frame(frames.CONTINUATION, frames.END_HEADERS, stream, block[5:]),
            frames.frame(frames.DATA, frames.PADDED, stream, body),
            headers(stream, DONE, end=True),
            frames.frame(frames.PING, 0, 0, b"pingpong"),
        )
        assert await calling == b"hello"
        assert (await peer.read(frames.PING)).payload == b"pingpong"


@pytest.mark.parametrize(
    ("response", "error", "text"),
    [
        ([(b":status", b"200"), (b"grpc-status", b"3"), (b"grpc-message", b"bad%20key")],
         EtcdError, "^bad key$"),
        ([(b":status", b"200"), (b"grpc-status", b"14"), (b"grpc-message", b"no leader")],
         Unavailable, "no leader"),
        ([(b":status", b"200"), (b"grpc-status", b"5")], EtcdError, "^$"),
        ([(b":status", b"200"), (b"grpc-status", b"0")], ResponseLost, "not one message"),
        ([(b":status", b"200"), (b"grpc-status", b"x")], ResponseLost, "no gRPC status"),
        ([(b":status", b"200")], ResponseLost, "no gRPC status"),
        ([(b":status", b"503")], ResponseLost, "HTTP status 503"),
        ([(b"server", b"x")], ResponseLost, "HTTP status missing"),
    ],
)  # fmt: skip
async def test_refusals(
    response: Sequence[tuple[bytes, bytes]], error: type[Exception], text: str
) -> None:
    """A response without a message raises the error of its status."""
    async with grpc_peers() as (transport, peers):
        calling = call(transport, peers)
        peer = await peers.connection()
        stream, _, _ = await peer.request()
        peer.send(headers(stream, response, end=True))
        with pytest.raises(error, match=text):
            await calling
        second = call(transport, peers)
        stream, _, _ = await peer.request()
        peer.send(answer(stream, b"hello"))
        assert await second == b"hello"


@pytest.mark.parametrize(
    "body",
    [b"", message(b"hello")[:-1], message(b"hello", compressed=1), message(b"a") + message(b"b")],
)
async def test_bodies_that_are_not_one_message(body: bytes) -> None:
    """A response whose body is not exactly one message raises ResponseLost."""
    async with grpc_peers() as (transport, peers):
        calling = call(transport, peers)
        peer = await peers.connection()
        peer.send(headers(1, OK), data(1, body), headers(1, DONE, end=True))
        with pytest.raises(ResponseLost, match="not one message"):
            await calling


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (data(1, message(b"hello"), end=True), ResponseLost),
        (frames.reset(1, frames.CANCEL), ResponseLost),
        (frames.reset(1, frames.REFUSED_STREAM), RequestNotSent),
        (frames.frame(frames.GOAWAY, 0, 0, bytes(8)), RequestNotSent),
    ],
    ids=["no trailers", "reset", "refused", "going away"],
)
async def test_lost_streams(end: bytes, error: type[Exception]) -> None:
    """A stream that ends without a response says whether the request may have been processed."""
    async with grpc_peers() as (transport, peers):
        calling = call(transport, peers)
        peer = await peers.connection()
        await peer.request()
        peer.send(headers(1, OK), end)
        with pytest.raises(error):
            await calling


async def test_a_server_that_goes_away() -> None:
    """After GOAWAY earlier requests get their responses, and new requests use a new connection."""
    async with grpc_peers() as (transport, peers):
        first, second = call(transport, peers), call(transport, peers)
        peer = await peers.connection()
        await peer.request()
        await peer.request()
        peer.send(frames.frame(frames.GOAWAY, 0, 0, b"\0\0\0\1" + bytes(4)))
        with pytest.raises(RequestNotSent):
            await second
        third = call(transport, peers)
        other_peer = await peers.connection()
        await other_peer.request()
        other_peer.send(answer(1, b"third"))
        peer.send(answer(1, b"first"))
        assert await asyncio.gather(first, third) == [b"first", b"third"]
        await peer.end()


async def test_a_closed_connection() -> None:
    """Calls of a connection that breaks may have been processed; the next call opens another."""
    async with grpc_peers() as (transport, peers):
        first = call(transport, peers)
        peer = await peers.connection()
        await peer.request()
        peer.close()
        with pytest.raises(ResponseLost):
            await first
        second = call(transport, peers)
        peer = await peers.connection()
        await peer.request()
        peer.send(answer(1, b"hello"))
        assert await second == b"hello"
        third = call(transport, peers)
        await peer.request()
        await transport.close()
        with pytest.raises(ResponseLost):
            await third
        with pytest.raises(RequestNotSent):
            await call(transport, peers)


async def test_no_server() -> None:
    """Nothing is sent without a server, or to one that does not accept in time."""
    async with grpc_peers() as (transport, peers):
        pass
    transport = GrpcTransport(None, "")
    for url in (peers.url, "http://127.0.0.1:1"):
        with pytest.raises(RequestNotSent):
            await transport.call(url, "s/c", b"", "")


async def test_windows_for_requests() -> None:
    """A request waits for the windows of the server, its stream's and the connection's."""
    content = bytes(range(256)) * 400
    async with grpc_peers() as (transport, peers):
        calling = call(transport, peers, b"first")
        peer = await peers.connection({frames.INITIAL_WINDOW_SIZE: 20})
        await peer.request()
        peer.send(answer(1, b""))
        await calling
        calling = call(transport, peers, content)
        body = (await peer.read(frames.DATA)).payload
        assert len(body) == 20
        peer.send(frames.settings({frames.INITIAL_WINDOW_SIZE: 50}))
        body += (await peer.read(frames.DATA)).payload
        assert len(body) == 50
        peer.send(frames.window_update(3, 1 << 20))
        while len(body) < 65535 - 10:  # the rest of the connection's first window
            frame = await peer.read(frames.DATA)
            assert len(frame.payload) <= frames.FRAME_BYTES
            body += frame.payload
        assert len(body) == 65535 - 10
        peer.send(frames.window_update(0, 1 << 20))
        while not frame.flags & frames.END_STREAM:
            frame = await peer.read(frames.DATA)
            body += frame.payload
        assert body == message(content)
        peer.send(answer(3, b"hello"))
        assert await calling == b"hello"


async def test_windows_for_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A response beyond the client's windows is acknowledged while it arrives; the data of a stream
    that is not read is not."""
    monkeypatch.setattr(http2, "STREAM_WINDOW", 1000)
    monkeypatch.setattr(http2, "CONNECTION_WINDOW", 100_000)
    monkeypatch.setattr(grpc, "MAX_QUEUED_BYTES", 100)
    content = message(bytes(200_000))
    async with grpc_peers() as (transport, peers):
        calling = call(transport, peers)
        peer = await peers.connection()
        await peer.request()
        peer.send(headers(1, OK))
        unacknowledged, connection_updates = 0, 0
        for start in range(0, len(content), 600):
            chunk = content[start : start + 600]
            peer.send(data(1, chunk))
            unacknowledged += len(chunk)
            while unacknowledged > 400:
                update = await peer.read(frames.WINDOW_UPDATE)
                if update.stream:
                    unacknowledged -= int.from_bytes(update.payload)
                else:
                    connection_updates += int.from_bytes(update.payload)
        peer.send(headers(1, DONE, end=True))
        assert len(await calling) == 200_000
        assert connection_updates > 100_000
        async with transport.stream(peers.url, "s/c", b"", "") as stream:
            await peer.request()
            peer.send(headers(3, OK), *(data(3, message(bytes(245))) for _ in range(4)))
            peer.send(frames.frame(frames.PING, 0, 0, bytes(8)))
            assert (await peer.read()).kind == frames.PING  # nothing is acknowledged
            assert await anext(stream) == [bytes(245)] * 4
            update = await peer.read()
            assert (update.kind, update.stream) == (frames.WINDOW_UPDATE, 3)
            assert int.from_bytes(update.payload) == 1000


async def test_the_limit_of_streams() -> None:
    """Requests beyond the server's limit of streams wait for the end of others."""
    async with grpc_peers() as (transport, peers):
        first = call(transport, peers)
        peer = await peers.connection({frames.MAX_CONCURRENT_STREAMS: 1})
        other_calls = [call(transport, peers) for _ in range(3)]
        await peer.request()
        other_calls[0].cancel()
        peer.send(frames.frame(frames.PING, 0, 0, bytes(8)))
        assert (await peer.read()).kind == frames.PING
        peer.send(answer(1, b"1"))
        for stream in (3, 5):
            assert (await peer.request())[0] == stream
            peer.send(answer(stream, b"%d" % stream))
        assert await asyncio.gather(first, *other_calls[1:]) == [b"1", b"3", b"5"]


async def test_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call without a response, or without a free stream, times out, and later calls use another
    connection."""
    monkeypatch.setattr(etcd_transport, "CALL_SECONDS", 0.5)
    async with grpc_peers() as (transport, peers):
        first = call(transport, peers)
        peer = await peers.connection({frames.MAX_CONCURRENT_STREAMS: 1})
        second = call(transport, peers)
        with pytest.raises(ResponseLost, match="no answer in time"):
            await first
        with pytest.raises(RequestNotSent):
            await second
        monkeypatch.undo()
        third = call(transport, peers)
        other_peer = await peers.connection()
        await other_peer.request()
        other_peer.send(answer(1, b"hello"))
        assert await third == b"hello"
        await peer.end()


async def test_keepalive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that receives nothing sends a PING; if there is no answer, it is dropped."""
    monkeypatch.setattr(http2, "KEEPALIVE_SECONDS", 0.01)
    async with grpc_peers() as (transport, peers):
        calling = call(transport, peers)
        peer = await peers.connection()
        await peer.request()
        for _ in range(3):
            ping = await peer.read(frames.PING)
            peer.send(frames.frame(frames.PING, frames.ACK, 0, ping.payload))
        monkeypatch.setattr(http2, "KEEPALIVE_TIMEOUT_SECONDS", 0.01)
        await peer.read(frames.PING)
        with pytest.raises(ResponseLost, match="PING"):
            await calling
        await peer.end()


async def test_cancelled_calls() -> None:
    """The stream of a cancelled call is reset, and its late response ignored."""
    async with grpc_peers() as (transport, peers):
        first = call(transport, peers)
        peer = await peers.connection()
        await peer.request()
        first.cancel()
        assert (await peer.read(frames.RST_STREAM)).stream == 1
        second = call(transport, peers)
        await peer.request()
        peer.send(answer(1, b"late"), answer(3, b"hello"))
        assert await second == b"hello"


async def test_streams() -> None:
    """A stream yields messages however they are split, until its status."""
    async with grpc_peers() as (transport, peers):
        async with transport.stream(peers.url, "s/watch", b"watch", "") as stream:
            peer = await peers.connection()
            assert (await peer.request())[2] == b"watch"
            body = message(b"one") + message(b"") + message(b"three" * 2000)
            peer.send(headers(1, OK), *(data(1, body[at : at + 7]) for at in range(0, 700, 7)))
            peer.send(data(1, body[700:]), headers(1, DONE, end=True))
            contents = [content async for batch in stream for content in batch]
            assert contents == [b"one", b"", b"three" * 2000]
        async with transport.stream(peers.url, "s/watch", b"", "") as stream:
            await peer.request()
            status = [(b"grpc-status", b"14"), (b"grpc-message", b"no leader")]
            peer.send(headers(3, OK), data(3, message(b"one")), headers(3, status, end=True))
            assert await anext(stream) == [b"one"]
            with pytest.raises(Unavailable, match="leader"):
                await anext(stream)
        async with transport.stream(peers.url, "s/watch", b"", "") as stream:
            await peer.request()
            stream.close()
            with pytest.raises(ResponseLost):
                await anext(stream)
            assert (await peer.read(frames.RST_STREAM)).stream == 5
