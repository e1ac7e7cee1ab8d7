"""Learns of the writes of all servers by notifications, on a connection of its own.

state       what ends it                                              next state
notified    the connection ends, or does not answer a check           lost
on standby  as above; a standby refuses LISTEN, so that the newest    lost
            revision is read each second
            it is promoted                                            notified
lost        PostgreSQL answers again; events that were missed are     notified, on standby
            looked for before
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import asyncpg

from kapiserver.storage.errors import StorageError
from kapiserver.storage.postgresql.connections import Connections
from kapiserver.storage.postgresql.errors import translate_errors

CHECK_SECONDS = 10.0
"""Interval of checks that the connection still has a peer, and that no event is missing."""
STANDBY_SECONDS = 1.0
"""Interval of reads of the newest revision from a standby."""
RETRY_SECONDS = 0.2
"""Pause before a connection is replaced; doubled after each failure up to the maximum."""
MAX_RETRY_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Listener:
    """Keeps a connection that listens.

    learn_of    gets the newest revision after each write of any server
    check       looks for events of which no message told. Raises StorageError
    """

    def __init__(
        self,
        connections: Connections,
        *,
        learn_of: Callable[[int], None],
        check: Callable[[], Awaitable[None]],
    ) -> None:
        self._connections = connections
        self._learn_of = learn_of
        self._check_events = check
        self._connection: asyncpg.Connection | None = None
        self._lost = asyncio.Event()
        self._is_notified = False
        """Whether PostgreSQL notifies this server; a standby does not."""
        self._closed = False

    async def start(self) -> None:
        """Connect and listen. Raises Refused, Unavailable."""
        self._terminate()
        self._lost.clear()
        with translate_errors():
            self._connection = await self._connections.connect()
        self._connection.add_termination_listener(lambda _: self._lost.set())
        try:
            await self._subscribe(self._connection)
        except BaseException:
            self._terminate()
            raise

    def close(self) -> None:
        """Close the connection, and let `run` end. Idempotent."""
        self._closed = True
        self._terminate()

    def _terminate(self) -> None:
        if self._connection is not None:
            with suppress(asyncpg.InterfaceError):
                self._connection.terminate()
            self._connection = None

    async def run(self) -> None:
        """Check the connection, and replace it when it ends, until `close`."""
        while not self._closed:
            try:
                async with asyncio.timeout(CHECK_SECONDS if self._is_notified else STANDBY_SECONDS):
                    await self._lost.wait()
            except TimeoutError:
                await self._check()
                continue
            await self._start_again()

    async def _subscribe(self, connection: asyncpg.Connection) -> None:
        with translate_errors():
            try:
                await connection.add_listener(self._connections.channel, self._on_message)
            except asyncpg.ReadOnlySQLTransactionError:
                self._is_notified = False
            else:
                self._is_notified = True

    def _on_message(self, *message: Any) -> None:
        self._learn_of(int(message[-1]))

    async def _check(self) -> None:
        """Find a connection without a peer, which would never deliver a message, and a standby
        that was promoted."""
        assert self._connection is not None
        try:
            with translate_errors():
                await self._connection.execute("SELECT 1")
            await self._subscribe(self._connection)
            await self._check_events()
        except StorageError as error:
            _log.debug("the connection that listens: %s", error)
            self._lost.set()

    async def _start_again(self) -> None:
        """Listen on a new connection, as soon as PostgreSQL answers."""
        pause = RETRY_SECONDS
        failures = 0
        while not self._closed:
            try:
                await self.start()
                await self._check_events()
            except StorageError as error:
                if not failures:
                    _log.warning("no events until PostgreSQL answers again: %s", error)
                failures += 1
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_RETRY_SECONDS)
            else:
                if failures:
                    _log.warning("PostgreSQL answers again")
                return
