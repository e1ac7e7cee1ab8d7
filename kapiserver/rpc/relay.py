"""Accepts connections on a Unix socket, checks the peer, and passes the bytes to a gRPC server.

grpcio accepts connections by itself and does not tell who connected (decision 060), so the gRPC
server listens on a private socket and a Relay owns the public one. Knows no gRPC.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import cast

from kapiserver.rpc.sockets import SocketFile, is_allowed, peer_uid

_log = logging.getLogger(__name__)


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
        self._connecting: set[asyncio.Task[None]] = set()
        self._pipes: set[_Pipe] = set()
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
        for pipe in list(self._pipes):
            pipe.abort()

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
            connecting = loop.create_task(self._connect(connection))
            self._connecting.add(connecting)
            connecting.add_done_callback(self._connecting.discard)

    async def _connect(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            uid = self._uid_of(connection)
            if not is_allowed(uid):
                _log.warning("%s refused a connection of user id %s", self._file.path, uid)
                raise PermissionError
            back = _Pipe()
            await loop.create_unix_connection(lambda: back, str(self._target))
        except BaseException as error:
            connection.close()
            self._free.release()
            if not isinstance(error, OSError):
                raise
            return
        front = _Pipe(back)
        back.other = front
        self._pipes.add(front)
        front.on_lost = self._forget
        try:
            await loop.connect_accepted_socket(lambda: front, connection)
        except BaseException:
            front.connection_lost(None)
            raise

    def _forget(self, front: _Pipe) -> None:
        self._pipes.discard(front)
        self._free.release()


class _Pipe(asyncio.Protocol):
    """One end of a relayed connection; writes what it receives to the other end.

    received    bytes for the other end before that is connected
    """

    _transport: asyncio.Transport | None = None

    def __init__(self, other: _Pipe | None = None) -> None:
        self.other = other
        self.received: list[bytes] = []
        self.on_lost: Callable[[_Pipe], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.other is not None:
            self._transport.writelines(self.other.received)
            self.other.received.clear()

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other._transport is None:
            self.received.append(data)  # the greeting of an HTTP/2 server, at most
        else:
            self.other._transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and self.other._transport is not None:
            self.other._transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other._transport is not None:
            with contextlib.suppress(RuntimeError):  # the other end is closing
                self.other._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if self.other is not None and self.other._transport is not None:
            self.other._transport.close()
        if self.on_lost is not None:
            self.on_lost(self)
            self.on_lost = None

    def abort(self) -> None:
        """Close both ends at once."""
        for pipe in (self, self.other):
            if pipe is not None and pipe._transport is not None:
                pipe._transport.abort()
