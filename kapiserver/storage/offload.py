"""Runs long CPU-bound work in a thread, one piece at a time, so that the event loop stays free.

The interpreter switches between the thread and the event loop every few milliseconds. The work
must only use data that nothing else changes meanwhile. Knows no object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from kapiserver.api.accessors import copy_tree
from kapiserver.api.strategy import Strategy, ValidationTakesLong
from kapiserver.api.types import Tree
from kapiserver.storage.entry import Entry
from kapiserver.storage.query import FetchRequired, UpdateFunc

Result = TypeVar("Result")


LARGE_OBJECT_BYTES = 256 << 10
"""Larger objects are processed in the thread: decoding one takes about 10 ms."""


class Offloader:
    """Runs the long work of one server. It uses one thread: more would share the same GIL."""

    def __init__(self) -> None:
        self._thread_slot = asyncio.Semaphore(1)

    async def run_with_strategy(
        self, strategy: Strategy, work: Callable[..., Result], *args: Any
    ) -> Result:
        """Return `work(*args, strategy)`. If the strategy raises TakesLong, the work starts again
        in the thread."""
        try:
            return work(*args, strategy)
        except ValidationTakesLong as error:
            slow_strategy = error.slow_strategy
        return await self.run_in_thread(lambda: work(*args, slow_strategy))

    async def run_sized(self, size: int, work: Callable[..., Result], *args: Any) -> Result:
        """Return `work(*args)`, run in the thread if the object has at least LARGE_OBJECT_BYTES."""
        if size < LARGE_OBJECT_BYTES:
            return work(*args)
        return await self.run_in_thread(lambda: work(*args))

    async def apply_change(self, entry: Entry, change: UpdateFunc) -> Tree:
        """Return the object that an update function makes of an entry; fetches what it requires."""
        while True:
            try:
                return await self.run_sized(len(entry.value), change, copy_tree(entry.tree()))
            except FetchRequired as error:
                await error.fetch()

    async def tree(self, entry: Entry) -> Tree:
        """Return `Entry.tree`; a large object is decoded in the thread."""
        if entry.cached_tree is None and len(entry.value) >= LARGE_OBJECT_BYTES:
            entry.cache_tree(await self.run_in_thread(lambda: entry.codec.tree(entry)))
        return entry.tree()

    async def run_in_thread(self, work: Callable[[], Result]) -> Result:
        """Return `work()`, run in the thread."""
        async with self._thread_slot:
            return await asyncio.to_thread(work)
