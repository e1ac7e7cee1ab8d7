"""Passes the requests for a group-version on to the extension API server that its APIService names.

The host has authenticated, authorized and audited the request, and tells the extension API server
who the user is; admission is up to that one. No large body is held, and a watch is passed back as
it arrives. A request that this server has passed on already is refused, and so is a redirect, which
would lead clients and their credentials elsewhere. Mirrors handler_proxy.go of
k8s.io/kube-aggregator.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from msgspec.structs import replace

from kapiserver.apiserver.aggregation.api_services import APIService
from kapiserver.apiserver.aggregation.back_ends import (
    BackEnd,
    BackEnds,
    BadTransport,
    user_headers,
)
from kapiserver.apiserver.aggregation.service_resolver import Unresolved
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import TooManyRequests
from kapiserver.apiserver.http_client.errors import error_text
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
"""A body of at most this size is read before it is passed on or back."""
_REDIRECTED = "the backend attempted to redirect this request, which is not permitted"
_OF_HOST = frozenset(
    ("audit-id", "x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid")
)
"""Headers of a response that filters of this server add."""


async def serve_aggregated(
    server: Server, request: Request, api_service: APIService
) -> AnyResponse:
    """Return the response of an extension API server; 503 if it cannot be reached. Raises
    TooManyRequests."""
    if not api_service.is_available:
        return text_error("service unavailable", 503)
    back_ends = server.back_ends()
    if back_ends.pseudonym in request.header("Via"):
        return text_error("error trying to reach service: the request loops", 503)
    try:
        back_end = await back_ends.locate(api_service)
    except Unresolved:
        return text_error("service unavailable", 503)
    except BadTransport as error:
        return text_error(str(error), 500)
    request.cancel_when_gone()
    limit = server.config.limits.max_requests_inflight
    with _counted(request, back_ends, api_service, limit):
        try:
            return await _forward(server, request, back_ends, back_end)
        except TimeoutError as error:
            text = error_text(error, back_end.dialled) if str(error) else _TIMED_OUT
        except (OSError, ValueError) as error:
            text = error_text(error, back_end.dialled)
    return text_error(f"error trying to reach service: {text}", 503)


_TIMED_OUT = "context deadline exceeded"


@contextmanager
def _counted(
    request: Request, back_ends: BackEnds, api_service: APIService, limit: int
) -> Iterator[None]:
    """Bound the requests that wait for the head of a response of one extension API server; watches
    and the like count, too. Raises TooManyRequests."""
    waiting: Counter[str] = back_ends.waiting
    if 0 < limit <= waiting[api_service.name]:
        raise TooManyRequests
    waiting[api_service.name] += 1
    try:
        yield
    finally:
        waiting[api_service.name] -= 1


async def _forward(
    server: Server, request: Request, back_ends: BackEnds, back_end: BackEnd
) -> AnyResponse:
    """Pass a request on and return the response. Raises OSError, ValueError, TimeoutError."""
    target = quoted_path(request.path)
    if request.query:
        target += f"?{urlencode(sorted(request.query.items()), doseq=True)}"
    is_upgrade = asks_to_upgrade(request.headers)
    headers = _headers(server, request, back_ends, is_upgrade=is_upgrade)
    body = await _body(request)
    is_discovery = not request.info.is_resource_request and request.path.strip("/").count("/") == 2
    sending = back_ends.send(back_end, request.method, target, headers, body)
    if is_discovery:
        sending = asyncio.wait_for(sending, DISCOVERY_SECONDS)
    response = await sending
    request.on_complete(lambda _: response.close())
    if is_upgrade:
        return _upgraded(request, response)
    if response.status == 101:
        protocol = header(response.headers, "Upgrade")
        text = f'backend tried to switch protocol "{protocol}" when "" was requested'
        raise ValueError(text)
    if 300 <= response.status < 400 and header(response.headers, "Location"):
        response.close()
        return text_response(_REDIRECTED, status=502)
    is_endless = request.info.is_long_running
    passed_on = replace(streamed(response, _returned(response)), is_endless=is_endless)
    if passed_on.length is None or passed_on.length > SMALL_BYTES or request.method == "HEAD":
        return passed_on
    # Head and body leave in one packet: the network may hold back a second small one.
    return replace(passed_on, body=await response.read(SMALL_BYTES), length=None)


async def _body(request: Request) -> bytes | AsyncIterator[bytes] | None:
    """Return the body to send; a small one is read, so that it leaves with the head."""
    length = request.header("Content-Length")
    if length.isascii() and length.isdigit() and int(length) <= SMALL_BYTES:
        return await request.read_body(SMALL_BYTES) if int(length) else None
    return request.stream_body() if length or "Transfer-Encoding" in request.headers else None


def _headers(server: Server, request: Request, back_ends: BackEnds, *, is_upgrade: bool) -> Headers:
    """Return the headers to send: those of the client without its credentials, and the user."""
    own_headers = {"audit-id", "host", "via"}
    if request.trace.context is not None:
        own_headers |= {"traceparent", "tracestate"}
    headers = [
        each
        for each in forwarded_headers(request, server.config.authentication, upgrade=is_upgrade)
        if each[0].lower() not in own_headers
    ]
    via = request.header("Via")
    own = f"1.1 {back_ends.pseudonym}"
    headers += [
        *user_headers(request.user),
        *trace_headers(),
        ("Audit-Id", request.audit.id),
        ("Via", f"{via}, {own}" if via else own),
    ]
    return headers


def _returned(response: HttpResponse) -> Headers:
    headers = returned_headers(response.headers)
    return [each for each in headers if each[0].lower() not in _OF_HOST]


def _upgraded(request: Request, response: HttpResponse) -> AnyResponse:
    """Return the connection of a response that changes the protocol, or the error in its place."""
    if response.status == 101:
        return UpgradeResponse(headers=list(response.headers), peer=upgraded(request, response))
    if response.status < 400:
        status = response.status
        return text_error(f"invalid upgrade response: status code {status}", 503)
    return streamed(response, _returned(response))
