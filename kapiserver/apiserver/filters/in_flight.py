"""Bounds how many requests are worked on at once, or answers 429.

Watches are not counted, and administrators are never sent away. Mirrors filters/maxinflight.go of
k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.apiserver.authentication.user import MASTERS
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.errors import TooManyRequests
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Answer

_READING = ("get", "list", "watch")


class _Seats:
    """How many are taken of how many (0: without bound)."""

    __slots__ = ("limit", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0

    @property
    def full(self) -> bool:
        return 0 < self.limit <= self.taken


def limit_in_flight(server: Server, next_handler: Handler) -> Handler:
    """Count reading and mutating requests apart."""
    reading = _Seats(server.config.max_requests_inflight)
    mutating = _Seats(server.config.max_mutating_requests_inflight)

    async def handle(request: Request) -> Answer:
        if request.info.is_long_running:
            return await next_handler(request)
        seats = reading if request.info.verb in _READING else mutating
        if seats.full and MASTERS not in request.user.groups:
            raise TooManyRequests
        seats.taken += 1
        try:
            return await next_handler(request)
        finally:
            seats.taken -= 1

    return handle
