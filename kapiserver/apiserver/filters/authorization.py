"""Asks the authorizer whether the user may do this, or answers 403.

Mirrors filters/authorization.go of k8s.io/apiserver.
"""

from __future__ import annotations

import time

from kapiserver.apiserver.authorization.authorizer import refusal
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.errors import Forbidden
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Answer


def authorize(server: Server, next_handler: Handler) -> Handler:
    """Pass on what the authorizer allows."""
    decide = server.authorize

    async def handle(request: Request) -> Answer:
        started = time.perf_counter()
        decision = request.decision = await decide(request.user, request.info)
        request.spend("authorization", started)
        if not decision.allowed:
            info = request.info
            raise Forbidden(
                refusal(request, decision),
                resource=info.resource,
                group=info.version.group,
                name=info.name,
            )
        return await next_handler(request)

    return handle
