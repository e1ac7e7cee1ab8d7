"""The messages between a worker and its supervisor, over a pair of sockets.

A message is one byte, and a descriptor in one case:

    message     from the worker                            from the supervisor
    READY       it is ready
    ALIVE       its event loop runs
    GO                                                     all workers are ready
    SEGMENT     a descriptor of memory to share            the same, from another worker
    ASK         it asks the first worker for all of these  the same, to the first worker

The end of the supervisor closes when it exits, also if it is killed. A message that the other end
is too busy to take is lost, which no message after GO minds. Knows no store and no HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

READY, ALIVE, GO, SEGMENT, ASK = b"r", b"l", b"g", b"s", b"a"
REPORT_SECONDS = 1.0
"""The time between two messages ALIVE."""


class WorkerFailed(Exception):
    """A worker exited before all workers were ready; it has logged the reason itself."""


class WorkerChannel:
    """A worker's end."""

    def __init__(
        self, connection: socket.socket, *, prints_greeting: bool, is_first_worker: bool
    ) -> None:
        self._connection = connection
        self._connection.setblocking(False)
        self.prints_greeting = prints_greeting
        """Whether this worker prints the server's URL for the user."""
        self.is_first_worker = is_first_worker
        """Whether this worker does what the server does once."""

    async def report_life(self) -> None:
        """Report that the event loop runs, until the task is cancelled."""
        while True:
            self._send(ALIVE)
            await asyncio.sleep(REPORT_SECONDS)

    async def wait_all_ready(self) -> None:
        """Report this worker ready and wait until all workers are. Raises WorkerFailed if the
        supervisor gives up."""
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._connection, READY)
        if not await loop.sock_recv(self._connection, 1):
            raise WorkerFailed("stopped before all workers were ready")

    def listen(
        self,
        on_segment: Callable[[int], None],
        on_ask: Callable[[], None],
        on_supervisor_exit: Callable[[], None],
    ) -> None:
        """Call back for each message. `on_segment` gets a descriptor, and closes it."""
        loop = asyncio.get_running_loop()

        def receive() -> None:
            try:
                message, descriptors, _, _ = socket.recv_fds(self._connection, 1, 1)
            except BlockingIOError:
                return
            except OSError:
                message, descriptors = b"", []
            for descriptor in descriptors:
                on_segment(descriptor)
            if message == ASK:
                on_ask()
            elif not message:
                loop.remove_reader(self._connection)
                on_supervisor_exit()

        loop.add_reader(self._connection, receive)

    def announce(self, segment: int) -> None:
        """Send a descriptor of memory to share to all other workers."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._connection, [SEGMENT], [segment])

    def ask(self) -> None:
        """Ask the first worker for all descriptors of memory to share."""
        self._send(ASK)

    def _send(self, message: bytes) -> None:
        with contextlib.suppress(OSError):
            self._connection.send(message)
