"""Waiting until something changed: watches of a few objects that say that, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

from kapiserver.api.group import GroupVersion
from kapiserver.api.selectors import parse
from kapiserver.apiserver.context import Server
from kapiserver.storage.entry import Entry
from kapiserver.storage.kv import Revision
from kapiserver.storage.query import EventType, WatchQuery
from kapiserver.storage.watch_fanout import Watching

Watched: TypeAlias = tuple[GroupVersion, str, str]
"""A resource and a field selector."""


_AGAIN_SECONDS = 1.0


class _Changes:
    """Frames that say that something changed."""

    identity = "changes"

    def event(self, kind: EventType, entry: Entry) -> bytes:
        return b"."

    def bookmark(self, revision: Revision, *, initial_events_end: bool) -> bytes:
        return b""

    def error(self, error: Exception) -> bytes:
        return b""


class _Sink:
    def __init__(self, wakes: Wakes, watched: Watched) -> None:
        self._wakes = wakes
        self._watched = watched

    def write(self, frames: bytes) -> None:
        self._wakes.wake()

    def backlog(self) -> int:
        return 0

    async def drained(self) -> None:
        pass

    def close(self) -> None:
        self._wakes.ended(self._watched)


class Wakes:
    """Watches that are begun again when they end."""

    def __init__(self, server: Server, watched: Sequence[Watched]) -> None:
        self._server = server
        self._unwatched = list(watched)
        self._watching: dict[Watched, Watching] = {}
        self._event = asyncio.Event()

    async def watch(self) -> None:
        """Begin what is not watched. Raises StorageError."""
        while self._unwatched:
            watched = self._unwatched[-1]
            version, name, selector = watched
            resource = self._server.scheme.declared_resource(version, name)
            query = WatchQuery(framer=_Changes(), selection=parse("", selector, resource))
            sink = _Sink(self, watched)
            self._watching[watched] = await self._server.stores.of(resource).watch(query, sink)
            self._unwatched.remove(watched)

    async def wait(self) -> None:
        """Until something happened since the last time."""
        await self._event.wait()
        self._event.clear()

    def wake(self) -> None:
        """Something happened."""
        self._event.set()

    def ended(self, watched: Watched) -> None:
        """A watch ended by itself; it is begun again soon, not at once: it may end at once too."""
        if self._watching.pop(watched, None) is not None:
            self._unwatched.append(watched)
        self._server.clock.call_later(_AGAIN_SECONDS, self.wake)

    def stop(self) -> None:
        """End all watches, and wake who waits."""
        for watching in list(self._watching.values()):
            watching.cancel()
        self.wake()
