"""Bearer tokens in a subprotocol of WebSocket: browsers cannot set the header Authorization.

Mirrors pkg/authentication/request/websocket of k8s.io/apiserver.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from kapiserver.apiserver.authentication.authenticator import InvalidCredentials
from kapiserver.apiserver.request import Request

TOKEN_PREFIX = "base64url.bearer.authorization.k8s.io."
"""The token follows in base64url without padding."""

_PROTOCOLS = "Sec-WebSocket-Protocol"
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")


def websocket_token(request: Request) -> str:
    """Return the token among the subprotocols that a request for a WebSocket offers, or "". Raises
    InvalidCredentials for a malformed token, for several, and for a token without another
    subprotocol, which the response has to name."""
    if _PROTOCOLS not in request.headers or request.header("Upgrade").lower() != "websocket":
        return ""
    protocols = _offered_protocols(request.headers)
    tokens = [protocol for protocol in protocols if protocol.startswith(TOKEN_PREFIX)]
    if not tokens:
        return ""
    if len(tokens) > 1:
        raise InvalidCredentials("multiple base64.bearer.authorization tokens specified")
    if len(tokens) == len(protocols):
        raise InvalidCredentials("missing additional subprotocol")
    return _decoded(tokens[0].removeprefix(TOKEN_PREFIX))


def offers_token(request: Request) -> bool:
    """Report whether a subprotocol of the request holds a token, valid or not."""
    return TOKEN_PREFIX in request.header(_PROTOCOLS)


def subprotocols(headers: Mapping[str, str]) -> list[str]:
    """Return the subprotocols of WebSocket that a client offers, without those that hold tokens."""
    protocols = _offered_protocols(headers)
    return [protocol for protocol in protocols if not protocol.startswith(TOKEN_PREFIX)]


def _offered_protocols(headers: Mapping[str, str]) -> list[str]:
    protocols = map(str.strip, headers.get(_PROTOCOLS, "").split(","))
    return [protocol for protocol in protocols if protocol]


def _decoded(text: str) -> str:
    try:
        if not _BASE64URL.fullmatch(text):
            raise ValueError
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        raise InvalidCredentials("invalid base64.bearer.authorization token encoding") from None
