"""Watch frames of large objects, shared by the watchers that are writing them.

A watcher that catches up writes a large object as a frame of its own, and a slow client keeps that
frame in memory. With this cache, watchers of the same frames keep the same bytes. Knows no media
type and no kind.
"""

from __future__ import annotations

from collections.abc import Hashable
from weakref import WeakValueDictionary

from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.cache.query import EventType, Framer


class LargeFrame:
    """The frame of one event. It is cached as long as a watcher refers to it."""

    __slots__ = ("__weakref__", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data


class LargeFrames:
    """The frames of one resource that watchers are writing."""

    def __init__(self) -> None:
        self._frames: WeakValueDictionary[Hashable, LargeFrame] = WeakValueDictionary()

    async def frame(self, framer: Framer, kind: EventType, entry: Entry) -> LargeFrame:
        """Return the frame of an event of a large object. Keep the result until the frame is
        written, so that other watchers get the same bytes until then."""
        key = (framer.identity, kind, entry.path, entry.revision)
        frame = self._frames.get(key)
        if frame is None:
            await framer.prepare(entry)
            frame = self._frames.get(key)  # another watcher may have made it meanwhile
        if frame is None:
            frame = self._frames[key] = LargeFrame(framer.event(kind, entry))
        return frame
