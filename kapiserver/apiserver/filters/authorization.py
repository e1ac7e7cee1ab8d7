"""Authorizes each request, or responds with 403, or with 500 if an authorizer failed.

Mirrors filters/authorization.go of k8s.io/apiserver.
"""

from __future__ import annotations

import html
from time import perf_counter

from kapiserver.api.go_format import quote
from kapiserver.apiserver.authorization.forbidden import forbidden
from kapiserver.apiserver.authorizer import Verdict
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Response, text_error
from kapiserver.spans import Span

_ALLOW = Verdict.ALLOW


def authorize(server: Server, next_handler: Handler) -> Handler:
    """Call the next handler if the authorizer allows the request."""
    authorizer, seconds = server.authorizer, server.metrics.authorization.seconds

    async def handle(request: Request) -> AnyResponse:
        started = perf_counter()
        decision = request.decision = await authorizer.authorize(request.user, request.info)
        ended = perf_counter()
        request.trace.add(Span("authorization", started, ended))
        if decision.verdict is _ALLOW:
            seconds.observe("allowed", ended - started)
            return await next_handler(request)
        if decision.error:
            seconds.observe("error", ended - started)
            return _internal_server_error(request, decision.error)
        is_denied = decision.verdict is Verdict.DENY
        seconds.observe("denied" if is_denied else "no-opinion", ended - started)
        raise forbidden(request.user, request.info, decision.reason)

    return handle


def _internal_server_error(request: Request, error: str) -> Response:
    """Return the page that says why no authorizer allowed the request."""
    uri = quote(html.escape(request.uri, quote=False))
    return text_error(f"Internal Server Error: {uri}: {error}", 500)
