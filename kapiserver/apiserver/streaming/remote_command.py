"""Streams of commands in containers over SPDY or WebSocket, for exec and attach.

The streams are stdin, stdout, stderr, the size of the terminal, and `error`, on which a Status says
at the end how the command ended. Over SPDY the client opens them; over WebSocket they are numbered.
Mirrors k8s.io/cri-streaming/pkg/streaming/remotecommand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.apiserver.byte_stream import ByteStream
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import UpgradeResponse
from kapiserver.apiserver.status import FAILURE, SUCCESS
from kapiserver.apiserver.streaming.channels import Channels
from kapiserver.apiserver.streaming.handshake import (
    check_upgrade,
    is_handshake,
    spdy_headers,
    spdy_protocol,
    websocket_headers,
    websocket_protocol,
)
from kapiserver.apiserver.streaming.local_peer import LocalPeer
from kapiserver.apiserver.streaming.spdy_connection import SpdyConnection, SpdyStream
from kapiserver.apiserver.streaming.stream import (
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    STREAM_TYPE,
    Stream,
    discard,
)
from kapiserver.apiserver.streaming.websocket_connection import WebSocketConnection
from kapiserver.codecs.json import encode_value

V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
SPDY_PROTOCOLS = (V4, "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
WEBSOCKET_PROTOCOLS = (
    V5, "v5.base64.channel.k8s.io", V4, "v4.base64.channel.k8s.io",
    "channel.k8s.io", "base64.channel.k8s.io",
)  # fmt: skip
CREATION_SECONDS = 30.0
"""How long a client may take to open its streams."""
LAST_SECONDS = 2.0
"""How long a client may take to close the connection after the end."""

_CHANNELS = (STDIN, STDOUT, STDERR, ERROR, RESIZE)
"""The streams over WebSocket; the number of each is its index."""


class CommandOptions(Struct, frozen=True, kw_only=True):
    """The streams that the client of a command asks for.

    tty     whether the command has a terminal, which has one stream for all output
    """

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False

    @classmethod
    def of(cls, options: Tree) -> CommandOptions:
        """Return those of a PodExecOptions or PodAttachOptions. Raises BadRequest for none."""
        tty = bool(options.get("tty"))
        stdin, stdout, stderr = (bool(options.get(name)) for name in (STDIN, STDOUT, STDERR))
        if not (stdin or stdout or stderr):
            raise BadRequest("you must specify at least 1 of stdin, stdout, stderr")
        return cls(stdin=stdin, stdout=stdout, stderr=stderr and not tty, tty=tty)

    def names(self, protocol: str) -> list[str]:
        """Return the names of the streams, `error` included."""
        is_open = {STDIN: self.stdin, STDOUT: self.stdout, STDERR: self.stderr, ERROR: True}
        is_open[RESIZE] = self.tty and protocol not in SPDY_PROTOCOLS[2:]
        return [name for name in _CHANNELS if is_open[name]]


class CommandStreams(Struct, frozen=True, kw_only=True):
    """The streams of one command; None for those that the client did not ask for."""

    stdin: Stream | None = None
    stdout: Stream | None = None
    stderr: Stream | None = None
    resize: Stream | None = None
    error: Stream


Command: TypeAlias = Callable[[CommandStreams], Awaitable[Tree]]
"""Runs a command and returns a Status that says how it ended. Is cancelled when the client goes."""


def exit_status(code: int) -> Tree:
    """Return the Status of a command that has ended with an exit code."""
    if code == 0:
        return {"metadata": {}, "status": SUCCESS}
    ended = f"command terminated with exit code {code}"
    return {
        "metadata": {},
        "status": FAILURE,
        "message": f"command terminated with non-zero exit code: {ended}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def serve_command(request: Request, options: CommandOptions, command: Command) -> UpgradeResponse:
    """Return the response to exec or attach, after which the command runs. Raises BadRequest,
    Forbidden."""
    check_upgrade(request)
    if is_handshake(request.method, request.headers):
        protocol = websocket_protocol(request.headers, WEBSOCKET_PROTOCOLS)
        headers, serve = websocket_headers(request.headers, protocol), _serve_websocket
    else:
        protocol = spdy_protocol(request.headers, SPDY_PROTOCOLS)
        headers, serve = spdy_headers(protocol), _serve_spdy
    peer = LocalPeer(lambda transport: serve(transport, protocol, options, command))
    return UpgradeResponse(headers=headers, peer=peer)


async def _serve_websocket(
    transport: ByteStream, protocol: str, options: CommandOptions, command: Command
) -> None:
    channels = Channels(WebSocketConnection(transport), protocol, range(len(_CHANNELS)))
    named = {name: channels[_CHANNELS.index(name)] for name in options.names(protocol)}
    reading = asyncio.create_task(channels.run())
    try:
        first = next(name for name in (STDOUT, STDERR, ERROR) if name in named)
        await named[first].write(b"")  # tells the client that the streams are open
        await _run(command, CommandStreams(**named), protocol, reading)
        await channels.close()
        await _wait_for_client(reading)
    finally:
        reading.cancel()


async def _serve_spdy(
    transport: ByteStream, protocol: str, options: CommandOptions, command: Command
) -> None:
    expected = _ExpectedStreams(options.names(protocol))
    connection = SpdyConnection(transport, expected.add)
    reading = asyncio.create_task(connection.run())
    try:
        async with asyncio.timeout(CREATION_SECONDS):
            await expected.complete.wait()
        await _run(command, CommandStreams(**expected.streams), protocol, reading)
        for stream in expected.streams.values():
            await stream.close()
        await _wait_for_client(reading)
    except TimeoutError:
        pass  # the client has not opened its streams
    finally:
        reading.cancel()


class _ExpectedStreams:
    """The streams that the client opens before its command runs."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self.streams: dict[str, SpdyStream] = {}
        self.complete = asyncio.Event()

    def add(self, stream: SpdyStream) -> None:
        """Take a stream. Raises ValueError if it is not expected."""
        name = stream.headers.get(STREAM_TYPE, "").lower()
        if name not in self._names or name in self.streams:
            raise ValueError(name)
        self.streams[name] = stream
        if len(self.streams) == len(self._names):
            self.complete.set()


async def _run(
    command: Command, streams: CommandStreams, protocol: str, reading: asyncio.Task[None]
) -> None:
    """Run the command until it ends or the client has gone, and report how it ended. Raises
    ConnectionResetError if the client has gone."""
    running = asyncio.ensure_future(command(streams))
    try:
        await asyncio.wait([running, reading], return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise ConnectionResetError
    finally:
        running.cancel()
    result = _encoded(running.result(), protocol)
    if result:
        await streams.error.write(result)


def _encoded(result: Tree, protocol: str) -> bytes:
    """Return what says on the stream `error` how a command ended: before version 4, a text."""
    if protocol.startswith(("v4.", "v5.")):
        return encode_value(result)
    return b"" if result.get("status") == SUCCESS else str(result.get("message")).encode()


async def _wait_for_client(reading: asyncio.Task[None]) -> None:
    """Wait a moment for the client to close the connection, so that it receives the end."""
    await asyncio.wait([reading], timeout=LAST_SECONDS)


async def discard_input(streams: CommandStreams) -> None:
    """Read what nobody needs of a command's streams, so that the client is not held up."""
    unused = [stream for stream in (streams.stdin, streams.resize) if stream is not None]
    await asyncio.gather(*map(discard, unused))
