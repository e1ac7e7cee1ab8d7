"""The contract between the protocols of HTTP and the handlers: one request, and its response.

A front speaks a protocol: it makes an Exchange for each request and passes it to the Dispatcher.
Nothing behind the Dispatcher knows which front that is. The fronts are `serving/http_exchange.py`
for HTTP/1.1 with httptools, `serving/aiohttp_exchange.py`, and `serving/http2/exchange.py`. Knows
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

    async def dispatch(self, exchange: Exchange) -> None:
        """Respond to the request of an exchange, and complete the request."""
        request = exchange.make_request(self._user)
        outcome = Outcome(status=0, bytes_sent=0, finished=False)
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
            if self.draining and not self._in_progress:
                self._all_finished.set()
            exchange.close_stream()
            request.complete(outcome)

    def close_streams(self) -> None:
        """Close the connection after each response from now on, and end every stream cleanly."""
        self.draining = True
        for exchange, end in self._in_progress.items():
            exchange.close_stream()
            end()

    async def wait_finished(self, seconds: float) -> None:
        """Return when no exchange is in progress, or after `seconds`."""
        if self._in_progress:
            self._all_finished.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._all_finished.wait()


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
