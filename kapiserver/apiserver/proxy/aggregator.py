"""Passes the requests for a group-version on to the extension API server that its APIService names.

The host has authenticated, authorized and audited the request, and tells the extension API server
who the user is; admission is up to that one. A request that this server has passed on already is
refused. Mirrors handler_proxy.go of k8s.io/kube-aggregator.
"""

from __future__ import annotations

import functools

from kapiserver.apiserver.aggregation.api_services import APIService
from kapiserver.apiserver.aggregation.back_ends import BadTransport
from kapiserver.apiserver.aggregation.service_resolver import Unresolved
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.http_client.errors import error_text
from kapiserver.apiserver.proxy.api_servers import OtherServer, forward_to_api_server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, text_error


async def serve_aggregated(
    server: Server, request: Request, api_service: APIService
) -> AnyResponse:
    """Return the response of an extension API server; 503 if it cannot be reached. Raises
    TooManyRequests."""
    if not api_service.is_available:
        return text_error("service unavailable", 503)
    back_ends = server.back_ends()
    via = request.header("Via")
    if back_ends.pseudonym in via:
        return text_error("error trying to reach service: the request loops", 503)
    try:
        back_end = await back_ends.locate(api_service)
    except Unresolved:
        return text_error("service unavailable", 503)
    except BadTransport as error:
        return text_error(str(error), 500)
    send = functools.partial(back_ends.send, back_end)
    destination = OtherServer(api_service.name, send, back_ends.waiting)
    own_via = f"1.1 {back_ends.pseudonym}"
    try:
        return await forward_to_api_server(
            server, request, destination, ("Via", f"{via}, {own_via}" if via else own_via)
        )
    except TimeoutError as error:
        text = error_text(error, back_end.host_port) if str(error) else _TIMED_OUT
    except (OSError, ValueError) as error:
        text = error_text(error, back_end.host_port)
    return text_error(f"error trying to reach service: {text}", 503)


_TIMED_OUT = "context deadline exceeded"
