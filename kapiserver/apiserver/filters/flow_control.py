"""Priority and fairness: lets requests execute, wait or fail with 429, as their level decides.

A request keeps its seats until its response is written. A watch keeps them while it sends its
initial objects. Other long-running requests pass. The response names the FlowSchema and the
priority level in headers that `filters/headers.py` adds. Mirrors
filters/priority-and-fairness.go of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from time import perf_counter

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.errors import TooManyRequests
from kapiserver.apiserver.filters.deadline import seconds_of
from kapiserver.apiserver.flowcontrol.flow_control import FlowControl
from kapiserver.apiserver.flowcontrol.queue_set import Ticket
from kapiserver.apiserver.request import Request, ignore_end
from kapiserver.apiserver.response import AnyResponse, StreamResponse
from kapiserver.apiserver.time_limit import TimeLimit
from kapiserver.spans import Span

WAIT_SPAN = "apf-queue-wait"
"""The span of the time in a queue."""
MAX_WAIT_SECONDS = 60.0
_WAIT_PART = 4
"""A request waits in a queue for at most a quarter of its time limit."""


class _WaitedTooLong(Exception):
    """The request has waited for its part of its time."""


def apply_flow_control(server: Server, next_handler: Handler) -> Handler:
    """Ask the priority level of each request; return `next_handler` itself if flow control is
    off."""
    flow_control = server.flow_control
    if flow_control is None:
        return next_handler
    begin, complete = flow_control.begin, flow_control.complete
    join_round = flow_control.write_rounds.join
    mutating = server.metrics.in_flight.mutating
    waits = _Waits(flow_control, server.config.limits.request_timeout)

    def handle(request: Request) -> Awaitable[AnyResponse]:
        info = request.info
        is_watch = info.verb == "watch"
        if info.is_long_running and not is_watch:
            return next_handler(request)
        ticket = begin(request)
        request.ticket = ticket
        if ticket.rejection:
            raise _too_many(ticket)
        # Writes come together when those before them were in one transaction.
        joins = ticket.flow.kind is mutating and mutating.executing.value > 1
        if is_watch or joins or ticket.started is None:
            return handle_later(request, ticket, joins=joins)
        request.on_complete(complete)
        return next_handler(request)

    async def handle_later(request: Request, ticket: Ticket, *, joins: bool) -> AnyResponse:
        if ticket.started is None:
            await waits.wait(request, ticket)
        request.on_complete(complete)
        if joins:
            await join_round(request.user.name)
        if request.info.verb == "watch":
            return await _watch(flow_control, request, ticket, next_handler)
        return await next_handler(request)

    return handle


class _Waits:
    """Lets requests wait in queues, for a quarter of the time that they have."""

    def __init__(self, flow_control: FlowControl, request_timeout: float) -> None:
        self._flow_control = flow_control
        self._request_timeout = request_timeout
        self._limit = TimeLimit(_WaitedTooLong)

    async def wait(self, request: Request, ticket: Ticket) -> None:
        """Return when a request executes. Raises TooManyRequests when it has waited too long."""
        flow_control, started = self._flow_control, asyncio.get_running_loop().create_future()
        ticket.on_start = lambda: None if started.done() else started.set_result(None)
        task = asyncio.current_task()
        assert task is not None
        request.on_gone(task.cancel)
        try:
            with self._limit.within(self._seconds(request)):
                await started
        except BaseException as error:
            if ticket.started is not None:  # it got its seats and was cancelled at once
                flow_control.end_wait(ticket)
                flow_control.end(ticket)
                raise
            flow_control.cancel(ticket)
            if isinstance(error, _WaitedTooLong):
                raise _too_many(ticket) from None
            raise
        finally:
            request.on_gone(ignore_end)
            ticket.on_start = None
        seconds = flow_control.end_wait(ticket)
        now = perf_counter()
        request.trace.add(Span(WAIT_SPAN, now - seconds, now))

    def _seconds(self, request: Request) -> float:
        """Return how long a request may wait, from now on."""
        timeout = request.parameter("timeout")
        limit = self._request_timeout
        if timeout and not request.info.is_long_running:
            limit = seconds_of(timeout, limit)
        waited = perf_counter() - request.trace.start
        return max(0.0, min(limit / _WAIT_PART, MAX_WAIT_SECONDS) - waited)


async def _watch(
    flow_control: FlowControl, request: Request, ticket: Ticket, next_handler: Handler
) -> AnyResponse:
    """Count a watch while it is open, and give its seats back when it has started."""
    info = request.info
    if flow_control.watches.add(info):
        request.on_complete(lambda _: flow_control.watches.remove(info))
    response = await next_handler(request)
    if isinstance(response, StreamResponse) and response.started is not None:
        response.started.add_done_callback(lambda _: flow_control.end(ticket))
    else:
        flow_control.end(ticket)
    return response


def _too_many(ticket: Ticket) -> TooManyRequests:
    seconds = ticket.flow.retry_after.reject(perf_counter())
    return TooManyRequests(retry_after=seconds)
