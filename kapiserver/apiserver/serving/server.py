"""The listening sockets of one server: opens them, and drains them on shutdown.

Knows the handler of requests, and no response.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from dataclasses import dataclass

from kapiserver.apiserver.authentication.user import ANONYMOUS, UNSECURED, User
from kapiserver.apiserver.context import Handler
from kapiserver.apiserver.serving.listener import ErrorHandler, Listener

LOOPBACK = "127.0.0.1"
BACKLOG = 512
"""Connections that the operating system queues until they are accepted."""
_ALL_ADDRESSES = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Endpoint:
    """One listening socket."""

    sockets: asyncio.Server
    listener: Listener

    @property
    def port(self) -> int:
        port: int = self.sockets.sockets[0].getsockname()[1]
        return port


class HttpServer:
    """Listens on ports and serves `handle` on every connection.

    reuse_port  several processes listen on the same port
    """

    def __init__(self, handle: Handler, error_response: ErrorHandler, *, reuse_port: bool) -> None:
        self._handle = handle
        self._error_response = error_response
        self._reuse_port = reuse_port
        self._endpoints: list[_Endpoint] = []

    async def listen_insecure(self, port: int) -> int:
        """Listen on the loopback address without TLS; return the port, which the system chooses
        for 0. Every request there has the user `UNSECURED`. Raises OSError."""
        return await self._listen(LOOPBACK, port, UNSECURED, None)

    async def listen_secure(self, address: str, port: int, context: ssl.SSLContext) -> int:
        """Listen with TLS; return the port, which the system chooses for 0. Raises OSError."""
        return await self._listen(address or None, port, ANONYMOUS, context)

    async def _listen(
        self, address: str | None, port: int, user: User, context: ssl.SSLContext | None
    ) -> int:
        listener = Listener(self._handle, self._error_response, user=user)
        sockets = await asyncio.get_running_loop().create_server(
            listener,
            address,
            port,
            ssl=context,
            backlog=BACKLOG,
            reuse_port=self._reuse_port or None,
        )
        endpoint = _Endpoint(sockets=sockets, listener=listener)
        self._endpoints.append(endpoint)
        return endpoint.port

    async def drain(self, seconds: float) -> None:
        """Accept no more connections, end streams, and give requests in flight that many seconds
        to finish."""
        for endpoint in self._endpoints:
            _stop_accepting(endpoint.sockets)
        # asyncio creates the handler of a connection a few loop iterations after accepting it.
        for _ in range(3):
            await asyncio.sleep(0)
        for endpoint in self._endpoints:
            endpoint.sockets.close()
        drains = (endpoint.listener.drain(seconds) for endpoint in self._endpoints)
        await asyncio.gather(*drains)


def url_host(bind_address: str) -> str:
    """Return the host that clients on this machine put into their URL."""
    host = LOOPBACK if bind_address in _ALL_ADDRESSES else bind_address
    return f"[{host}]" if ":" in host else host


def _stop_accepting(sockets: asyncio.Server) -> None:
    """Stop accepting connections, before the sockets are closed.

    Closing an asyncio server leaks a connection that it has accepted but has no handler for yet:
    it stays open and gets no response.
    """
    loop = asyncio.get_running_loop()
    for listening in sockets.sockets:
        with suppress(NotImplementedError):  # the event loop of Windows has no readers
            loop.remove_reader(listening.fileno())
