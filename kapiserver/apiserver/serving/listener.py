"""Passes the requests of connections on, and drains the connections.

A connection speaks HTTP/1.1 (`serving/http1/connection.py` reads its requests, and `exchange.py`
there writes the responses), or HTTP/2 if the listener has settings for it and the client has chosen
it in the TLS handshake (`serving/http2/`). Knows no Kubernetes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from kapiserver.apiserver.context import Handler
from kapiserver.apiserver.errors import ServerError
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Response
from kapiserver.apiserver.serving.accepted_connection import AcceptedConnection
from kapiserver.apiserver.serving.connection_limits import IncompleteHeaders
from kapiserver.apiserver.serving.exchange import Dispatcher
from kapiserver.apiserver.serving.http1.connection import Connection
from kapiserver.apiserver.serving.http1.exchange import HttpExchange
from kapiserver.apiserver.serving.http1.request_parser import RequestHead
from kapiserver.apiserver.serving.http2.settings import Http2Settings
from kapiserver.apiserver.serving.negotiated_connection import NegotiatedConnection
from kapiserver.apiserver.serving.tls.context import HTTP2
from kapiserver.apiserver.user import User

CLOSE_SECONDS = 1.0
"""How long a drain waits for cancelled requests and for the last bytes of responses."""
LAST_REQUEST_SECONDS = 0.2
"""How long a draining server waits for requests that clients were about to send on open
connections. The responses say that the connection closes."""

NEW_CONNECTION_SECONDS = 5.0
"""How long it waits for the first request of a connection, as Go's server does."""
_CHECK_SECONDS = 0.05

ErrorHandler: TypeAlias = Callable[[Request, Exception], Response]
"""Returns the error response for a request that never reaches a handler."""


class _Connection(Protocol):
    """A connection of either protocol."""

    @property
    def awaits_head(self) -> bool:
        """Whether the client is about to send a request that it cannot send again."""

    def shut_down(self) -> None:
        """Let the client send its next requests on another connection."""

    def stop(self) -> None:
        """Cancel the running requests, and close the connection."""

    def abort(self) -> None:
        """Close the connection at once."""


class Listener:
    """Calls `handle` for the requests of every connection that a socket accepts.

    user                of requests before authentication
    incomplete_headers  shared by the listeners of a server
    http2               None for connections that speak HTTP/1.1 only
    connections         that are open
    """

    def __init__(
        self,
        handle: Handler,
        error_response: ErrorHandler,
        *,
        user: User,
        incomplete_headers: IncompleteHeaders | None = None,
        http2: Http2Settings | None = None,
    ) -> None:
        self._dispatcher = Dispatcher(handle, user=user)
        self.dispatch = self._dispatcher.dispatch
        """Responds to the request of an exchange."""
        self._error_response = error_response
        self.incomplete_headers = incomplete_headers or IncompleteHeaders()
        self._http2 = http2
        self.connections: set[_Connection] = set()
        self._all_closed = asyncio.Event()
        self._drained = False

    def __call__(self) -> AcceptedConnection:
        """Return the protocol of a new connection."""
        if self._http2 is None:
            return Connection(self)
        return NegotiatedConnection(functools.partial(self._connect, self._http2))

    def _connect(self, http2: Http2Settings, protocol: str | None) -> AcceptedConnection:
        """Return the protocol of a connection that has negotiated HTTP/2, or nothing."""
        if protocol != HTTP2:
            return Connection(self)
        # Imported at the first connection, so that a start costs nothing.
        from kapiserver.apiserver.serving.http2.connection import Http2Connection

        return Http2Connection(self, http2)

    def error_response(self, request: Request, error: ServerError) -> Response:
        """Return the error response for a request that never reaches a handler."""
        return self._error_response(request, error)

    async def finish_requests(self, seconds: float, watch_seconds: float) -> None:
        """End every stream cleanly within `watch_seconds`, and give the requests in flight
        `seconds` to finish. Requests and connections that arrive meanwhile are served."""
        await self._end_streams(watch_seconds)
        await self._dispatcher.wait_current(seconds)

    async def _end_streams(self, seconds: float) -> None:
        self._dispatcher.draining = True
        for connection in tuple(self.connections):
            connection.shut_down()
        await self._dispatcher.end_streams(seconds)

    async def drain(self, seconds: float, watch_seconds: float = 0.0) -> None:
        """End every stream cleanly within `watch_seconds`, give the requests in flight `seconds` to
        finish, then close all connections, and abort the connections of clients that do not read.
        The caller has stopped accepting new ones.

        From now on responses carry `Connection: close`, and clients of HTTP/2 get GOAWAY. Idle
        connections stay open for `LAST_REQUEST_SECONDS`, so that a request on its way gets a
        response too."""
        await self._end_streams(watch_seconds)
        if self.connections:
            await _wait(self._all_closed, min(seconds, LAST_REQUEST_SECONDS))
        await self._wait_for_heads(min(seconds, NEW_CONNECTION_SECONDS))
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

    async def _wait_for_heads(self, seconds: float) -> None:
        """Wait for the requests that clients begin to send on new connections."""
        for _ in range(int(seconds / _CHECK_SECONDS)):
            if not any(connection.awaits_head for connection in self.connections):
                return
            await asyncio.sleep(_CHECK_SECONDS)

    def connection_made(self, connection: _Connection) -> None:
        """Track a connection; abort one that arrives after `drain` has closed the others."""
        self.connections.add(connection)
        self._all_closed.clear()
        if self._drained:
            connection.abort()
        elif self._dispatcher.draining:
            connection.shut_down()

    def connection_lost(self, connection: _Connection) -> None:
        """Forget a closed connection."""
        self.connections.discard(connection)
        if self._dispatcher.draining and not self.connections:
            self._all_closed.set()

    def handle(self, connection: Connection, head: RequestHead) -> Awaitable[None]:
        """Respond to a request, and clear `head.keep_alive` if the connection ends."""
        return self.dispatch(HttpExchange(connection, head))


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
