"""The contract between the protocols of HTTP and the handlers: one request, and its response.

A front speaks a protocol: it makes an Exchange for each request and passes it to the Dispatcher.
Nothing behind the Dispatcher knows which front that is. The fronts are `serving/http1/exchange.py`
for HTTP/1.1 with httptools, `serving/aiohttp/exchange.py`, and `serving/http2/exchange.py`. Knows
no protocol and no Kubernetes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

from kapiserver.apiserver.context import Handler
from kapiserver.apiserver.faults import DropConnection
from kapiserver.apiserver.request import Outcome, Request
from kapiserver.apiserver.response import AnyResponse, Response, UpgradeResponse
from kapiserver.apiserver.user import User

STREAMS_PER_SECOND = 200.0
"""The rate at which streams end during a shutdown, at least; that of kube-apiserver."""


_NOTHING_SENT = Outcome(status=0, bytes_sent=0, finished=False)


class Exchange(Protocol):
    """One request of a client, and the way to its response."""

    def make_request(self, user: User) -> Request:
        """Return the request as filters and handlers see it. Its body arrives when it is read; its
        sinks, its certificate and its callbacks are those of the client's connection."""

    async def respond(self, response: AnyResponse, *, is_last: bool) -> Outcome:
        """Write a response at the speed of the client, and return how it ended.

        A stream ends when its sink is closed, its time is over, or the client disconnects. A
        response that changes the protocol ends when either side closes. An error aborts the
        connection, or its stream of HTTP/2, so that the client sees the failure. `is_last` closes a
        connection of HTTP/1.1 after the response.
        """

    def close_stream(self) -> None:
        """End the stream that the request has opened, if it has. Idempotent."""

    def abort(self) -> None:
        """Close the connection, or its stream of HTTP/2, at once."""


class Dispatcher:
    """Passes requests to their handler and responses back, and knows the exchanges in progress.

    user        of requests before authentication
    draining    whether each response closes its connection
    """

    def __init__(self, handle: Handler, *, user: User) -> None:
        self._handle = handle
        self._user = user
        self.draining = False
        self._in_progress: dict[Exchange, Callable[[], object]] = {}
        """The exchanges, and what ends a response that would go on without end."""
        self._all_finished = asyncio.Event()
        self._current: set[Exchange] = set()
        """The exchanges for which `wait_current` waits."""
        self._current_finished = asyncio.Event()

    async def dispatch(self, exchange: Exchange) -> None:
        """Respond to the request of an exchange, and complete the request."""
        request = exchange.make_request(self._user)
        outcome = _NOTHING_SENT
        self._in_progress[exchange] = _nothing
        try:
            response = await self._handle(request)
            end = self._in_progress[exchange] = _end_of(response)
            if self.draining:
                exchange.close_stream()
                end()
            outcome = await exchange.respond(response, is_last=self.draining)
        except DropConnection:
            exchange.abort()
        finally:
            del self._in_progress[exchange]
            if self.draining:
                self._end_while_draining(exchange)
            exchange.close_stream()
            request.complete(outcome)

    async def end_streams(self, seconds: float) -> None:
        """End every stream cleanly, and from now on close the connection after each response.
        STREAMS_PER_SECOND streams end in a second, or as many as are needed to end all within
        `seconds`, so that their clients do not all come back to other servers at once; 0 ends all
        at once."""
        self.draining = True
        exchanges = list(self._in_progress)
        pause = min(seconds / len(exchanges), 1 / STREAMS_PER_SECOND) if exchanges else 0
        for exchange in exchanges:
            end = self._in_progress.get(exchange)
            if end is not None:
                exchange.close_stream()
                end()
            if pause:
                await asyncio.sleep(pause)

    async def wait_current(self, seconds: float) -> None:
        """Return when the exchanges that are in progress now have finished, or after `seconds`,
        whatever exchanges begin meanwhile. Streams have been ended."""
        self._current = set(self._in_progress)
        if self._current:
            self._current_finished.clear()  # a stream may have ended before
            await _wait(self._current_finished, seconds)

    async def wait_finished(self, seconds: float) -> None:
        """Return when no exchange is in progress, or after `seconds`."""
        if self._in_progress:
            self._all_finished.clear()
            await _wait(self._all_finished, seconds)

    def _end_while_draining(self, exchange: Exchange) -> None:
        self._current.discard(exchange)
        if not self._current:
            self._current_finished.set()
        if not self._in_progress:
            self._all_finished.set()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _end_of(response: AnyResponse) -> Callable[[], object]:
    """Return what ends a response that would go on without end: it closes the connection."""
    if isinstance(response, UpgradeResponse):
        return response.peer.close
    if isinstance(response, Response) and response.is_endless:
        task = asyncio.current_task()
        assert task is not None
        return task.cancel
    return _nothing


def _nothing() -> None:
    pass
