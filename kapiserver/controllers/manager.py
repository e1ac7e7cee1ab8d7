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
from kapiserver.storage.metadata_informer import Feed, Reader, Seen

AGAIN_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Loop(Reader, Protocol):
    """One of them."""

    async def stop(self) -> None:
        """End; what is being done is broken off."""


class Everything:
    """Starts the loops with fresh eyes, as often as they are started."""

    def __init__(self, server: Server, loops: Sequence[Callable[[Server], Loop]]) -> None:
        self._server = server
        self._makers = loops
        self._loops: list[Loop] = []
        self._feed: Feed | None = None
        self._broken = asyncio.Event()
        self._known: frozenset[str] = frozenset()
        """Definitions of custom kinds whose objects the feed tells of."""
        self._checks: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; nobody waits for it."""
        self._loops = [make(self._server) for make in self._makers]
        self._server.custom_resources.followers.append(self._defined)
        self._task = asyncio.create_task(self._run(), name="controllers")

    async def stop(self) -> None:
        """End all loops."""
        self._server.custom_resources.followers.remove(self._defined)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._feed is not None:
            self._feed.stop()
        await asyncio.gather(*(loop.stop() for loop in self._loops))

    async def _run(self) -> None:
        while True:
            self._broken.clear()
            self._known = self._served()
            self._feed = self._server.stores.feed(self)
            try:
                await self._feed.begin(self._broken.set)
            except StorageError as error:
                _log.info("controllers: %s; trying again", error)
                self._server.clock.call_later(AGAIN_SECONDS, self._broken.set)
            await self._broken.wait()

    def _served(self) -> frozenset[str]:
        return frozenset(one.name for one in self._server.scheme.custom)

    def _defined(self, _names: Sequence[str]) -> None:
        """Definitions changed: objects of a kind that was not known before were passed over."""
        new, self._known = self._served() - self._known, self._served()
        for name in new:
            task = asyncio.get_running_loop().create_task(self._begin_again_for(name))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)

    async def _begin_again_for(self, name: str) -> None:
        definition = self._server.scheme.custom.named(name)
        if definition is None:
            return
        prefix = f"{self._server.config.key_root}/{definition.stored.resource.prefix}/"
        try:
            page = await self._server.stores.kv.range(prefix, limit=1)
        except StorageError:
            return  # the feed breaks too, and begins again
        if page.items and self._feed is not None:
            self._feed.stop()
            self._broken.set()

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
