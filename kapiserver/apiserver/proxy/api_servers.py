"""Passes a request on to another API server, which learns the user from headers.

The other server is the extension API server of an APIService, or a peer: another server of the same
store. No large body is held, and a watch is passed back as it arrives. A redirect is refused: it
would lead clients and their credentials elsewhere. Mirrors UpgradeAwareHandler of
k8s.io/apimachinery with the round tripper of SetAuthProxyHeaders of client-go.
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import urlencode

from kapiserver.apiserver.aggregation.back_ends import user_headers
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import TooManyRequests
from kapiserver.apiserver.proxy.headers import (
    asks_to_upgrade,
    forwarded_headers,
    header,
    returned_headers,
)
from kapiserver.apiserver.proxy.links import quoted_path
from kapiserver.apiserver.proxy.reverse_proxy import streamed, upgraded
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import (
    AnyResponse,
    Headers,
    Response,
    UpgradeResponse,
    text_error,
    text_response,
)
from kapiserver.spans import trace_headers

if TYPE_CHECKING:
    from kapiserver.apiserver.http_client.connection import HttpResponse

DISCOVERY_SECONDS = 5.0
"""The time of a request for the resources of a group-version."""
SMALL_BYTES = 64 << 10
"""A body of at most this size is read before it is passed on."""
RESPONSE_BYTES = 256 << 10
"""A body of at most this size, which the response states, is read before it is passed back: that
many bytes wait in a connection anyway, and pieces cost a write each."""
_REDIRECTED = "the backend attempted to redirect this request, which is not permitted"
_OF_FILTERS = frozenset(
    (b"audit-id", b"x-kubernetes-pf-flowschema-uid", b"x-kubernetes-pf-prioritylevel-uid")
)
"""Headers of a response that filters of this server add."""

Body: TypeAlias = bytes | AsyncIterator[bytes] | None
Send: TypeAlias = Callable[[str, str, Headers, Body], "Awaitable[HttpResponse]"]
"""Sends a request with this method, target (path and query, quoted), headers and body."""


class OtherServer(NamedTuple):
    """Another API server.

    name        the key of its count in `waiting`
    waiting     how many requests wait for the head of a response, by server; watches and the like
                count, too
    """

    name: str
    send: Send
    waiting: Counter[str]


async def forward_to_api_server(
    server: Server, request: Request, destination: OtherServer, own_header: tuple[str, str]
) -> AnyResponse:
    """Pass a request on and return the response. Raises TooManyRequests if as many requests wait
    for the other server as may be in flight, OSError, ValueError, TimeoutError.

    own_header      is sent instead of headers of the same name that the client has sent
    """
    limit = server.config.limits.max_requests_inflight
    if 0 < limit <= destination.waiting[destination.name]:
        raise TooManyRequests
    request.cancel_when_gone()
    destination.waiting[destination.name] += 1
    try:
        return await _forward(server, request, destination.send, own_header)
    finally:
        destination.waiting[destination.name] -= 1


async def _forward(
    server: Server, request: Request, send: Send, own_header: tuple[str, str]
) -> AnyResponse:
    target = quoted_path(request.path)
    if request.query:
        target += f"?{urlencode(sorted(request.query.items()), doseq=True)}"
    is_upgrade = asks_to_upgrade(request.headers)
    headers = _headers(server, request, own_header, is_upgrade=is_upgrade)
    sending = send(request.method, target, headers, await _body(request))
    if not request.info.is_resource_request and request.path.strip("/").count("/") == 2:
        sending = asyncio.wait_for(sending, DISCOVERY_SECONDS)
    response = await sending
    if not response.is_complete:
        request.on_complete(lambda _: response.close())
    if is_upgrade:
        return _upgraded(request, response)
    if response.status == 101:
        protocol = header(response.headers, "Upgrade")
        text = f'backend tried to switch protocol "{protocol}" when "" was requested'
        response.close()
        return text_error(text, 503)
    if 300 <= response.status < 400 and header(response.headers, "Location"):
        response.close()
        return text_response(_REDIRECTED, status=502)
    head = returned_headers(response.raw_headers, _OF_FILTERS)
    if head.length is None or head.length > RESPONSE_BYTES or request.method == "HEAD":
        return streamed(response, head, is_endless=request.info.is_long_running)
    # Head and body leave in one packet: the network may hold back a second small one.
    return Response(
        status=response.status,
        media_type=head.media_type,
        body=await response.read(RESPONSE_BYTES),
        headers=head.others,
        is_passed_on=True,
    )


async def _body(request: Request) -> Body:
    """Return the body to send; a small one is read, so that it leaves with the head."""
    length = request.header("Content-Length")
    if length.isascii() and length.isdigit() and int(length) <= SMALL_BYTES:
        return await request.read_body(SMALL_BYTES) if int(length) else None
    return request.stream_body() if length or "Transfer-Encoding" in request.headers else None


def _headers(
    server: Server, request: Request, own_header: tuple[str, str], *, is_upgrade: bool
) -> Headers:
    """Return the headers to send: those of the client without its credentials, and the user."""
    replaced = _replaced(own_header[0], is_traced=request.trace.context is not None)
    settings = server.config.authentication
    return [
        *forwarded_headers(request, settings, upgrade=is_upgrade, withheld=replaced),
        *user_headers(request.user),
        *trace_headers(),
        ("Audit-Id", request.audit.id),
        own_header,
    ]


@functools.lru_cache(maxsize=8)
def _replaced(own_name: str, *, is_traced: bool) -> frozenset[str]:
    """Return the names in lower case of headers of the client that this server replaces."""
    of_trace = ("traceparent", "tracestate") if is_traced else ()
    return frozenset(("audit-id", "host", own_name.lower(), *of_trace))


def _upgraded(request: Request, response: HttpResponse) -> AnyResponse:
    """Return the connection of a response that changes the protocol, or the error in its place."""
    if response.status == 101:
        return UpgradeResponse(headers=list(response.headers), peer=upgraded(request, response))
    if response.status < 400:
        status = response.status
        return text_error(f"invalid upgrade response: status code {status}", 503)
    return streamed(response, returned_headers(response.raw_headers, _OF_FILTERS))
