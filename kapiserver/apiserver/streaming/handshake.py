"""The handshakes that turn a request into a connection of WebSocket or of SPDY.

Each ends with a response with status 101, which names the protocol of the streams: the first one
that the client offers and the server speaks. Mirrors Handshake of
k8s.io/streaming/pkg/httpstream, and wsstream there. Source: RFC 6455.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Mapping

from kapiserver.apiserver.authentication.websocket_token import subprotocols
from kapiserver.apiserver.errors import BadRequest, Forbidden
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Headers

SPDY = "SPDY/3.1"
STREAM_PROTOCOLS = "X-Stream-Protocol-Version"
"""The header with the protocols of streams over SPDY."""

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def is_handshake(method: str, headers: Mapping[str, str]) -> bool:
    """Report whether the headers of a request ask for the WebSocket protocol."""
    upgrade = headers.get("Upgrade", "").lower()
    options = headers.get("Connection", "").lower()
    if method != "GET" or upgrade != "websocket" or "upgrade" not in options:
        return False
    if headers.get("Sec-WebSocket-Version") != "13":
        return False
    try:
        return len(base64.b64decode(headers.get("Sec-WebSocket-Key", ""), validate=True)) == 16
    except ValueError:
        return False


def accept_key(key: str) -> str:
    """Return the header Sec-WebSocket-Accept for the client's Sec-WebSocket-Key."""
    digest = hashlib.sha1((key + _GUID).encode(), usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def asks_for_spdy(headers: Mapping[str, str]) -> bool:
    """Report whether the headers of a request ask for SPDY/3.1."""
    options = headers.get("Connection", "").lower()
    return "upgrade" in options and headers.get("Upgrade", "").lower() == SPDY.lower()


def check_upgrade(request: Request) -> None:
    """Raise BadRequest unless a request asks for WebSocket or SPDY."""
    if not (is_handshake(request.method, request.headers) or asks_for_spdy(request.headers)):
        raise BadRequest("Upgrade request required")


def websocket_protocol(headers: Mapping[str, str], spoken: Collection[str]) -> str:
    """Return the subprotocol to speak; "" if the client offers none. Raises BadRequest if the
    server speaks none of those that the client offers."""
    offered = subprotocols(headers)
    protocol = next((protocol for protocol in offered if protocol in spoken), "")
    if offered and not protocol:
        raise BadRequest(f"none of the subprotocols is supported: {', '.join(offered)}")
    return protocol


def spdy_protocol(headers: Mapping[str, str], spoken: Collection[str]) -> str:
    """Return the protocol of streams to speak; "" if the client offers none. Raises Forbidden if
    the server speaks none of those that the client offers."""
    offered = _offered_stream_protocols(headers)
    protocol = next((protocol for protocol in offered if protocol in spoken), "")
    if offered and not protocol:
        raise Forbidden(
            f"unable to upgrade: unable to negotiate protocol: client supports {offered}, "
            f"server accepts {list(spoken)}"
        )
    return protocol


def _offered_stream_protocols(headers: Mapping[str, str]) -> list[str]:
    """Return the protocols in all headers of that name; a client may send one header for each."""
    values = [value for name, value in headers.items() if name.lower() == STREAM_PROTOCOLS.lower()]
    protocols = (part.strip() for value in values for part in value.split(","))
    return [protocol for protocol in protocols if protocol]


def websocket_headers(headers: Mapping[str, str], protocol: str) -> Headers:
    """Return the headers of the response that begins WebSocket."""
    accepted = accept_key(headers.get("Sec-WebSocket-Key", ""))
    response = [("Upgrade", "websocket"), ("Connection", "Upgrade")]
    response.append(("Sec-WebSocket-Accept", accepted))
    return [*response, ("Sec-WebSocket-Protocol", protocol)] if protocol else response


def spdy_headers(protocol: str) -> Headers:
    """Return the headers of the response that begins SPDY."""
    response = [("Upgrade", SPDY), ("Connection", "Upgrade")]
    return [*response, (STREAM_PROTOCOLS, protocol)] if protocol else response
