"""Passes a request on to another server, and its response or its connection back to the client.

Both bodies are streams: neither is held as a whole, except for a page of HTML whose links are
rewritten. When the client goes, so does the connection to the other server. Mirrors
UpgradeAwareHandler of pkg/util/proxy of k8s.io/apimachinery.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import (
    BadRequest,
    InternalError,
    ServiceUnavailable,
    UnclassifiedError,
)
from kapiserver.apiserver.http_client.errors import (
    AddressNotAllowed,
    Disconnected,
    HostPort,
    UnknownHost,
    error_text,
)
from kapiserver.apiserver.proxy.headers import (
    ReturnedHeaders,
    asks_to_upgrade,
    forwarded_headers,
    header,
    returned_headers,
)
from kapiserver.apiserver.proxy.links import MAX_HTML_BYTES, Links, join_path, quoted_path
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Headers, Response, UpgradeResponse

if TYPE_CHECKING:
    from kapiserver.apiserver.http_client.connection import HttpResponse
    from kapiserver.apiserver.http_client.upgraded import UpgradedConnection

_NO_CACHE = ("Cache-Control", "no-cache, private")
_PORTS = {"http": 80, "https": 443}
_MAX_PORT = 65535


class Location(Struct, frozen=True, kw_only=True):
    """Where a request is passed on to.

    host    IP address or name
    port    the port as in the request; "" means that of the scheme
    path    unquoted; begins with a slash unless it is empty
    query   of a connection that changes its protocol; other requests keep their own query
    context for TLS
    connect_seconds     limit of connecting; None means the usual one
    """

    scheme: str
    host: str
    port: str
    path: str
    query: str = ""
    context: ssl.SSLContext
    connect_seconds: float | None = None

    @property
    def target(self) -> str:
        """Path and query, quoted."""
        return (quoted_path(self.path) or "/") + (f"?{self.query}" if self.query else "")

    @property
    def url(self) -> str:
        """The whole location as a URL. Raises ServiceUnavailable if the port is not a number."""
        return f"{self.scheme}://{self.host_port}{self.target}"

    @property
    def netloc(self) -> str:
        """Host and port as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.port else host

    @property
    def host_port(self) -> HostPort:
        """Host and port to connect to. Raises ServiceUnavailable if the port is not a number."""
        port = self.port or str(_PORTS[self.scheme])
        if not (port.isascii() and port.isdigit()):
            raise ServiceUnavailable(f"{_FAILED}: dial tcp: lookup tcp/{port}: unknown port")
        if len(port) > len(str(_MAX_PORT)) or int(port) > _MAX_PORT:
            raise ServiceUnavailable(f"{_FAILED}: dial tcp: address {port}: invalid port")
        return HostPort(self.host, int(port))


_FAILED = "error trying to reach service"


async def forward(server: Server, request: Request, location: Location) -> AnyResponse:
    """Pass a request on and return the response. Raises BadRequest, ServiceUnavailable,
    UnclassifiedError, InternalError."""
    request.cancel_when_gone()
    if asks_to_upgrade(request.headers):
        return await _upgrade(server, request, location)
    path = location.path
    if request.path.endswith("/") and not path.endswith("/"):
        path += "/"
    if not path and request.method in ("GET", "HEAD"):
        # So that relative links of the page lead through the proxy.
        return _redirect(f"{quoted_path(request.path)}/{_query(request)}")
    prefix = _prefix(request.path, location.path)
    headers = forwarded_headers(request, server.config.authentication, upgrade=False)
    headers.append(("X-Forwarded-Uri", join_path(prefix, quoted_path(path))))
    try:
        query = request.uri.partition("?")[2]
        response = await _send(server, request, replace(location, path=path, query=query), headers)
    except (OSError, ValueError) as error:
        text = error_text(error, location.host_port)
        raise ServiceUnavailable(f"{_FAILED}: {text}") from None
    if response.status == 101:
        protocol = header(response.headers, "Upgrade")
        text = f'backend tried to switch protocol "{protocol}" when "" was requested'
        raise UnclassifiedError(text)
    links = Links(prefix=prefix, server_host=location.netloc, request_host=request.header("Host"))
    return await _returned(server, request, response, links)


def _redirect(location: str) -> Response:
    return Response(status=301, media_type="", headers=[("Location", location)])


def _query(request: Request) -> str:
    query = request.uri.partition("?")[2]
    return f"?{query}" if query else ""


def _prefix(path: str, suffix: str) -> str:
    """Return the path of the proxy: that of a request without what is passed on."""
    if path.endswith("/") and not suffix.endswith("/"):
        suffix += "/"
    return path.removesuffix(suffix)


async def _send(
    server: Server, request: Request, location: Location, headers: Headers
) -> HttpResponse:
    """Send the client's request to a location. Raises BadRequest for an address that is not
    allowed, OSError, ValueError."""
    length = request.header("Content-Length")
    has_body = length not in ("", "0") or "Transfer-Encoding" in request.headers
    body = request.stream_body() if has_body else None
    try:
        return await send(server, request, location, request.method, headers, body)
    except AddressNotAllowed as error:
        raise BadRequest(str(error)) from None
    except UnknownHost:
        raise BadRequest(f"lookup {location.host}: no such host") from None


async def send(
    server: Server,
    request: Request,
    location: Location,
    method: str,
    headers: Headers,
    body: AsyncIterator[bytes] | None = None,
) -> HttpResponse:
    """Send a request to a location, and close the response when the client's request completes.
    Raises AddressNotAllowed, UnknownHost, OSError and ValueError."""
    client = server.upstreams.client
    from kapiserver.apiserver.http_client.pool import Origin  # the client has loaded it
    from kapiserver.apiserver.http_client.session import CONNECT_SECONDS, HttpRequest

    host, port = location.host_port
    seconds = location.connect_seconds
    outgoing = HttpRequest(
        method=method,
        origin=Origin(host, port, location.context if location.scheme == "https" else None),
        target=location.target,
        headers=headers,
        body=body,
        connect_seconds=CONNECT_SECONDS if seconds is None else seconds,
    )
    response = await client.request(outgoing)
    request.on_complete(lambda _: response.close())
    return response


async def _upgrade(server: Server, request: Request, location: Location) -> AnyResponse:
    """Pass on a request that changes the protocol of its connection. As in kube-apiserver, the
    client's query is not passed on."""
    headers = forwarded_headers(request, server.config.authentication, upgrade=True)
    try:
        response = await _send(server, request, location, headers)
    except (OSError, ValueError) as error:
        text = error_text(error, location.host_port)
        if not isinstance(error, Disconnected | ValueError):
            text = f"error dialing backend: {text}"
        raise UnclassifiedError(text) from None
    if response.status == 101:
        return UpgradeResponse(headers=list(response.headers), peer=upgraded(request, response))
    if response.status < 400:
        raise UnclassifiedError(f"invalid upgrade response: status code {response.status}")
    return streamed(response, returned_headers(response.raw_headers))


def upgraded(request: Request, response: HttpResponse) -> UpgradedConnection:
    """Take over the connection of a response with status 101."""
    request.on_gone(_nothing)  # what the client sent last still goes to the other server
    return response.upgraded()


def _nothing() -> None:
    pass


async def _returned(
    server: Server, request: Request, response: HttpResponse, links: Links
) -> Response:
    """Return the response for the client. Raises InternalError for a malformed Location."""
    headers = returned_headers(response.raw_headers)
    if header(headers.others, "Cache-Control"):
        headers.others.insert(0, _NO_CACHE)  # kube-apiserver sends both
    target = header(headers.others, "Location")
    if target:
        headers = headers._replace(others=_with_location(headers.others, links, target))
    elif _is_html(headers.media_type) and request.method != "HEAD":
        return await _rewritten_page(server, response, headers, links)
    return streamed(response, headers)


def _with_location(headers: Headers, links: Links, target: str) -> Headers:
    try:
        rewritten = links.rewrite(target)
    except ValueError as error:
        text = f'error trying to parse Location header: parse "{target}": {error}'
        raise InternalError(text) from None
    other_headers = [(name, value) for name, value in headers if name.lower() != "location"]
    return [*other_headers, ("Location", rewritten)]


def _is_html(media_type: str) -> bool:
    return media_type.partition(";")[0].strip() == "text/html"


def streamed(
    response: HttpResponse, headers: ReturnedHeaders, *, is_endless: bool = False
) -> Response:
    """Return a response that passes the body of another server on, with these headers."""
    return Response(
        status=response.status,
        media_type=headers.media_type,
        body=response.pieces(),
        length=headers.length,
        headers=headers.others,
        is_passed_on=True,
        is_endless=is_endless,
    )


async def _rewritten_page(
    server: Server, response: HttpResponse, headers: ReturnedHeaders, links: Links
) -> Response:
    """Return a page with its links rewritten; a large one is passed on as it is."""
    pieces, size = [], 0
    rest = response.pieces()
    try:
        async for piece in rest:
            pieces.append(piece)
            size += len(piece)
            if size > MAX_HTML_BYTES:
                return replace(streamed(response, headers), body=_chained(pieces, rest))
    except OSError as error:
        raise UnclassifiedError(str(error) or "unexpected EOF") from None
    page = b"".join(pieces)
    encoding = header(headers.others, "Content-Encoding")
    rewritten = await server.offloader.run_in_thread(links.rewrite_page, page, encoding)
    return Response(
        status=response.status,
        media_type=headers.media_type,
        body=page if rewritten is None else rewritten,
        headers=headers.others,
        is_passed_on=True,
    )


async def _chained(first: list[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    for piece in first:
        yield piece
    async for piece in rest:
        yield piece
