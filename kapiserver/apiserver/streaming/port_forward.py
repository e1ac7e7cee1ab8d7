"""Connections to ports of a pod, over SPDY or WebSocket.

Over SPDY each connection has two streams, `data` and `error`, whose headers name the port and the
connection. kubectl tunnels SPDY through the messages of a WebSocket, too. An older form over
WebSocket has two numbered streams for each port of the query, whose first bytes are the port.
Mirrors k8s.io/cri-streaming/pkg/streaming/portforward.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from kapiserver.api.accessors import name_of, uid_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.byte_stream import ByteStream
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import UpgradeResponse
from kapiserver.apiserver.streaming.channels import Channels
from kapiserver.apiserver.streaming.handshake import (
    check_upgrade,
    is_handshake,
    spdy_headers,
    spdy_protocol,
    websocket_headers,
    websocket_protocol,
)
from kapiserver.apiserver.streaming.local_kubelet import Forward
from kapiserver.apiserver.streaming.local_peer import LocalPeer, Serve
from kapiserver.apiserver.streaming.spdy_connection import SpdyConnection, SpdyStream
from kapiserver.apiserver.streaming.stream import DATA, ERROR, STREAM_TYPE, Stream
from kapiserver.apiserver.streaming.websocket_connection import Tunnel, WebSocketConnection

PROTOCOL = "portforward.k8s.io"
TUNNEL_PROTOCOL = f"SPDY/3.1+{PROTOCOL}"
CHANNEL_PROTOCOLS = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io")
MAX_PORTS = 128
"""Ports of one request; each has two of the 256 numbers of streams."""

_PORT, _REQUEST = "port", "requestid"

Connect: TypeAlias = Callable[[int, Stream, Stream], Coroutine[Any, Any, None]]
"""Passes bytes between a port and the first stream; the second one gets the error."""


def serve_port_forward(
    request: Request, ports: Sequence[int], forward: Forward, pod: Tree
) -> UpgradeResponse:
    """Return the response to portforward, after which the client connects to ports. Raises
    BadRequest, Forbidden."""
    check_upgrade(request)
    report = functools.partial(_forward, forward, f"pod {name_of(pod)}, uid {uid_of(pod)}")
    if not is_handshake(request.method, request.headers):
        headers = spdy_headers(spdy_protocol(request.headers, (PROTOCOL,)))
        return _response(headers, functools.partial(_serve_spdy, report))
    protocol = websocket_protocol(request.headers, (TUNNEL_PROTOCOL, *CHANNEL_PROTOCOLS))
    headers = websocket_headers(request.headers, protocol)
    if protocol == TUNNEL_PROTOCOL:
        return _response(headers, functools.partial(_serve_tunnel, report))
    if not 0 < len(ports) <= MAX_PORTS or not all(ports):
        raise BadRequest(f'query parameter "ports" needs from 1 to {MAX_PORTS} ports')
    return _response(headers, functools.partial(_serve_channels, report, protocol, ports))


def _response(headers: list[tuple[str, str]], serve: Serve) -> UpgradeResponse:
    return UpgradeResponse(headers=headers, peer=LocalPeer(serve))


async def _forward(
    forward: Forward, description: str, port: int, data: Stream, error: Stream
) -> None:
    """Forward one connection, report why it cannot be, and end its streams."""
    with contextlib.suppress(ConnectionResetError):  # the client has gone
        try:
            await forward(port, data)
        except OSError as failure:
            text = f"error forwarding port {port} to {description}: {failure}"
            await error.write(text.encode())
        await error.close()
        await data.close()


async def _serve_spdy(connect: Connect, transport: ByteStream) -> None:
    pairs = _Pairs(connect)
    try:
        await SpdyConnection(transport, pairs.add).run()
    finally:
        pairs.close()


async def _serve_tunnel(connect: Connect, transport: ByteStream) -> None:
    websocket = WebSocketConnection(transport)
    await _serve_spdy(connect, Tunnel(websocket))
    await websocket.close()


async def _serve_channels(
    connect: Connect, protocol: str, ports: Sequence[int], transport: ByteStream
) -> None:
    channels = Channels(WebSocketConnection(transport), protocol, range(2 * len(ports)))
    reading = asyncio.create_task(channels.run())
    pairs = [(port, channels[2 * at], channels[2 * at + 1]) for at, port in enumerate(ports)]
    for port, data, error in pairs:
        await data.write(port.to_bytes(2, "little"))
        await error.write(port.to_bytes(2, "little"))
    forwarding = asyncio.gather(*(connect(port, data, error) for port, data, error in pairs))
    either: list[asyncio.Future[Any]] = [reading, forwarding]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        await channels.close()
    finally:
        forwarding.cancel()
        reading.cancel()


class _Pairs:
    """Brings the two streams of each connection together. A stream whose partner does not come
    waits until the client closes it or goes."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._waiting: dict[tuple[str, str], SpdyStream] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, stream: SpdyStream) -> None:
        """Take a stream. Raises ValueError if its headers are malformed."""
        kind, port = stream.headers.get(STREAM_TYPE, ""), int(stream.headers.get(_PORT, ""))
        if kind not in (DATA, ERROR) or not 0 < port < 1 << 16:
            raise ValueError(kind)
        # Old clients do not number connections: they open the stream `data` after `error`.
        number = stream.headers.get(_REQUEST) or str(stream.stream_id - 2 * (kind == DATA))
        if (number, kind) in self._waiting:
            raise ValueError(number)
        partner = self._waiting.pop((number, ERROR if kind == DATA else DATA), None)
        if partner is None:
            self._waiting[number, kind] = stream
            return
        data, error = (stream, partner) if kind == DATA else (partner, stream)
        task = asyncio.create_task(self._connect(port, data, error))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()
