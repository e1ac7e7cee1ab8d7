"""Accepts connections on a Unix socket, checks the peer, and passes the bytes to a gRPC server.

grpcio accepts connections by itself and does not tell who connected (decision 060), so the gRPC
server listens on a private socket and a Relay owns the public one. Knows no gRPC.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path

from kapiserver.rpc.sockets import SocketFile, is_allowed, peer_uid
from kapiserver.storage.concurrency.background_tasks import BackgroundTasks

_log = logging.getLogger(__name__)

_SIZE = 256 << 10
"""The number of bytes that are passed on at a time, and the maximum held for a slow target."""


class Relay:
    """Connects the clients of a socket to the socket at `target`, at most `max_connections` at a
    time; more wait in the backlog.

    uid_of  returns the user id of a connection's peer; None if it is not known
    """

    def __init__(
        self,
        file: SocketFile,
        target: Path,
        *,
        max_connections: int,
        uid_of: Callable[[socket.socket], int | None] = peer_uid,
    ) -> None:
        self._file = file
        self._target = target
        self._uid_of = uid_of
        self._free = asyncio.Semaphore(max_connections)
        self._connecting = BackgroundTasks[None]()
        self._connections: set[_Connection] = set()
        self._accepting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to accept connections."""
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    async def stop_accepting(self) -> None:
        """Remove the socket; connections stay open."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        self._file.close()

    def close(self) -> None:
        """Close all connections."""
        for task in self._connecting:
            task.cancel()
        for connection in list(self._connections):
            connection.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._free.acquire()
            try:
                connection, _ = await loop.sock_accept(self._file.socket)
            except OSError as error:  # for example too many open files
                _log.warning("cannot accept a connection on %s: %s", self._file.path, error)
                self._free.release()
                await asyncio.sleep(1)
                continue
            except asyncio.CancelledError:
                self._free.release()
                raise
            self._connecting.start(self._connect(connection))

    async def _connect(self, connection: socket.socket) -> None:
        target = socket.socket(socket.AF_UNIX)
        try:
            uid = self._uid_of(connection)
            if not is_allowed(uid):
                _log.warning("%s refused a connection of user id %s", self._file.path, uid)
                raise PermissionError
            target.setblocking(False)
            await asyncio.get_running_loop().sock_connect(target, str(self._target))
        except BaseException as error:
            connection.close()
            target.close()
            self._free.release()
            if not isinstance(error, OSError):
                raise
            return
        self._connections.add(_Connection(connection, target, self._forget))

    def _forget(self, connection: _Connection) -> None:
        self._connections.discard(connection)
        self._free.release()


class _Connection:
    """Two connected sockets; passes the bytes of each to the other until one of them ends.

    Readers of the event loop cost less than its transports (decision 060).
    """

    def __init__(
        self,
        client: socket.socket,
        server: socket.socket,
        on_close: Callable[[_Connection], None],
    ) -> None:
        self._sockets = (client, server)
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._read_from(client, server)
        self._read_from(server, client)

    def close(self) -> None:
        """Close both sockets. Idempotent."""
        if self._sockets[0].fileno() < 0:
            return
        for end in self._sockets:
            self._loop.remove_reader(end)
            self._loop.remove_writer(end)
            end.close()
        self._on_close(self)

    def _read_from(self, source: socket.socket, target: socket.socket) -> None:
        self._loop.add_reader(source, self._pass_on, source, target)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            data = source.recv(_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        unsent = self._send(target, memoryview(data))
        if unsent:
            # The target is slow: read no more until it has taken these.
            self._loop.remove_reader(source)
            self._loop.add_writer(target, self._send_rest, source, target, unsent)

    def _send_rest(self, source: socket.socket, target: socket.socket, rest: memoryview) -> None:
        unsent = self._send(target, rest)
        if target.fileno() < 0:
            return
        self._loop.remove_writer(target)
        if unsent:
            self._loop.add_writer(target, self._send_rest, source, target, unsent)
        else:
            self._read_from(source, target)

    def _send(self, target: socket.socket, data: memoryview) -> memoryview:
        """Return the part of the data that the target does not take now. Close both sockets if it
        takes nothing more."""
        try:
            return data[target.send(data) :]
        except (BlockingIOError, InterruptedError):
            return data
        except OSError:
            self.close()
            return data[:0]
