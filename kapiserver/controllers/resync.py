"""Watches of a few objects whose only effect is to trigger a resync."""

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


_RETRY_SECONDS = 1.0


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
    def __init__(self, trigger: ResyncTrigger, watched: Watched) -> None:
        self._trigger = trigger
        self._watched = watched

    def write(self, frames: bytes) -> None:
        self._trigger.wake()

    def backlog(self) -> int:
        return 0

    async def drained(self) -> None:
        pass

    def close(self) -> None:
        self._trigger.ended(self._watched)


class ResyncTrigger:
    """An event that is set by every change of the watched objects; broken watches start again."""

    def __init__(self, server: Server, watched: Sequence[Watched]) -> None:
        self._server = server
        self._unwatched = list(watched)
        self._watching: dict[Watched, Watching] = {}
        self._event = asyncio.Event()

    async def watch(self) -> None:
        """Start the watches that do not run. Raises StorageError."""
        while self._unwatched:
            watched = self._unwatched[-1]
            version, name, selector = watched
            resource = self._server.scheme.declared_resource(version, name)
            query = WatchQuery(framer=_Changes(), selection=parse("", selector, resource))
            sink = _Sink(self, watched)
            self._watching[watched] = await self._server.stores.of(resource).watch(query, sink)
            self._unwatched.remove(watched)

    async def wait(self) -> None:
        """Wait for a change since the last call."""
        await self._event.wait()
        self._event.clear()

    def wake(self) -> None:
        """Trigger a resync."""
        self._event.set()

    def ended(self, watched: Watched) -> None:
        """Start a broken watch again after a delay."""
        if self._watching.pop(watched, None) is not None:
            self._unwatched.append(watched)
        self._server.clock.call_later(_RETRY_SECONDS, self.wake)

    def stop(self) -> None:
        """End all watches and trigger a last resync."""
        for watching in list(self._watching.values()):
            watching.cancel()
        self.wake()
