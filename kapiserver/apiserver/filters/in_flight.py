"""Limits the number of requests in flight; responds with 429 to more.

Watches are not counted, and administrators are exempt. Mirrors filters/maxinflight.go of
k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.errors import TooManyRequests
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.user import MASTERS

_READ_ONLY, _MUTATING = "readOnly", "mutating"
_READ_VERBS = ("get", "list", "watch")


def limit_in_flight(server: Server, next_handler: Handler) -> Handler:
    """Limit read-only and mutating requests separately; 0 means no limit."""
    in_flight = server.metrics.in_flight
    reading = (_READ_ONLY, server.config.limits.max_requests_inflight)
    mutating = (_MUTATING, server.config.limits.max_mutating_requests_inflight)
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


@contextmanager
def delegated(server: Server, request: Request) -> Iterator[None]:
    """Do not count a request as in flight during the block, in which another server works on it: a
    slow one must hold nobody up. Mirrors RequestDelegated of k8s.io/apiserver."""
    if request.info.is_long_running:
        yield
        return
    values = server.metrics.in_flight.values
    kind = _READ_ONLY if request.info.verb in _READ_VERBS else _MUTATING
    values[kind] -= 1
    try:
        yield
    finally:
        values[kind] += 1
