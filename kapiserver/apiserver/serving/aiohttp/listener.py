"""The front with aiohttp, on sockets of the server: `kapiserver serve --http=aiohttp`.

aiohttp's low-level server parses the requests of each connection and writes the responses. This
module limits and drains the connections, as `serving/listener.py` does for HTTP/1.1 with httptools.
Knows no Kubernetes.
"""

from __future__ import annotations

import asyncio
from typing import cast

from aiohttp import web

from kapiserver.apiserver.context import Handler
from kapiserver.apiserver.serving.aiohttp.connection import AiohttpConnection
from kapiserver.apiserver.serving.aiohttp.exchange import AiohttpExchange
from kapiserver.apiserver.serving.connection_limits import IncompleteHeaders
from kapiserver.apiserver.serving.exchange import Dispatcher
from kapiserver.apiserver.serving.http1.connection import IDLE_SECONDS
from kapiserver.apiserver.serving.http1.lingering_close import LINGER_SECONDS
from kapiserver.apiserver.serving.http1.request_parser import FIELD_COUNT, FIELD_LIMIT, LINE_LIMIT
from kapiserver.apiserver.serving.listener import CLOSE_SECONDS, LAST_REQUEST_SECONDS
from kapiserver.apiserver.user import User


class AiohttpListener:
    """Calls `handle` for the requests of every connection that a socket accepts.

    user                of requests before authentication
    incomplete_headers  shared by the listeners of a server
    connections         that are open
    """

    def __init__(
        self, handle: Handler, *, user: User, incomplete_headers: IncompleteHeaders
    ) -> None:
        self._dispatcher = Dispatcher(handle, user=user)
        self.incomplete_headers = incomplete_headers
        self._server = web.Server(
            self._respond,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=LINGER_SECONDS,
            max_line_size=LINE_LIMIT,
            max_field_size=FIELD_LIMIT,
            max_headers=FIELD_COUNT,
        )
        self.connections: set[AiohttpConnection] = set()
        self._drained = False

    def __call__(self) -> AiohttpConnection:
        """Return the protocol of a new connection."""
        return AiohttpConnection(self._server(), self)

    async def finish_requests(self, seconds: float, watch_seconds: float) -> None:
        """End every stream cleanly within `watch_seconds`, and give the requests in flight
        `seconds` to finish. Requests and connections that arrive meanwhile are served."""
        await self._dispatcher.end_streams(watch_seconds)
        await self._dispatcher.wait_current(seconds)

    async def drain(self, seconds: float, watch_seconds: float = 0.0) -> None:
        """End every stream cleanly within `watch_seconds`, give the requests in flight `seconds` to
        finish, then close all connections. The caller has stopped accepting new ones."""
        await self._dispatcher.end_streams(watch_seconds)
        if self.connections:
            await asyncio.sleep(min(seconds, LAST_REQUEST_SECONDS))
        await self._dispatcher.wait_finished(seconds)
        self._drained = True
        await self._server.shutdown(min(seconds, CLOSE_SECONDS))
        for connection in tuple(self.connections):
            connection.abort()

    def connection_made(self, connection: AiohttpConnection) -> None:
        """Track a connection; abort one that arrives after `drain` has closed the others."""
        self.connections.add(connection)
        if self._drained:
            connection.abort()

    def connection_lost(self, connection: AiohttpConnection) -> None:
        """Forget a closed connection."""
        self.connections.discard(connection)

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        if transport is None:
            raise ConnectionResetError
        connection = cast(AiohttpConnection, transport.get_protocol())
        connection.begin_request()
        try:
            exchange = AiohttpExchange(request, request.raw_path, connection)
            return await exchange.run(self._dispatcher)
        finally:
            connection.end_request()
