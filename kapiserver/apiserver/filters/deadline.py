"""Ends a request that takes too long with 504; watches have their own time.

`?timeout=` shortens the server's limit. Mirrors filters/request_deadline.go and timeout.go of
k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.durations import parse_duration
from kapiserver.apiserver.errors import BadRequest, RequestTimeout
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse


def end_in_time(server: Server, next_handler: Handler) -> Handler:
    """Give every request that is no stream a limited time."""
    limit = server.config.request_timeout

    async def handle(request: Request) -> AnyResponse:
        if request.info.is_long_running:
            return await next_handler(request)
        seconds = _asked(request.parameter("timeout"), limit)
        try:
            async with asyncio.timeout(seconds):
                return await next_handler(request)
        except TimeoutError:
            raise RequestTimeout from None

    return handle


def _asked(text: str, limit: float) -> float:
    """Seconds that a request may take: what it asks for, at most the server's limit."""
    if not text:
        return limit
    seconds = parse_duration(text)
    if seconds is None:
        raise BadRequest(
            f'invalid timeout specified in the request URL - time: invalid duration "{text[:64]}"'
        )
    return min(seconds, limit) or limit
