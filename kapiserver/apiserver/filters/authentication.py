"""Authenticates the user of a request, or responds with 401.

Mirrors filters/authentication.go of k8s.io/apiserver.
"""

from __future__ import annotations

from time import perf_counter

from kapiserver.apiserver.authentication.authenticator import bearer_token
from kapiserver.apiserver.authentication.websocket_token import offers_token
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.errors import Unauthorized
from kapiserver.apiserver.metrics import username_label
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.user import ANONYMOUS
from kapiserver.spans import Span
from kapiserver.storage.concurrency.requester import REQUESTER, Requester


def authenticate(server: Server, next_handler: Handler) -> Handler:
    """Set the user of each request, and count results and users."""
    authenticate_request = server.authenticator.authenticate
    seconds, user_requests = server.metrics.authentication_seconds, server.metrics.user_requests

    async def handle(request: Request) -> AnyResponse:
        result, started = "error", perf_counter()
        try:
            request.user = await authenticate_request(request)
            result = "success"
        except Unauthorized:
            if not (bearer_token(request) or offers_token(request)):
                result = "failure"
            raise
        finally:
            ended = perf_counter()
            request.trace.add(Span("authentication", started, ended))
            seconds.observe(result, ended - started)
        REQUESTER.set(Requester(server.cluster_name or request.user.name, request.has_gone))
        if request.user.name != ANONYMOUS.name:
            request.on_authenticated()
        user_requests.add(username_label(request.user.name))
        return await next_handler(request)

    return handle
