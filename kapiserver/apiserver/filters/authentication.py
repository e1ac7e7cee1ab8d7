"""Finds out who asks, or answers 401. Mirrors filters/authentication.go of k8s.io/apiserver."""

from __future__ import annotations

import dataclasses

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Answer


def authenticate(server: Server, after: Handler) -> Handler:
    """Hand the request on with its user."""
    user_of = server.authentication.authenticate

    async def handle(request: Request) -> Answer:
        user = await user_of(request)
        if user is not request.user:
            request = dataclasses.replace(request, user=user)
        return await after(request)

    return handle
