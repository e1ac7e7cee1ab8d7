"""The headers that pass through the reverse proxy, in both directions.

Credentials for this server go no further: the server that a request is passed on to could use them.
Mirrors ReverseProxy of Go's net/http/httputil, withAuthentication of k8s.io/apiserver and
corsRemovingTransport of k8s.io/apimachinery.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kapiserver.apiserver.authentication.websocket_token import subprotocols
from kapiserver.apiserver.config import AuthenticationSettings
from kapiserver.apiserver.http_client.connection import header_name, header_text
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
_NOT_RETURNED = frozenset(
    name.encode() for name in _HOP_BY_HOP | _OF_CORS | {"content-length", "content-type", "date"}
)
_ONLY_ONCE = frozenset(("transfer-encoding",))
_WEBSOCKET_PROTOCOL = "sec-websocket-protocol"
_FORWARDED_FOR = "x-forwarded-for"


def asks_to_upgrade(headers: Mapping[str, str]) -> bool:
    """Report whether a request asks to change the protocol, as IsUpgradeRequest of httpstream."""
    return "upgrade" in headers.get("Connection", "").lower()


def forwarded_headers(
    request: Request,
    settings: AuthenticationSettings,
    *,
    upgrade: bool,
    withheld: frozenset[str] = frozenset(),
) -> Headers:
    """Return the headers of a request that is passed on; hop-by-hop headers only to upgrade.
    `withheld` are the names in lower case of others that are not passed on."""
    names, prefixes = _withheld(
        settings.requestheader_username_headers,
        settings.requestheader_uid_headers,
        settings.requestheader_group_headers,
        settings.requestheader_extra_headers_prefix,
        withheld,
        upgrade=upgrade,
    )
    connection = request.header("Connection")
    if connection and not upgrade:
        names |= _named(connection)
    passed, chain, has_protocols = [], [], False
    for name, value in request.headers.items():
        lower = name.lower()
        if lower in names or lower.startswith(prefixes):
            if lower == _FORWARDED_FOR:
                chain.append(value)
            has_protocols = has_protocols or lower == _WEBSOCKET_PROTOCOL
        else:
            passed.append((name, value if value.isascii() else _sendable(value)))
    if has_protocols and (protocols := subprotocols(request.headers)):
        passed.append(("Sec-WebSocket-Protocol", _sendable(", ".join(protocols))))
    if request.remote:
        chain.append(request.remote)
    if chain:
        passed.append(("X-Forwarded-For", _sendable(", ".join(chain))))
    return passed


@functools.lru_cache(maxsize=64)
def _withheld(
    usernames: Sequence[str],
    uids: Sequence[str],
    groups: Sequence[str],
    extra: Sequence[str],
    others: frozenset[str],
    *,
    upgrade: bool,
) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the names, and the prefixes of names, in lower case of headers that are not passed on
    as they are: `others`, credentials, and those in which front proxies of this server name
    users."""
    hop = _ONLY_ONCE if upgrade else _HOP_BY_HOP
    names = others | hop | _CREDENTIALS | {name.lower() for name in (*usernames, *uids, *groups)}
    prefixes = _CREDENTIAL_PREFIXES + tuple(name.lower() for name in extra)
    return names | {"expect", _FORWARDED_FOR, _WEBSOCKET_PROTOCOL}, prefixes


class ReturnedHeaders(NamedTuple):
    """The headers of a response that is passed back.

    others      without those of the body and Date
    media_type  the value of Content-Type, or ""
    length      the value of Content-Length, or None
    """

    others: Headers
    media_type: str
    length: int | None


def returned_headers(
    raw_headers: Iterable[tuple[bytes, bytes]], withheld: Collection[bytes] = ()
) -> ReturnedHeaders:
    """Return the headers of a response that is passed back. `withheld` are the names in lower case
    of others that are not. Only what is passed back is decoded."""
    others: Headers = []
    of_body: dict[bytes, bytes] = {}
    for name, value in raw_headers:
        lower = name.lower()
        if lower not in _NOT_RETURNED:
            if lower not in withheld:
                others.append((header_name(name), header_text(value)))
        elif lower == b"connection":
            of_body[lower] = b"%b,%b" % (of_body.get(lower, b""), value)
        else:
            of_body.setdefault(lower, value)
    if connection := of_body.get(b"connection"):
        named = _named(header_text(connection))
        others = [other for other in others if other[0].lower() not in named]
    length = of_body.get(b"content-length", b"")
    return ReturnedHeaders(
        others,
        header_text(of_body.get(b"content-type", b"")),
        int(length) if length.isdigit() else None,
    )


def _named(connection: str) -> set[str]:
    """Return the names of headers, in lower case, that the header Connection has: they concern one
    connection only."""
    return {option.strip().lower() for option in connection.split(",")} if connection else set()


def header(headers: Iterable[tuple[str, str]], name: str) -> str:
    """Return the first header of a name, or ""."""
    return next(
        (value for header_name, value in headers if header_name.lower() == name.lower()), ""
    )


def _sendable(value: str) -> str:
    """Return a header with U+FFFD for bytes that are no UTF-8."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
