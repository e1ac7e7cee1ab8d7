"""Exec and attach in every protocol, and port-forward, against a made-up container."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

from kapiserver.apiserver.errors import BadRequest, Forbidden
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.response import UpgradedPeer
from kapiserver.apiserver.streaming.port_forward import serve_port_forward
from kapiserver.apiserver.streaming.remote_command import (
    SPDY_PROTOCOLS,
    WEBSOCKET_PROTOCOLS,
    CommandOptions,
    CommandStreams,
    exit_status,
    serve_command,
)
from kapiserver.apiserver.streaming.stream import Stream, copy, read_to_end
from kapiserver.codecs.spdy import (
    Data,
    Frame,
    FrameWriter,
    GoAway,
    MoreHeaders,
    Ping,
    Reset,
    SynReply,
    SynStream,
)
from tests.apiserver.proxy.streamkit import TunnelledClient, WebSocketClient, contents, spdy_client

pytestmark = pytest.mark.anyio
POD = {"metadata": {"name": "web", "uid": "1"}}
WEBSOCKET = {
    "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}  # fmt: skip
SPDY = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
FULL = CommandOptions(stdin=True, stdout=True, stderr=True)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def request_with(headers: dict[str, str], *more: tuple[str, str]) -> Request:
    async def read_body(limit: int) -> bytes:
        return b""

    every = CIMultiDict([*headers.items(), *more])
    info = parse_request_info("GET", "/", {})
    return Request(method="GET", path="/", query={}, headers=every, info=info, read_body=read_body)


async def shout(streams: CommandStreams) -> dict[str, Any]:
    """Write stdin in capitals, then a word on stderr, and end with code 3."""
    assert streams.stdin is not None
    assert streams.stdout is not None
    assert streams.stderr is not None
    await streams.stdout.write((await streams.stdin.read()).upper())
    await streams.stderr.write(b"done")
    return exit_status(3)


STATUS = {
    "metadata": {},
    "status": "Failure",
    "message": "command terminated with non-zero exit code: command terminated with exit code 3",
    "reason": "NonZeroExitCode",
    "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
}


@pytest.mark.parametrize("protocol", [*SPDY_PROTOCOLS, ""])
async def test_command_over_spdy(protocol: str) -> None:
    offered = [("X-Stream-Protocol-Version", "x"), ("X-Stream-Protocol-Version", protocol)]
    response = serve_command(request_with(SPDY, *offered[: 2 * bool(protocol)]), FULL, shout)
    assert dict(response.headers).get("X-Stream-Protocol-Version", "") == protocol
    async with spdy_client(response.peer) as client:
        names = ("error", "stdin", "stdout", "stderr")
        error, stdin, stdout, stderr = [await client.open({"streamtype": each}) for each in names]
        await stdin.write(b"hello")
        outputs = [await contents(each) for each in (stdout, stderr, error)]
    assert outputs[:2] == [b"HELLO", b"done"]
    if protocol == "v4.channel.k8s.io":
        assert json.loads(outputs[2]) == STATUS
    else:
        assert outputs[2].decode() == STATUS["message"]


@pytest.mark.parametrize("protocol", WEBSOCKET_PROTOCOLS)
async def test_command_over_websocket(protocol: str) -> None:
    response = serve_command(
        request_with(WEBSOCKET | {"Sec-WebSocket-Protocol": f"x, {protocol}"}), FULL, shout
    )
    assert ("Sec-WebSocket-Protocol", protocol) in response.headers
    client = WebSocketClient(response.peer)
    receiving = asyncio.create_task(client.decoded_messages(is_base64="base64" in protocol))
    await asyncio.sleep(0)
    await client.send_on_channel(0, b"hello", is_base64="base64" in protocol)
    first, *messages, (number, error) = await receiving
    assert first == (1, b"")
    assert messages == [(1, b"HELLO"), (2, b"done")]
    assert number == 3
    if protocol.startswith("v"):
        assert json.loads(error) == STATUS
    else:
        assert error.decode() == STATUS["message"]


async def test_end_of_input() -> None:
    """A command reads stdin to its end: a closed stream, or the signal of version 5."""

    async def count(streams: CommandStreams) -> dict[str, Any]:
        assert streams.stdin is not None
        return exit_status(len(await read_to_end(streams.stdin, 200)))

    options = CommandOptions(stdin=True)
    async with spdy_client(serve_command(request_with(SPDY), options, count).peer) as client:
        error, stdin = [await client.open({"streamtype": each}) for each in ("error", "stdin")]
        await stdin.write(b"x" * 300)
        await stdin.close()
        assert b"exit code 200" in await contents(error)
    headers = WEBSOCKET | {"Sec-WebSocket-Protocol": "v5.channel.k8s.io"}
    websocket = WebSocketClient(serve_command(request_with(headers), options, count).peer)
    receiving = asyncio.create_task(websocket.all_messages())
    await asyncio.sleep(0)
    await websocket.send_bytes(b"\x00xxx")
    await websocket.send_bytes(b"\xff\x00")
    assert b'"message":"3"' in (await receiving)[-1]  # type: ignore[operator]


async def test_terminal() -> None:
    """A terminal has one stream of output, and one for its size."""

    async def resize(streams: CommandStreams) -> dict[str, Any]:
        assert streams.resize is not None
        assert streams.stdout is not None
        assert streams.stderr is None
        await streams.stdout.write(await streams.resize.read())
        return exit_status(0)

    options = CommandOptions.of({"stdout": True, "stderr": True, "tty": True})
    offered = ("X-Stream-Protocol-Version", "v4.channel.k8s.io")
    peer = serve_command(request_with(SPDY, offered), options, resize).peer
    async with spdy_client(peer) as client:
        names = ("error", "stdout", "resize")
        error, stdout, size = [await client.open({"streamtype": each}) for each in names]
        await size.write(b'{"Width":80,"Height":24}')
        assert await contents(stdout) == b'{"Width":80,"Height":24}'
        assert json.loads(await contents(error)) == {"metadata": {}, "status": "Success"}


async def test_client_that_goes() -> None:
    """A command is cancelled when its client goes."""
    cancelled = asyncio.Event()

    async def wait(streams: CommandStreams) -> dict[str, Any]:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return exit_status(0)

    response = serve_command(request_with(SPDY), CommandOptions(stdout=True), wait)
    async with spdy_client(response.peer) as client:
        await client.open({"streamtype": "error"})
        await client.open({"streamtype": "stdout"})
    await asyncio.wait_for(cancelled.wait(), 60)


async def test_unexpected_streams() -> None:
    response = serve_command(request_with(SPDY), CommandOptions(stdout=True), shout)
    async with spdy_client(response.peer) as client:
        for headers in ({}, {"streamtype": "stdin"}, {"streamtype": "resize"}):
            with pytest.raises(ConnectionResetError):
                await client.open(headers)
        await client.open({"streamtype": "error"})
        with pytest.raises(ConnectionResetError):
            await client.open({"streamtype": "error"})


async def test_command_that_fails() -> None:
    """A fault of a command closes the connection, and is logged."""

    async def fail(streams: CommandStreams) -> dict[str, Any]:
        raise ConnectionResetError

    response = serve_command(request_with(SPDY), CommandOptions(stdout=True), fail)
    async with spdy_client(response.peer) as client:
        error = await client.open({"streamtype": "error"})
        await client.open({"streamtype": "stdout"})
        assert await contents(error) == b""


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({}, BadRequest),
        ({"Connection": "Upgrade", "Upgrade": "h2c"}, BadRequest),
        (WEBSOCKET | {"Sec-WebSocket-Protocol": "chat"}, BadRequest),
        (SPDY | {"X-Stream-Protocol-Version": "v9"}, Forbidden),
    ],
)
def test_refused_handshakes(headers: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        serve_command(request_with(headers), FULL, shout)


def test_no_streams() -> None:
    with pytest.raises(BadRequest, match="at least 1 of"):
        CommandOptions.of({"tty": True})


# Port-forward.


async def forward(port: int, stream: Stream) -> None:
    """Echo on port 80; refuse all others."""
    if port != 80:
        raise ConnectionRefusedError("connection refused")
    await copy(stream, stream)


def ports(headers: dict[str, str], *numbers: int) -> UpgradedPeer:
    return serve_port_forward(request_with(headers), numbers, forward, POD).peer


def tunnelled(headers: dict[str, str]) -> UpgradedPeer:
    protocol = {"Sec-WebSocket-Protocol": "SPDY/3.1+portforward.k8s.io"}
    return TunnelledClient(ports(WEBSOCKET | protocol))


REFUSED = "error forwarding port 81 to pod web, uid 1: connection refused"


@pytest.mark.parametrize("connect", [ports, tunnelled])
async def test_port_forward(connect: Callable[[dict[str, str]], UpgradedPeer]) -> None:
    """Several connections at the same time, over SPDY and through WebSocket."""
    async with spdy_client(connect(SPDY)) as client:
        pairs = []
        for number in range(3):
            headers = {"port": "80", "requestid": str(number)}
            error = await client.open(headers | {"streamtype": "error"})
            await error.close()
            pairs.append((await client.open(headers | {"streamtype": "data"}), error))
        for number, (data, _) in enumerate(pairs):
            await data.write(b"%d" % number)
            await data.close()
        for number, (data, error) in enumerate(pairs):
            assert await contents(data) == b"%d" % number
            assert await contents(error) == b""
        error = await client.open({"port": "81", "streamtype": "error"})  # as old clients do
        await client.open({"port": "81", "streamtype": "data"})
        assert (await contents(error)).decode() == REFUSED


@pytest.mark.parametrize(
    "headers",
    [
        {"streamtype": "data"},
        {"streamtype": "data", "port": "x"},
        {"streamtype": "data", "port": "0"},
        {"streamtype": "data", "port": "65536"},
        {"streamtype": "stdin", "port": "80"},
    ],
)
async def test_malformed_headers(headers: dict[str, str]) -> None:
    async with spdy_client(ports(SPDY)) as client:
        with pytest.raises(ConnectionResetError):
            await client.open(headers)


async def test_twice_the_same_stream() -> None:
    async with spdy_client(ports(SPDY)) as client:
        headers = {"streamtype": "data", "port": "80", "requestid": "1"}
        await client.open(headers)
        with pytest.raises(ConnectionResetError):
            await client.open(headers)


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v4.base64.channel.k8s.io"])
async def test_ports_as_channels(protocol: str) -> None:
    """Each port has two channels, whose first message is the port."""
    is_base64 = "base64" in protocol
    client = WebSocketClient(ports(WEBSOCKET | {"Sec-WebSocket-Protocol": protocol}, 80, 81))
    messages = client.messages()
    decoded = [client.decoded(await anext(messages), is_base64=is_base64) for _ in range(5)]
    port, refused = (80).to_bytes(2, "little"), (81).to_bytes(2, "little")
    assert decoded[:4] == [(0, port), (1, port), (2, refused), (3, refused)]
    assert decoded[4] == (3, REFUSED.encode())
    await client.send_on_channel(0, b"hello", is_base64=is_base64)
    assert client.decoded(await anext(messages), is_base64=is_base64) == (0, b"hello")


@pytest.mark.parametrize("numbers", [(), (0,), tuple(range(1, 130))])
def test_unusable_ports(numbers: tuple[int, ...]) -> None:
    with pytest.raises(BadRequest, match="ports"):
        ports(WEBSOCKET | {"Sec-WebSocket-Protocol": "v4.channel.k8s.io"}, *numbers)


STREAM_IDS = st.integers(0, 12)
STREAM_HEADERS = st.dictionaries(
    st.sampled_from(["streamtype", "port", "requestid"]),
    st.sampled_from(["error", "stdin", "stdout", "data", "80", "0", "x", ""]),
)
HOSTILE_FRAMES = st.one_of(
    st.builds(SynStream, STREAM_IDS, STREAM_HEADERS, st.booleans(), st.booleans()),
    st.builds(Data, STREAM_IDS, st.binary(max_size=20), st.booleans()),
    st.builds(SynReply, STREAM_IDS, STREAM_HEADERS, st.booleans()),
    st.builds(MoreHeaders, STREAM_IDS, STREAM_HEADERS, st.booleans()),
    st.builds(Reset, STREAM_IDS, st.integers(0, 11)),
    st.builds(Ping, st.integers(0, 9)),
    st.builds(GoAway, STREAM_IDS),
)


@settings(deadline=None, max_examples=200)
@given(st.lists(HOSTILE_FRAMES, max_size=12), st.binary(max_size=30))
def test_hostile_clients(frames: list[Frame], garbage: bytes) -> None:
    """Whatever a client sends, the server ends the connection without a fault."""
    writer = FrameWriter()
    sent = b"".join(map(writer.encode, frames)) + garbage

    async def run() -> None:
        faults: list[Any] = []
        handler = logging.Handler()
        handler.emit = faults.append  # type: ignore[method-assign]
        logging.getLogger("kapiserver").addHandler(handler)
        try:
            command = serve_command(request_with(SPDY), FULL, shout).peer
            for peer in (command, ports(SPDY)):
                await converse(peer, sent)
        finally:
            logging.getLogger("kapiserver").removeHandler(handler)
        assert faults == []

    asyncio.run(run())


async def converse(peer: UpgradedPeer, sent: bytes) -> None:
    """Send bytes, read for a while, and go."""
    reading = asyncio.create_task(peer.read())
    await asyncio.sleep(0)
    await peer.write(sent)
    for _ in range(50):
        await asyncio.sleep(0)
    peer.close()
    await reading
    for _ in range(50):
        await asyncio.sleep(0)
    peer.abort()
    await asyncio.sleep(0)
