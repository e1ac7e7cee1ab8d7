"""The headers that pass through the reverse proxy, in both directions.

Credentials for this server go no further: the server that a request is passed on to could use them.
Mirrors ReverseProxy of Go's net/http/httputil, withAuthentication of k8s.io/apiserver and
corsRemovingTransport of k8s.io/apimachinery.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kapiserver.apiserver.authentication.websocket_token import subprotocols
from kapiserver.apiserver.config import AuthenticationSettings
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Headers

_HOP_BY_HOP = frozenset(
    (
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization",
        "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    )
)  # fmt: skip
_CREDENTIALS = frozenset(
    (
        "authorization", "impersonate-group", "impersonate-uid", "impersonate-user",
        "x-remote-group", "x-remote-uid", "x-remote-user",
    )
)  # fmt: skip
_CREDENTIAL_PREFIXES = ("impersonate-extra-", "x-remote-extra-")
_OF_CORS = frozenset(
    f"access-control-allow-{name}" for name in ("credentials", "headers", "methods", "origin")
)
_WEBSOCKET_PROTOCOL = "sec-websocket-protocol"
_FORWARDED_FOR = "x-forwarded-for"


def asks_to_upgrade(headers: Mapping[str, str]) -> bool:
    """Report whether a request asks to change the protocol, as IsUpgradeRequest of httpstream."""
    return "upgrade" in headers.get("Connection", "").lower()


def forwarded_headers(
    request: Request, settings: AuthenticationSettings, *, upgrade: bool
) -> Headers:
    """Return the headers of a request that is passed on; hop-by-hop headers only to upgrade."""
    headers = request.headers
    dropped = {"expect", "transfer-encoding"} if upgrade else hop_by_hop(headers.items())
    dropped |= _CREDENTIALS | {"expect", _FORWARDED_FOR, _WEBSOCKET_PROTOCOL}
    configured = (
        *settings.requestheader_username_headers,
        *settings.requestheader_uid_headers,
        *settings.requestheader_group_headers,
    )
    dropped |= {name.lower() for name in configured}
    extra = (name.lower() for name in settings.requestheader_extra_headers_prefix)
    prefixes = (*_CREDENTIAL_PREFIXES, *extra)
    passed = [
        (str(name), _sendable(value))
        for name, value in headers.items()
        if name.lower() not in dropped and not name.lower().startswith(prefixes)
    ]
    protocols = subprotocols(headers)
    if protocols:
        passed.append(("Sec-WebSocket-Protocol", _sendable(", ".join(protocols))))
    chain = [value for name, value in headers.items() if name.lower() == _FORWARDED_FOR]
    if request.remote:
        chain.append(request.remote)
    if chain:
        passed.append(("X-Forwarded-For", _sendable(", ".join(chain))))
    return passed


def returned_headers(headers: Iterable[tuple[str, str]]) -> Headers:
    """Return the headers of a response that is passed back, without those of the body and Date."""
    headers = list(headers)
    dropped = hop_by_hop(headers) | _OF_CORS | {"content-length", "content-type", "date"}
    return [(name, value) for name, value in headers if name.lower() not in dropped]


def hop_by_hop(headers: Iterable[tuple[str, str]]) -> set[str]:
    """Return the names of headers, in lower case, that concern one connection only."""
    named = {
        option.strip().lower()
        for name, value in headers
        if name.lower() == "connection"
        for option in value.split(",")
    }
    return named | _HOP_BY_HOP


def header(headers: Iterable[tuple[str, str]], name: str) -> str:
    """Return the first header of a name, or ""."""
    return next((value for each, value in headers if each.lower() == name.lower()), "")


def _sendable(value: str) -> str:
    """Return a header with U+FFFD for bytes that are no UTF-8."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
