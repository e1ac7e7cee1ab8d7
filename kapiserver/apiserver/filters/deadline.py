"""Cancels a request that takes too long and responds with 504; watches have timeouts of their own.

`?timeout=` shortens the server's limit. Mirrors filters/request_deadline.go and timeout.go of
k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import Context
from typing import Any

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.durations import parse_duration
from kapiserver.apiserver.errors import BadRequest, RequestTimeout
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse

SWEEP_SECONDS = 0.1
"""Seconds between two checks for expired requests."""


class _Deadlines:
    """The requests in progress with their deadlines, and one timer for all of them: a timer for
    each request would take a twentieth of the CPU time of a GET."""

    def __init__(self) -> None:
        self._deadlines: dict[asyncio.Task[Any], float] = {}
        """Times on the clock of the event loop, by the task that handles the request."""
        self._expired: set[asyncio.Task[Any]] = set()
        self._is_sweeping = False

    async def run(self, seconds: float, work: Awaitable[AnyResponse]) -> AnyResponse:
        """Return the result of the work. Cancels the work after `seconds` and raises
        RequestTimeout."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        cancellations = task.cancelling()
        self._deadlines[task] = loop.time() + seconds
        if not self._is_sweeping:
            self._is_sweeping = True
            # Outside the context of the request, which the timer would keep.
            loop.call_later(SWEEP_SECONDS, self._sweep, loop, context=Context())
        try:
            return await work
        except asyncio.CancelledError:
            if task in self._expired and task.uncancel() <= cancellations:
                raise RequestTimeout from None
            raise
        finally:
            self._deadlines.pop(task, None)
            self._expired.discard(task)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for task in [task for task, deadline in self._deadlines.items() if deadline <= now]:
            del self._deadlines[task]
            self._expired.add(task)
            task.cancel()
        self._is_sweeping = bool(self._deadlines)
        if self._is_sweeping:
            loop.call_later(SWEEP_SECONDS, self._sweep, loop)


def apply_deadline(server: Server, next_handler: Handler) -> Handler:
    """Limit the time of every request that is not long-running."""
    limit = server.config.request_timeout
    deadlines = _Deadlines()

    async def handle(request: Request) -> AnyResponse:
        if request.info.is_long_running:
            return await next_handler(request)
        seconds = _time_limit(request.parameter("timeout"), limit)
        return await deadlines.run(seconds, next_handler(request))

    return handle


def _time_limit(text: str, limit: float) -> float:
    """Return the seconds that a request may take: its `timeout`, at most the server's limit.
    Raises BadRequest."""
    if not text:
        return limit
    seconds = parse_duration(text)
    if seconds is None:
        raise BadRequest(
            f'invalid timeout specified in the request URL - time: invalid duration "{text[:64]}"'
        )
    return min(seconds, limit) or limit
