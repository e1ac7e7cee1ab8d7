"""Authenticates the user of a request, or responds with 401.

Mirrors filters/authentication.go of k8s.io/apiserver.
"""

from __future__ import annotations

import time

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse


def authenticate(server: Server, next_handler: Handler) -> Handler:
    """Set the user of each request."""
    authenticate_request = server.authenticator.authenticate

    async def handle(request: Request) -> AnyResponse:
        started = time.perf_counter()
        request.user = await authenticate_request(request)
        request.add_latency("authentication", started)
        return await next_handler(request)

    return handle
