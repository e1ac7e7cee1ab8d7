"""A watch sink that records events, and lets a test wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from kapiserver.storage.kv.contract import KVEvent, Revision

TIMEOUT_SECONDS = 60.0
"""Seconds after which a test that waits has failed."""


class Recorder:
    """Records the events, progress and end of one watch, and checks their order."""

    def __init__(self) -> None:
        self.seen: list[KVEvent] = []
        self.progressed: list[Revision] = []
        self.ends: list[Exception | None] = []
        self._changed = asyncio.Event()

    def on_events(self, batch: Sequence[KVEvent]) -> None:
        assert batch
        assert not self.ends
        # Not every store has the previous values in the events of a watch.
        self.seen.extend(replace(event, previous=None) for event in batch)
        self._changed.set()

    def on_progress(self, revision: Revision) -> None:
        assert not self.ends
        assert not self.seen or revision >= self.seen[-1].revision
        self.progressed.append(revision)
        self._changed.set()

    def on_closed(self, error: Exception | None) -> None:
        assert not self.ends
        self.ends.append(error)
        self._changed.set()

    def keys(self) -> list[str]:
        """The keys of the events, in order."""
        return [event.key for event in self.seen]

    async def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition is true; it is evaluated after each call of the sink."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def count(self, events: int) -> list[KVEvent]:
        """Wait for a number of events; return all events."""
        await self.wait_until(lambda: len(self.seen) >= events)
        return self.seen

    async def end(self) -> Exception | None:
        """Wait for the end of the watch; return its error."""
        await self.wait_until(lambda: self.ends)
        return self.ends[0]
