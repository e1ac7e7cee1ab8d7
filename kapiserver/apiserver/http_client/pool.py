"""Opens connections to other servers, and keeps them open between requests.

A guard may refuse addresses; the connection goes to an address that the guard has judged. Knows no
Kubernetes. Mirrors Transport of Go's net/http.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import Callable
from contextvars import Context
from typing import NamedTuple, TypeVar

from kapiserver.apiserver.http_client.addresses import Guard, Resolver
from kapiserver.apiserver.http_client.connection import Connection, HttpResponse, Outgoing
from kapiserver.apiserver.http_client.errors import (
    CONNECTING,
    ConnectTimeout,
    Disconnected,
    HostPort,
    UnknownHost,
)
from kapiserver.apiserver.http_client.proxies import ProxyReply
from kapiserver.apiserver.http_client.urls import split_url

MAX_IDLE = 100
"""Idle connections to one origin that stay open; MaxIdleConns of Go's default transport. A burst of
more requests at once opens others: a handshake costs as much as five requests."""
IDLE_SECONDS = 90.0
"""An idle connection closes after this time at the earliest and twice this time at the latest.
IdleConnTimeout of Go's default transport."""
_REPLAYED = frozenset(("GET", "HEAD", "OPTIONS"))
"""Methods of requests that are sent again if the server has closed an idle connection."""


_Protocol = TypeVar("_Protocol", bound=asyncio.Protocol)


class Origin(NamedTuple):
    """Where to connect: host and port, and the name that the certificate must have ("": the host).
    `context` is None without TLS; `proxy` is the URL of an HTTP proxy, or ""."""

    host: str
    port: int
    context: ssl.SSLContext | None = None
    name: str = ""
    proxy: str = ""

    @property
    def server_name(self) -> str:
        """The name that the certificate must have."""
        return self.name or self.host


class ConnectionPool:
    """The connections of one client. The number of connections in use is not limited: callers limit
    their requests, and a server that does not answer must not delay requests to others.

    guard       the client connects only to addresses that the guard allows; None: to all
    keep_alive  whether connections stay open for other requests
    """

    def __init__(self, *, guard: Guard | None = None, keep_alive: bool = True) -> None:
        self._idle: dict[Origin, list[Connection]] = {}
        self._unused: set[Connection] = set()
        """The idle connections that were idle at the last sweep."""
        self.keep_alive = keep_alive
        self._resolver = Resolver(guard)
        self._sweep_timer: asyncio.TimerHandle | None = None

    async def send(
        self, origin: Origin, request: Outgoing, connect_seconds: float | None = None
    ) -> HttpResponse:
        """Send a request on an idle or new connection, which must be open after that many seconds,
        and return the response when its head has arrived. Raises AddressNotAllowed, UnknownHost,
        ConnectTimeout, ssl.SSLError, Disconnected, OSError and ValueError."""
        while (connection := self._take(origin)) is not None:
            try:
                return await connection.send(request)
            except ConnectionError:
                # The server has closed the connection before it got the request.
                is_replayed = request.method in _REPLAYED and request.body is None
                if connection.has_received or not is_replayed:
                    raise
        connection = await self._connect(origin, connect_seconds)
        return await connection.send(request)

    def close(self) -> None:
        """Close all idle connections. Idempotent; another request opens them again."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()
        self._unused.clear()
        self._resolver.close()

    def _take(self, origin: Origin) -> Connection | None:
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if connection.is_open:
                return connection
        return None

    def _keep(self, origin: Origin, connection: Connection) -> None:
        idle = self._idle.setdefault(origin, [])
        if not self.keep_alive or len(idle) >= MAX_IDLE:
            connection.close()
            return
        self._unused.discard(connection)
        idle.append(connection)
        if self._sweep_timer is None:
            self._schedule_sweep()

    def _schedule_sweep(self) -> None:
        loop = asyncio.get_running_loop()
        # Outside the context of the request, which the timer would keep.
        self._sweep_timer = loop.call_later(IDLE_SECONDS, self._sweep, context=Context())

    def _sweep(self) -> None:
        """Close the connections that were idle at the last sweep already."""
        for origin, connections in list(self._idle.items()):
            for connection in connections:
                if connection in self._unused:
                    connection.close()
            connections[:] = [connection for connection in connections if connection.is_open]
            if not connections:
                del self._idle[origin]
        self._unused = {
            connection for connections in self._idle.values() for connection in connections
        }
        self._sweep_timer = None
        if self._unused:
            self._schedule_sweep()

    async def _connect(self, origin: Origin, seconds: float | None) -> Connection:
        make = functools.partial(Connection, functools.partial(self._keep, origin))
        try:
            async with asyncio.timeout(seconds):
                if not origin.proxy:
                    return await self._open(
                        make, origin.host, origin.port, origin.context, origin.server_name
                    )
                proxy = split_url(origin.proxy)
                tls = ssl.create_default_context() if proxy.scheme == "https" else None
                if origin.context is None:
                    return await self._open(make, proxy.host, proxy.port, tls, proxy.host)
                reply = await self._open(ProxyReply, proxy.host, proxy.port, tls, proxy.host)
                connection, target = make(), str(HostPort(origin.host, origin.port))
                await reply.tunnel(
                    target, origin.proxy, connection, origin.context, origin.server_name
                )
                return connection
        except TimeoutError as error:
            raise ConnectTimeout(str(error)) from None
        except asyncio.CancelledError as error:
            error.add_note(CONNECTING)
            raise

    async def _open(
        self,
        make: Callable[[], _Protocol],
        host: str,
        port: int,
        context: ssl.SSLContext | None,
        server_name: str,
    ) -> _Protocol:
        """Connect a new protocol to the first address of a host that accepts."""
        loop = asyncio.get_running_loop()
        failures: list[OSError] = [UnknownHost(host)]
        for address in await self._resolver.addresses(host):
            try:
                _, protocol = await loop.create_connection(
                    make,
                    address,
                    port,
                    ssl=context,
                    server_hostname=None if context is None else server_name,
                )
            except ssl.SSLError:
                raise
            except OSError as error:
                failures = [error]
            else:
                return protocol
        if isinstance(failures[0], ConnectionError) and failures[0].errno is None:
            raise Disconnected(str(failures[0]))  # in the TLS handshake
        raise failures.pop()  # an error that this frame kept would be in a cycle with it
