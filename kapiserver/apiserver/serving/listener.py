"""The front for HTTP/1.1: passes the requests of connections on, and drains the connections.

`serving/connection.py` reads the requests, `serving/http_exchange.py` writes the responses. Knows
no Kubernetes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeAlias

from kapiserver.apiserver.context import Handler
from kapiserver.apiserver.errors import ServerError
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Response
from kapiserver.apiserver.serving.connection import Connection
from kapiserver.apiserver.serving.connection_limits import IncompleteHeaders
from kapiserver.apiserver.serving.exchange import Dispatcher
from kapiserver.apiserver.serving.http_exchange import HttpExchange
from kapiserver.apiserver.serving.request_parser import RequestHead
from kapiserver.apiserver.user import User

CLOSE_SECONDS = 1.0
"""How long a drain waits for cancelled requests and for the last bytes of responses."""
LAST_REQUEST_SECONDS = 0.2
"""How long a draining server waits for requests that clients were about to send on open
connections. The responses say that the connection closes."""

ErrorHandler: TypeAlias = Callable[[Request, Exception], Response]
"""Returns the error response for a request that never reaches a handler."""


class Listener:
    """Calls `handle` for the requests of every connection that a socket accepts.

    user                of requests before authentication
    incomplete_headers  shared by the listeners of a server
    connections         that are open
    """

    def __init__(
        self,
        handle: Handler,
        error_response: ErrorHandler,
        *,
        user: User,
        incomplete_headers: IncompleteHeaders | None = None,
    ) -> None:
        self._dispatcher = Dispatcher(handle, user=user)
        self._error_response = error_response
        self.incomplete_headers = incomplete_headers or IncompleteHeaders()
        self.connections: set[Connection] = set()
        self._all_closed = asyncio.Event()
        self._drained = False

    def __call__(self) -> Connection:
        """Return the protocol of a new connection."""
        return Connection(self)

    def error_response(self, request: Request, error: ServerError) -> Response:
        """Return the error response for a request that never reaches a handler."""
        return self._error_response(request, error)

    async def drain(self, seconds: float) -> None:
        """End every stream cleanly, give the requests in flight `seconds` to finish, then close all
        connections, and abort the connections of clients that do not read. The caller has stopped
        accepting new ones.

        From now on responses carry `Connection: close`. Idle connections stay open for
        `LAST_REQUEST_SECONDS`, so that a request on its way gets a response too."""
        self._dispatcher.close_streams()
        if self.connections:
            await _wait(self._all_closed, min(seconds, LAST_REQUEST_SECONDS))
        await self._dispatcher.wait_finished(seconds)
        self._drained = True
        for connection in tuple(self.connections):
            connection.stop()
        if self.connections:
            await _wait(self._all_closed, min(seconds, CLOSE_SECONDS))
        for connection in tuple(self.connections):  # of clients that do not read
            connection.abort()
        if self.connections:
            await _wait(self._all_closed, CLOSE_SECONDS)

    def connection_made(self, connection: Connection) -> None:
        """Track a connection; abort one that arrives after `drain` has closed the others."""
        self.connections.add(connection)
        if self._drained:
            connection.abort()

    def connection_lost(self, connection: Connection) -> None:
        """Forget a closed connection."""
        self.connections.discard(connection)
        if self._dispatcher.draining and not self.connections:
            self._all_closed.set()

    async def handle(self, connection: Connection, head: RequestHead) -> bool:
        """Respond to a request; return whether the connection stays open."""
        exchange = HttpExchange(connection, head)
        try:
            await self._dispatcher.dispatch(exchange)
        finally:
            connection.on_lost = connection.stream = None
        return exchange.keep_alive


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
