"""Streams over SPDY and WebSocket: connections, limits, and clients that break the protocol."""

from __future__ import annotations

import asyncio

import pytest
from wsproto.events import BytesMessage, Ping, TextMessage

from kapiserver.apiserver.byte_stream import MAX_UNREAD, ByteStream
from kapiserver.apiserver.streaming.channels import MAX_MESSAGE_BYTES, Channels
from kapiserver.apiserver.streaming.local_peer import LocalPeer
from kapiserver.apiserver.streaming.spdy_connection import MAX_STREAMS, SpdyConnection, SpdyStream
from kapiserver.apiserver.streaming.stream import copy
from kapiserver.apiserver.streaming.websocket_connection import Tunnel, WebSocketConnection
from kapiserver.codecs.spdy import (
    Data,
    FrameReader,
    FrameWriter,
    GoAway,
    Reset,
    SynReply,
    SynStream,
)
from kapiserver.codecs.spdy import Ping as SpdyPing
from tests.apiserver.proxy.streamkit import TunnelledClient, WebSocketClient, contents, spdy_client

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def echo(transport: ByteStream) -> None:
    """Send back what arrives on each stream; refuse those that have the header `bad`."""
    tasks = set()

    def on_stream(stream: SpdyStream) -> None:
        if "bad" in stream.headers:
            raise ValueError
        tasks.add(asyncio.create_task(copy(stream, stream)))

    await SpdyConnection(transport, on_stream).run()


async def test_spdy_streams() -> None:
    """Streams carry bytes in both directions, and end in each by itself."""
    async with spdy_client(LocalPeer(echo)) as client:
        streams = [await client.open({"streamtype": str(number)}) for number in range(20)]
        for number, stream in enumerate(streams):
            await stream.write(b"%d" % number * 1000)
            await stream.close()
        received = await asyncio.gather(*map(contents, streams))
    assert received == [b"%d" % number * 1000 for number in range(20)]


async def test_spdy_back_pressure() -> None:
    """A stream that nobody reads stops its writer, and loses nothing."""
    data = bytes(range(256)) * (16 << 10)
    async with spdy_client(LocalPeer(echo)) as client:
        stream = await client.open({})

        async def write() -> None:
            for start in range(0, len(data), 1 << 16):
                await stream.write(data[start : start + (1 << 16)])
            await stream.close()

        writing = asyncio.create_task(write())
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not writing.done()
        assert await contents(stream) == data
        await writing


async def test_refused_and_reset_streams() -> None:
    async with spdy_client(LocalPeer(echo)) as client:
        with pytest.raises(ConnectionResetError):
            await client.open({"bad": ""})
        stream = await client.open({})
        await stream.reset()
        assert await stream.read() == b""
        with pytest.raises(ConnectionResetError):
            await stream.write(b"x")
        assert await contents_of_echo(client) == b"still alive"


async def contents_of_echo(client: SpdyConnection) -> bytes:
    stream = await client.open({})
    await stream.write(b"still alive")
    await stream.close()
    return await contents(stream)


async def test_streams_end_with_the_connection() -> None:
    peer = LocalPeer(echo)
    async with spdy_client(peer) as client:
        stream = await client.open({})
        peer.close()
        assert await stream.read() == b""
        with pytest.raises(ConnectionResetError):
            await client.open({})


async def frames_of(*sent: object) -> list[object]:
    """What the server answers to frames."""
    peer, writer, reader = LocalPeer(echo), FrameWriter(), FrameReader()
    reading = asyncio.create_task(peer.read())
    await asyncio.sleep(0)
    await peer.write(b"".join(writer.encode(frame) for frame in sent))  # type: ignore[arg-type]
    data = await reading
    for _ in range(100):
        await asyncio.sleep(0)
    peer._from_client.close()  # as a client that sends no more
    while piece := await peer.read():
        data += piece
    return list(reader.feed(data))


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        ([SpdyPing(1)], [SpdyPing(1)]),
        ([SpdyPing(2), SpdyPing(3)], [SpdyPing(3)]),
        ([SynStream(1, {}, fin=True)], [SynReply(1, {}), Data(1, b"", fin=True)]),
        ([SynStream(1, {}), SynStream(1, {})], [SynReply(1, {}), GoAway(1, 1)]),
        ([SynStream(2, {})], [GoAway(0, 1)]),
        ([Data(1, b"x")], [Reset(1, 2)]),
        ([Data(1, b"", fin=True), SpdyPing(5)], [SpdyPing(5)]),
        ([SynStream(1, {"bad": "x"})], [Reset(1, 3)]),
        ([Reset(9, 1), SynReply(9, {}), SpdyPing(5)], [SpdyPing(5)]),
    ],
)
async def test_frames(sent: list[object], answer: list[object]) -> None:
    assert await frames_of(*sent) == answer


async def test_too_many_streams() -> None:
    numbers = range(1, 2 * MAX_STREAMS + 4, 2)
    answers = await frames_of(*[SynStream(number, {}) for number in numbers])
    assert answers.count(Reset(2 * MAX_STREAMS + 1, 3)) == 1
    assert sum(isinstance(answer, SynReply) for answer in answers) == MAX_STREAMS


# WebSocket.


def channels_client(protocol: str) -> WebSocketClient:
    """A client of a server that sends back on channel 1 what it gets on channel 0."""

    async def serve(transport: ByteStream) -> None:
        channels = Channels(WebSocketConnection(transport), protocol, range(5))
        echoing = asyncio.create_task(copy(channels[0], channels[1]))
        reading = asyncio.create_task(channels.run())
        await asyncio.wait([echoing, reading], return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            await channels.close()
        await reading

    return WebSocketClient(LocalPeer(serve))


async def test_channels() -> None:
    """The first byte of a message is its channel; unknown ones are dropped."""
    client = channels_client("v5.channel.k8s.io")
    receiving = asyncio.create_task(client.all_messages())
    await asyncio.sleep(0)
    await client.send_bytes(b"\x00ab")
    await client.send_bytes(b"\x09dropped")
    await client.send_bytes(b"")
    await client.send(
        BytesMessage(data=b"\x00c", message_finished=False),
        BytesMessage(data=b"d", message_finished=False),
        Ping(payload=b"p"),
        BytesMessage(data=b"e"),
    )
    await client.send_bytes(b"\xff\x00")
    messages = await receiving
    assert all(isinstance(each, bytes) and each[0] == 1 for each in messages)
    assert b"".join(bytes(each[1:]) for each in messages) == b"abcde"  # type: ignore[arg-type]
    assert client.pongs == [b"p"]
    assert client.closed is not None
    assert client.closed.code == 1000


async def test_channels_in_base64() -> None:
    client = channels_client("v5.base64.channel.k8s.io")
    await client.send(
        TextMessage(data="0YW", message_finished=False),
        TextMessage(data="I="),
        TextMessage(data="0???"),
        TextMessage(data="x"),
    )
    assert await anext(client.messages()) == "1YWI="


async def test_too_large_message_in_base64() -> None:
    client = channels_client("v5.base64.channel.k8s.io")
    receiving = asyncio.create_task(client.all_messages())
    await asyncio.sleep(0)
    await client.send(TextMessage(data="0" + "AAAA" * (MAX_MESSAGE_BYTES // 4)))
    assert await receiving == []
    assert client.closed is not None
    assert client.closed.code == 1009


async def test_large_messages_are_passed_on_as_they_arrive() -> None:
    client = channels_client("v5.channel.k8s.io")
    receiving = asyncio.create_task(client.all_messages())
    await asyncio.sleep(0)
    await client.send_bytes(b"\x00" + bytes(4 * MAX_UNREAD))
    await client.send_bytes(b"\xff\x00")
    messages = await receiving
    assert sum(len(each) - 1 for each in messages) == 4 * MAX_UNREAD
    assert max(map(len, messages)) <= 2 * MAX_UNREAD


@pytest.mark.parametrize("data", [b"\xff" * 20, b"\x82\x05hello", b"\x89\xff" + bytes(200)])
async def test_malformed_websocket(data: bytes) -> None:
    """Bytes that are no frame, a frame without a mask, and a ping that is too large."""
    client = channels_client("v5.channel.k8s.io")
    receiving = asyncio.create_task(client.all_messages())
    await asyncio.sleep(0)
    await client.send_raw(data)
    await receiving
    assert client.closed is not None
    assert client.closed.code == 1002


async def test_spdy_in_a_tunnel() -> None:
    """SPDY works through the messages of a WebSocket."""

    async def serve(transport: ByteStream) -> None:
        await echo(Tunnel(WebSocketConnection(transport)))

    async with spdy_client(TunnelledClient(LocalPeer(serve))) as spdy:
        assert await contents_of_echo(spdy) == b"still alive"
