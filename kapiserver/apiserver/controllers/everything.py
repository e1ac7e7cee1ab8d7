"""The loops that care for all objects, run together from one feed of the store.

Knows no loop: each is a Reader of the feed that can be stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from kapiserver.apiserver.context import Server
from kapiserver.storage.errors import StorageError
from kapiserver.storage.feed import Feed, Reader, Seen

AGAIN_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Loop(Reader, Protocol):
    """One of them."""

    async def stop(self) -> None:
        """End; what is being done finishes."""


class Everything:
    """Starts the loops with fresh eyes, as often as they are started."""

    def __init__(self, server: Server, loops: Sequence[Callable[[Server], Loop]]) -> None:
        self._server = server
        self._makers = loops
        self._loops: list[Loop] = []
        self._feed: Feed | None = None
        self._broken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; nobody waits for it."""
        self._loops = [make(self._server) for make in self._makers]
        self._task = asyncio.create_task(self._run(), name="controllers")

    async def stop(self) -> None:
        """End all loops."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._feed is not None:
            self._feed.stop()
        await asyncio.gather(*(loop.stop() for loop in self._loops))

    async def _run(self) -> None:
        while True:
            self._broken.clear()
            self._feed = self._server.stores.feed(self)
            try:
                await self._feed.begin(self._broken.set)
            except StorageError as error:
                _log.info("controllers: %s; trying again", error)
                self._server.clock.call_later(AGAIN_SECONDS, self._broken.set)
            await self._broken.wait()

    # What the feed says, passed on.

    def begin(self) -> None:
        """All objects there are follow."""
        for loop in self._loops:
            loop.begin()

    def put(self, seen: Seen) -> None:
        """An object is there, or changed."""
        for loop in self._loops:
            loop.put(seen)

    def gone(self, seen: Seen) -> None:
        """An object is there no more."""
        for loop in self._loops:
            loop.gone(seen)
