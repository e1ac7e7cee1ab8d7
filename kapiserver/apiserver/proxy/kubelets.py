"""Requests that the kubelet of a node answers: the log of a container, and connections to it.

A connection is passed on unchanged, whatever its protocol. The exceptions are two forms of
WebSocket that kubelets do not speak unless their nodes declare it: version 5 of commands, which is
translated to streams over SPDY, and ports tunnelled through a WebSocket, which are taken out of its
messages.
Mirrors pkg/registry/core/pod/rest, pkg/kubelet/client, and StreamTranslatorHandler and
TunnelingHandler of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from kapiserver.api.accessors import value_at
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.websocket_token import subprotocols
from kapiserver.apiserver.byte_stream import ByteStream, join
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import BadRequest, InternalError, UnclassifiedError, status_of
from kapiserver.apiserver.http_client.errors import AddressNotAllowed, error_text
from kapiserver.apiserver.proxy.reverse_proxy import Location, forward, send, upgraded
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Headers, Response, UpgradeResponse
from kapiserver.apiserver.status import details, status
from kapiserver.apiserver.streaming.handshake import (
    SPDY,
    STREAM_PROTOCOLS,
    check_upgrade,
    is_handshake,
    websocket_headers,
)
from kapiserver.apiserver.streaming.local_peer import LocalPeer
from kapiserver.apiserver.streaming.port_forward import PROTOCOL, TUNNEL_PROTOCOL
from kapiserver.apiserver.streaming.remote_command import (
    SPDY_PROTOCOLS,
    V4,
    V5,
    Command,
    CommandOptions,
    CommandStreams,
    serve_command,
)
from kapiserver.apiserver.streaming.spdy_connection import SpdyConnection
from kapiserver.apiserver.streaming.stream import (
    ERROR,
    STDERR,
    STDOUT,
    STREAM_TYPE,
    copy,
    read_to_end,
)
from kapiserver.apiserver.streaming.websocket_connection import Tunnel, WebSocketConnection
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.json import decode_value

if TYPE_CHECKING:
    from kapiserver.apiserver.http_client.connection import HttpResponse

MAX_ERROR_BYTES = 50_000
"""What is read of a kubelet's error."""

_HOST = re.compile(r"[A-Za-z0-9._:-]+")
_SPEAKS_WEBSOCKET = "ExtendWebSocketsToKubelet"
"""The feature that a node declares if its kubelet speaks all forms of WebSocket."""


def kubelet_location(
    server: Server,
    node: Tree,
    path: str,
    parameters: Mapping[str, str | Sequence[str]] | None = None,
    *,
    is_verified: bool = True,
) -> Location:
    """Return where a kubelet answers requests for a path. Raises UnclassifiedError if its node has
    no address of a preferred type, and BadRequest for an address that is none."""
    settings, upstreams = server.config.kubelets, server.upstreams
    reported = value_at(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port") or 0
    return Location(
        scheme="https",
        host=_node_address(node, settings.kubelet_preferred_address_types),
        port=str(reported if reported > 0 else settings.kubelet_port),
        path=path,
        query=urlencode(sorted((parameters or {}).items()), doseq=True),
        context=upstreams.kubelet if is_verified else upstreams.unverified_kubelet,
        connect_seconds=settings.kubelet_timeout,
    )


def _node_address(node: Tree, types: Iterable[str]) -> str:
    """Return the address to reach a node at. Raises UnclassifiedError."""
    addresses = value_at(node, "status", "addresses") or ()
    for type_ in types:
        for address in addresses:
            if address.get("type") == type_:
                return _checked_host(address.get("address") or "")
    known_addresses = " ".join(
        f"{{{address.get('type')} {address.get('address')}}}" for address in addresses
    )
    raise UnclassifiedError(f"no preferred addresses found; known addresses: [{known_addresses}]")


def _checked_host(host: str) -> str:
    """Return a host that has only the characters of names and addresses. Raises BadRequest."""
    if not _HOST.fullmatch(host):
        raise BadRequest(f"lookup {host}: no such host")
    return host


# Logs.


async def forward_log(
    server: Server, request: Request, location: Location, *, is_endless: bool
) -> Response:
    """Return the log that a kubelet sends, as it arrives. Raises the kubelet's error as
    BadRequest, InternalError or StatusError, and UnclassifiedError if it cannot be reached."""
    request.cancel_when_gone()
    try:
        response = await send(server, request, location, "GET", [])
    except AddressNotAllowed as error:
        raise BadRequest(str(error)) from None
    except (OSError, ValueError) as error:
        raise UnclassifiedError(_failure("Get", location, error)) from None
    if 300 <= response.status < 400:
        raise UnclassifiedError(f'Get "{location.url}": redirects forbidden')
    if not 200 <= response.status <= 206:
        raise _as_error(request, response.status, await _text(response))
    return Response(
        media_type="text/plain",
        body=response.pieces(),
        is_passed_on=True,
        is_endless=is_endless,
    )


def _failure(method: str, location: Location, error: Exception) -> str:
    return f'{method} "{location.url}": {error_text(error, location.host_port)}'


async def _text(response: HttpResponse) -> str:
    """Return the beginning of a body. Raises InternalError if it is cut off."""
    text = b""
    try:
        async for piece in response.pieces():
            text += piece
            if len(text) >= MAX_ERROR_BYTES:
                break
    except OSError as error:
        raise InternalError(str(error) or "unexpected EOF") from None
    return text[:MAX_ERROR_BYTES].decode("utf-8", "replace")


def _as_error(request: Request, code: int, text: str) -> Exception:
    """Return the error for a kubelet's response with an error; NewGenericServerResponse of
    apimachinery."""
    if code == 500:
        return InternalError(text)
    if code == 400:
        return BadRequest(text)
    info, reason = request.info, ""
    message = (
        f"the server responded with the status code {code} but did not return more information"
    )
    if code in _GENERIC:
        reason, message = _GENERIC[code]
    elif code > 500:
        reason = "InternalError"
        message = f'an error on the server ("{text}") has prevented the request from succeeding'
    resource = f"{info.resource}/{info.subresource}"
    tree = status(
        code=code,
        reason=reason,
        message=f"{message or text} ( {resource} {info.name})",
        details=details(name=info.name, kind=resource),
    )
    return StatusError(tree, code)


_GENERIC = {
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", ""),
    404: ("NotFound", "the server could not find the requested resource"),
    405: (
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    ),
    429: (
        "TooManyRequests",
        "the server has received too many requests and has asked us to try again later",
    ),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: (
        "Timeout",
        "the server was unable to return a response in the time allotted, but may still be "
        "processing the request",
    ),
}
"""Reasons and messages by status; a message that is empty is the kubelet's own."""


# Connections.


async def forward_command(
    server: Server, request: Request, location: Location, node: Tree, options: CommandOptions
) -> AnyResponse:
    """Connect the client with a command that a kubelet runs. Raises BadRequest, Forbidden,
    UnclassifiedError."""
    check_upgrade(request)
    if not _offers(request, V5) or _speaks_websocket(node):
        return await forward(server, request, location)
    return serve_command(request, options, _translated(server, request, location, options))


async def forward_ports(
    server: Server, request: Request, location: Location, node: Tree
) -> AnyResponse:
    """Connect the client with ports of a pod that a kubelet forwards. Raises BadRequest,
    UnclassifiedError."""
    check_upgrade(request)
    if not _offers(request, TUNNEL_PROTOCOL) or _speaks_websocket(node):
        return await forward(server, request, location)
    request.cancel_when_gone()
    try:
        response = await _dial(server, request, location, PROTOCOL)
    except InternalError as error:
        raise UnclassifiedError(str(error)) from None
    peer = upgraded(request, response)
    request.on_complete(lambda _: peer.close())

    async def serve(transport: ByteStream) -> None:
        websocket = WebSocketConnection(transport)
        await join(Tunnel(websocket), peer)
        await websocket.close()

    headers = websocket_headers(request.headers, TUNNEL_PROTOCOL)
    return UpgradeResponse(headers=headers, peer=LocalPeer(serve))


def _offers(request: Request, protocol: str) -> bool:
    is_websocket = is_handshake(request.method, request.headers)
    return is_websocket and protocol in subprotocols(request.headers)


def _speaks_websocket(node: Tree) -> bool:
    return _SPEAKS_WEBSOCKET in (value_at(node, "status", "declaredFeatures") or ())


async def _dial(
    server: Server, request: Request, location: Location, *protocols: str
) -> HttpResponse:
    """Ask a kubelet for SPDY, and return its response with status 101. Raises InternalError."""
    headers: Headers = [("Connection", "Upgrade"), ("Upgrade", SPDY)]
    headers += [(STREAM_PROTOCOLS, protocol) for protocol in protocols]
    try:
        response = await send(server, request, location, "POST", headers)
    except (OSError, ValueError) as error:
        raise InternalError(f"error sending request: {_failure('Post', location, error)}") from None
    if response.status != 101:
        raise InternalError(f"unable to upgrade connection: {await _text(response)}")
    return response


def _translated(
    server: Server, request: Request, location: Location, options: CommandOptions
) -> Command:
    """Return a command that runs at a kubelet, with the client's streams over SPDY."""

    async def run(streams: CommandStreams) -> Tree:
        try:
            response = await _dial(server, request, location, *SPDY_PROTOCOLS)
            peer = response.upgraded()
        except InternalError as error:
            return status_of(error, request.info) or {}
        try:
            return await _run_at(peer, streams, options)
        except ConnectionError:
            return status_of(InternalError("lost connection to the kubelet"), request.info) or {}
        finally:
            peer.close()

    return run


async def _run_at(peer: ByteStream, streams: CommandStreams, options: CommandOptions) -> Tree:
    """Copy the streams of a command from and to a kubelet until it ends, and return the Status that
    the kubelet reports. Raises ConnectionResetError if the kubelet goes before."""
    connection = SpdyConnection(peer, is_client=True)
    tasks = [asyncio.create_task(connection.run())]
    try:
        error = await connection.open({STREAM_TYPE: ERROR})
        await error.close()
        # All before the first copy: a kubelet reads no data until it has all streams.
        names = [name for name in options.names(V4) if name != ERROR]
        kubelet_streams = {name: await connection.open({STREAM_TYPE: name}) for name in names}
        outputs = []
        for name, stream in kubelet_streams.items():
            client_stream = getattr(streams, name)
            if name in (STDOUT, STDERR):
                outputs.append(asyncio.create_task(copy(stream, client_stream)))
            else:
                tasks.append(asyncio.create_task(copy(client_stream, stream)))
        tasks += outputs
        if outputs:
            await asyncio.wait(outputs)
        return _reported(await read_to_end(error, MAX_ERROR_BYTES))
    finally:
        for task in tasks:
            task.cancel()


def _reported(text: bytes) -> Tree:
    """Return the Status on the stream `error`. Raises ConnectionResetError if there is none."""
    try:
        reported = decode_value(text)
    except CodecError:
        reported = None
    if not isinstance(reported, dict):
        raise ConnectionResetError
    return reported
