"""Cancels a request that takes too long and responds with 504; watches have timeouts of their own.

`?timeout=` shortens the server's limit. Mirrors filters/request_deadline.go and timeout.go of
k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.durations import duration_problem, parse_duration
from kapiserver.apiserver.errors import BadRequest, RequestTimeout
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.time_limit import TimeLimit


def apply_deadline(server: Server, next_handler: Handler) -> Handler:
    """Limit the time of every request that is not long-running."""
    limit = server.config.limits.request_timeout
    time_limit = TimeLimit(RequestTimeout)

    async def handle(request: Request) -> AnyResponse:
        if request.info.is_long_running:
            return await next_handler(request)
        timeout = request.parameter("timeout")
        with time_limit.within(seconds_of(timeout, limit) if timeout else limit):
            return await next_handler(request)

    return handle


def seconds_of(text: str, limit: float) -> float:
    """Return the seconds that a request may take: its `timeout`, at most the server's limit, which
    holds for times below zero, too. Raises BadRequest."""
    seconds = parse_duration(text.removeprefix("-"))
    if seconds is None:
        problem = duration_problem(text[:64])
        raise BadRequest(f"invalid timeout specified in the request URL - {problem}")
    return limit if text.startswith("-") else min(seconds, limit) or limit
