"""Limits the number of requests in flight, if priority and fairness is off; more get 429.

Watches are not counted, and administrators are exempt. Mirrors filters/maxinflight.go of
k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Awaitable
from time import perf_counter

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.errors import TooManyRequests
from kapiserver.apiserver.flowcontrol.queue_set import Ticket
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.user import MASTERS


def limit_in_flight(server: Server, next_handler: Handler) -> Handler:
    """Limit read-only and mutating requests separately; 0 means no limit. Return `next_handler`
    itself if flow control limits requests."""
    if server.flow_control is not None:
        return next_handler
    kinds, limits = server.metrics.in_flight, server.config.limits

    async def handle(request: Request) -> AnyResponse:
        if request.info.is_long_running:
            return await next_handler(request)
        kind = kinds.of(request.info.verb)
        limit = (
            limits.max_requests_inflight
            if kind is kinds.reading
            else limits.max_mutating_requests_inflight
        )
        if 0 < limit <= kind.executing.value and MASTERS not in request.user.groups:
            raise TooManyRequests
        kind.executing.change(1, perf_counter())
        try:
            return await next_handler(request)
        finally:
            kind.executing.change(-1, perf_counter())

    return handle


async def delegate(server: Server, request: Request, work: Awaitable[AnyResponse]) -> AnyResponse:
    """Return the response of another server, and do not count the request as in flight until then:
    a slow server must hold nobody up. Mirrors RequestDelegated of k8s.io/apiserver."""
    if server.flow_control is not None:
        if isinstance(request.ticket, Ticket):
            server.flow_control.end(request.ticket)
        return await work
    if request.info.is_long_running:
        return await work
    executing = server.metrics.in_flight.of(request.info.verb).executing
    executing.change(-1, perf_counter())
    try:
        return await work
    finally:
        executing.change(1, perf_counter())
