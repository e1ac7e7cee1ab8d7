"""Limits the number of requests in flight; responds with 429 to more.

Watches are not counted, and administrators are exempt. Mirrors filters/maxinflight.go of
k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.errors import TooManyRequests
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.user import MASTERS

_READ_VERBS = ("get", "list", "watch")


def limit_in_flight(server: Server, next_handler: Handler) -> Handler:
    """Limit read-only and mutating requests separately; 0 means no limit."""
    in_flight = server.metrics.in_flight
    reading = ("readOnly", server.config.limits.max_requests_inflight)
    mutating = ("mutating", server.config.limits.max_mutating_requests_inflight)
    for kind, _ in (reading, mutating):
        in_flight.set(kind, 0)

    async def handle(request: Request) -> AnyResponse:
        if request.info.is_long_running:
            return await next_handler(request)
        kind, limit = reading if request.info.verb in _READ_VERBS else mutating
        if 0 < limit <= in_flight.values[kind] and MASTERS not in request.user.groups:
            raise TooManyRequests
        in_flight.values[kind] += 1
        try:
            return await next_handler(request)
        finally:
            in_flight.values[kind] -= 1

    return handle
