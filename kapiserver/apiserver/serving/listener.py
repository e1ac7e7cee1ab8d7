"""Hands HTTP requests to their handler, and drains the connections.

`serving/connection.py` reads the requests, `serving/response_writer.py` writes the responses. Knows
no Kubernetes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable
from typing import TypeAlias

from kapiserver.apiserver.authentication.user import User
from kapiserver.apiserver.authentication.websocket_token import subprotocols
from kapiserver.apiserver.context import Handler
from kapiserver.apiserver.errors import BadRequest, ServerError
from kapiserver.apiserver.faults import DropConnection
from kapiserver.apiserver.request import Outcome, Request
from kapiserver.apiserver.response import Response, StreamResponse, UpgradeResponse
from kapiserver.apiserver.serving.connection import Connection, request_from
from kapiserver.apiserver.serving.connection_limits import IncompleteHeaders
from kapiserver.apiserver.serving.request_parser import RequestHead
from kapiserver.apiserver.serving.response_writer import write_response, write_stream
from kapiserver.apiserver.serving.stream_sink import StreamSink
from kapiserver.apiserver.serving.upgrade import write_upgrade
from kapiserver.apiserver.serving.websocket import WebSocketSink, is_handshake

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
    draining            whether every response closes its connection
    """

    def __init__(
        self,
        handle: Handler,
        error_response: ErrorHandler,
        *,
        user: User,
        incomplete_headers: IncompleteHeaders | None = None,
    ) -> None:
        self._handle = handle
        self._user = user
        self._error_response = error_response
        self.incomplete_headers = incomplete_headers or IncompleteHeaders()
        self.connections: set[Connection] = set()
        self.draining = False
        self._in_flight = 0
        self._all_finished = asyncio.Event()
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
        self.draining = True
        for connection in self.connections:
            if connection.stream is not None:
                connection.stream.close()
        if self.connections:
            await _wait(self._all_closed, min(seconds, LAST_REQUEST_SECONDS))
        if self._in_flight:
            self._all_finished.clear()
            await _wait(self._all_finished, seconds)
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
        if self.draining and not self.connections:
            self._all_closed.set()

    async def handle(self, connection: Connection, head: RequestHead) -> bool:
        """Respond to a request; return whether the connection stays open."""
        request = request_from(head, connection, self._user)
        request.open_sink = functools.partial(self._open_sink, connection, head)
        request.on_gone = connection.call_when_lost
        outcome = Outcome(status=0, bytes_sent=0, finished=False)
        self._in_flight += 1
        try:
            response = await self._handle(request)
            keep_alive = head.keep_alive and not self.draining
            if isinstance(response, StreamResponse):
                if self.draining:
                    response.sink.close()
                outcome, keep_alive = await write_stream(
                    connection, head, response, keep_alive=keep_alive
                )
            elif isinstance(response, UpgradeResponse):
                outcome, keep_alive = await write_upgrade(connection, response), False
            else:
                outcome, keep_alive = await write_response(
                    connection, head, response, keep_alive=keep_alive
                )
        except DropConnection:
            connection.abort()
            return False
        finally:
            self._in_flight -= 1
            connection.on_lost = None
            if not self._in_flight and self.draining:
                self._all_finished.set()
            if connection.stream is not None:
                connection.stream.close()
                connection.stream = None
            request.complete(outcome)
        return keep_alive

    def _open_sink(self, connection: Connection, head: RequestHead) -> StreamSink:
        if connection.transport is None:
            raise ConnectionResetError
        transport, drain = connection.transport, connection.wait_writable
        if is_handshake(head.method, head.headers):
            protocols = subprotocols(head.headers)
            if len(protocols) > 1:
                raise BadRequest("a watch over WebSocket takes one subprotocol")
            key, protocol = head.headers["Sec-WebSocket-Key"], "".join(protocols)
            connection.stream = WebSocketSink(transport, drain, key=key, protocol=protocol)
        else:
            connection.stream = StreamSink(transport, drain, chunked=head.is_http_1_1)
        return connection.stream


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
