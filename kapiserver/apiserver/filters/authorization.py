"""Asks whether the user may, or answers 403. Mirrors filters/authorization.go of
k8s.io/apiserver."""

from __future__ import annotations

from kapiserver.apiserver.authorization.authorizer import refusal
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.errors import Forbidden
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Answer


def authorize(server: Server, after: Handler) -> Handler:
    """Let pass what the authorizer allows."""
    decide = server.authorize

    async def handle(request: Request) -> Answer:
        decision = await decide(request.user, request.info)
        if not decision.allowed:
            info = request.info
            raise Forbidden(
                refusal(request, decision),
                resource=info.resource,
                group=info.version.group,
                name=info.name,
            )
        return await after(request)

    return handle
