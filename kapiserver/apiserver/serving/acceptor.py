"""Accepts connections: opens listening sockets, and completes the TLS handshake of each client.

asyncio's own servers report a connection only after its handshake, so that connections with
incomplete handshakes could not be limited. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from kapiserver.apiserver.serving.connection_limits import UnauthenticatedConnections
from kapiserver.storage.concurrency.background_tasks import BackgroundTasks

BACKLOG = 512
"""Connections that the operating system queues until they are accepted."""
ACCEPT_AT_ONCE = 64
"""Connections accepted before other tasks run."""
HANDSHAKE_SECONDS = 32.0
"""Limit of a TLS handshake; as Go's server, the limit of reading headers."""
SHUTDOWN_SECONDS = 30.0
"""How long a closed TLS connection waits for the client to read the rest and close its side."""
PAUSE_SECONDS = 1.0
"""Pause after the system had no file descriptor or no memory for a connection."""

_NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_log = logging.getLogger(__name__)


class Acceptor:
    """Accepts the connections of one address and port.

    connect     returns the protocol of a new connection: a `serving/http1/connection.py` Connection
    context     None for plain connections
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        unauthenticated: UnauthenticatedConnections,
        context: ssl.SSLContext | None,
    ) -> None:
        self._connect = connect
        self._unauthenticated = unauthenticated
        self._tls: dict[str, Any] = {}
        if context is not None:
            self._tls = {
                "ssl": context,
                "ssl_handshake_timeout": HANDSHAKE_SECONDS,
                "ssl_shutdown_timeout": SHUTDOWN_SECONDS,
            }
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._handshakes = BackgroundTasks[None]()
        self._accepting: list[asyncio.Task[None]] = []
        """A task for each socket, on event loops without readers."""
        self._is_stopped = False

    @property
    def port(self) -> int:
        """The port, which the system chose if it was 0."""
        port: int = self._sockets[0].getsockname()[1]
        return port

    async def listen(self, host: str | None, port: int, *, reuse_port: bool) -> None:
        """Open a socket for each address of the host, None for all addresses, and accept
        connections. Raises OSError for a port in use."""
        addresses = await self._resolve(host, port)
        try:
            for family, _, _, _, address in dict.fromkeys(addresses):
                opened = socket.create_server(
                    (address[0], port or (self.port if self._sockets else 0), *address[2:]),
                    family=family,
                    backlog=BACKLOG,
                    reuse_port=reuse_port,
                )
                opened.setblocking(False)
                self._sockets.append(opened)
        except OSError as error:
            for opened in self._sockets:
                opened.close()
            reason = os.strerror(error.errno).lower() if error.errno else error
            raise OSError(error.errno, f"cannot listen on {host}:{port}: {reason}") from None
        self._start()

    def serve(self, sockets: Sequence[socket.socket]) -> None:
        """Accept the connections of sockets that listen already."""
        self._sockets.extend(sockets)
        self._start()

    async def _resolve(self, host: str | None, port: int) -> Sequence[Any]:
        flags = socket.AI_PASSIVE
        try:  # an address needs no thread
            flags_of_address = flags | socket.AI_NUMERICHOST
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags_of_address)
        except socket.gaierror:
            return await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)

    def _start(self) -> None:
        if not self._is_stopped:
            for listening in self._sockets:
                try:
                    self._loop.add_reader(listening, self._accept, listening)
                except NotImplementedError:  # Windows: asyncio's loop has no readers there
                    accepting = self._loop.create_task(self._accept_each(listening))
                    self._accepting.append(accepting)

    def _pause(self) -> None:
        for listening in self._sockets:
            with contextlib.suppress(NotImplementedError):
                self._loop.remove_reader(listening)
        for accepting in self._accepting:
            accepting.cancel()
        self._accepting.clear()

    def stop(self) -> None:
        """Accept the connections that wait, and close the listening sockets. Handshakes go on."""
        self._pause()
        self._is_stopped = True
        for listening in self._sockets:
            self._accept_waiting(listening)
            listening.close()

    def _accept_waiting(self, listening: socket.socket) -> None:
        """Accept what the system has queued: it resets these connections when the socket closes,
        although another server may listen on the same port."""
        for _ in range(BACKLOG // ACCEPT_AT_ONCE):
            self._accept(listening)

    async def wait_handshakes(self, seconds: float) -> None:
        """Wait until accepted connections have reached their protocols, but at most so long."""
        if self._handshakes:
            await asyncio.wait(self._handshakes, timeout=seconds)

    async def close(self) -> None:
        """Close the connections whose handshake is incomplete."""
        for handshake in self._handshakes:
            handshake.cancel()
        if self._handshakes:
            await asyncio.wait(self._handshakes)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPT_AT_ONCE):
            try:
                client_socket, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause_without_resources(error)
                return
            client_socket.setblocking(False)
            self._begin_handshake(client_socket, address[0])

    async def _accept_each(self, listening: socket.socket) -> None:
        while True:
            try:
                client_socket, address = await self._loop.sock_accept(listening)
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._pause_without_resources(error)
                return
            self._begin_handshake(client_socket, address[0])

    def _pause_without_resources(self, error: OSError) -> None:
        """Accept nothing for a while. Raises other errors than those of exhausted resources."""
        if error.errno not in _NO_RESOURCES:
            raise error
        _log.warning("cannot accept a connection: %s", error.strerror)
        self._unauthenticated.close_oldest()
        self._pause()
        self._loop.call_later(PAUSE_SECONDS, self._start)

    def _begin_handshake(self, client_socket: socket.socket, address: str) -> None:
        client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection = self._connect()
        handshake = self._handshakes.start(self._complete_handshake(connection, client_socket))

        def discard() -> None:
            self._unauthenticated.discard(address, connection)

        connection.begin_handshake(handshake.cancel, discard)
        self._unauthenticated.add(address, connection)

    async def _complete_handshake(self, connection: Any, client_socket: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: connection, client_socket, **self._tls)
        except BaseException as error:
            connection.fail_handshake()
            with contextlib.suppress(OSError):
                client_socket.close()
            if not isinstance(error, OSError | asyncio.CancelledError):
                raise
            if self._tls:
                self._unauthenticated.failed_handshakes += 1
            _log.debug("the handshake of a client failed: %r", error)
