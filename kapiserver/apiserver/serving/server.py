"""The listening sockets of one server: opens them, and drains them on shutdown.

Knows the handler of requests, and no response.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from kapiserver.apiserver.config import AIOHTTP, HTTPTOOLS
from kapiserver.apiserver.context import Handler
from kapiserver.apiserver.serving.acceptor import Acceptor
from kapiserver.apiserver.serving.connection_limits import ConnectionLimits
from kapiserver.apiserver.serving.http2.settings import Http2Settings
from kapiserver.apiserver.serving.listener import (
    NEW_CONNECTION_SECONDS,
    ErrorHandler,
    Listener,
)
from kapiserver.apiserver.user import ANONYMOUS, UNSECURED, User

LOOPBACK = "127.0.0.1"
ALL_ADDRESSES = ("", "0.0.0.0", "::")


class _Listener(Protocol):
    """The connections of one port."""

    def __call__(self) -> Any:
        """Return the protocol of a new connection, as an Acceptor needs it."""

    async def finish_requests(self, seconds: float, watch_seconds: float) -> None:
        """End streams within `watch_seconds`, and give requests in flight `seconds` to finish."""

    async def drain(self, seconds: float, watch_seconds: float) -> None:
        """End streams within `watch_seconds`, give requests in flight `seconds` to finish, and
        close all connections."""


class _Endpoint(Struct, frozen=True, kw_only=True):
    """One port."""

    acceptor: Acceptor
    listener: _Listener


class HttpServer:
    """Listens on ports and serves `handle` on every connection.

    reuse_port  several processes listen on the same port
    front       the library that parses requests, one of `config.FRONTS`
    http2       None for HTTP/1.1 only; connections without TLS never speak HTTP/2
    sockets     those that the secure port has if another program has opened it
    """

    def __init__(
        self,
        handle: Handler,
        error_response: ErrorHandler,
        limits: ConnectionLimits,
        *,
        reuse_port: bool,
        front: str = HTTPTOOLS,
        http2: Http2Settings | None = None,
        sockets: Sequence[socket.socket] = (),
    ) -> None:
        self._sockets = sockets
        self._handle = handle
        self._front = front
        self.http2 = http2
        self._error_response = error_response
        self._reuse_port = reuse_port
        self._endpoints: list[_Endpoint] = []
        self._limits = limits

    async def listen_insecure(self, port: int) -> int:
        """Listen on the loopback address without TLS; return the port, which the system chooses
        for 0. Every request there has the user `UNSECURED`. Raises OSError."""
        return await self._listen(LOOPBACK, port, UNSECURED, None)

    async def listen_secure(self, address: str, port: int, context: ssl.SSLContext) -> int:
        """Listen with TLS; return the port, which the system chooses for 0. The context offers
        HTTP/2 only if the server has settings for it. Raises OSError."""
        if self._sockets:
            acceptor = self._new_acceptor(ANONYMOUS, context)
            acceptor.serve(self._sockets)
            return acceptor.port
        return await self._listen(address or None, port, ANONYMOUS, context)

    async def listen_plain(self, address: str, port: int) -> int:
        """Listen without TLS for requests of anonymous users; return the port, which the system
        chooses for 0. Raises OSError."""
        return await self._listen(address or None, port, ANONYMOUS, None)

    async def _listen(
        self, address: str | None, port: int, user: User, context: ssl.SSLContext | None
    ) -> int:
        acceptor = self._new_acceptor(user, context)
        await acceptor.listen(address, port, reuse_port=self._reuse_port)
        return acceptor.port

    def _new_acceptor(self, user: User, context: ssl.SSLContext | None) -> Acceptor:
        listener = self._listener(user, self.http2 if context is not None else None)
        acceptor = Acceptor(listener, self._limits.unauthenticated, context)
        self._endpoints.append(_Endpoint(acceptor=acceptor, listener=listener))
        return acceptor

    def _listener(self, user: User, http2: Http2Settings | None) -> _Listener:
        if self._front == AIOHTTP:
            from kapiserver.apiserver.serving.aiohttp.listener import AiohttpListener  # slow import

            return AiohttpListener(
                self._handle, user=user, incomplete_headers=self._limits.incomplete_headers
            )
        return Listener(
            self._handle,
            self._error_response,
            user=user,
            incomplete_headers=self._limits.incomplete_headers,
            http2=http2,
        )

    async def finish_requests(self, seconds: float, watch_seconds: float) -> None:
        """Go on accepting connections, whose requests the caller refuses, while streams end within
        `watch_seconds`, and while the requests in flight finish within `seconds`. Connections close
        after each response."""
        await asyncio.gather(
            *(
                endpoint.listener.finish_requests(seconds, watch_seconds)
                for endpoint in self._endpoints
            )
        )

    async def drain(self, seconds: float, watch_seconds: float = 0.0) -> None:
        """Stop accepting connections, end streams within `watch_seconds`, and give the requests in
        flight `seconds` to finish."""
        for endpoint in self._endpoints:
            endpoint.acceptor.stop()
        for endpoint in self._endpoints:
            await endpoint.acceptor.wait_handshakes(min(seconds, NEW_CONNECTION_SECONDS))
        drains = (endpoint.listener.drain(seconds, watch_seconds) for endpoint in self._endpoints)
        await asyncio.gather(*drains)
        for endpoint in self._endpoints:
            await endpoint.acceptor.close()


def url_host(bind_address: str) -> str:
    """Return the host that clients on this machine put into their URL."""
    host = LOOPBACK if bind_address in ALL_ADDRESSES else bind_address
    return f"[{host}]" if ":" in host else host
