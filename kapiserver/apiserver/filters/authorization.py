"""Authorizes each request, or responds with 403.

Mirrors filters/authorization.go of k8s.io/apiserver.
"""

from __future__ import annotations

import time

from kapiserver.apiserver.authorization.authorizer import Verdict
from kapiserver.apiserver.authorization.forbidden import forbidden
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.errors import InternalError
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse


def authorize(server: Server, next_handler: Handler) -> Handler:
    """Call the next handler if the authorizer allows the request."""
    authorizer = server.authorizer

    async def handle(request: Request) -> AnyResponse:
        started = time.perf_counter()
        decision = request.decision = await authorizer.authorize(request.user, request.info)
        request.add_latency("authorization", started)
        if not decision.allowed:
            if decision.error and decision.verdict is Verdict.NO_OPINION:
                raise InternalError("an authorizer could not decide on the request")
            raise forbidden(request.user, request.info, decision.reason)
        return await next_handler(request)

    return handle
