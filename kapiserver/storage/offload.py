"""Work that would hold the event loop for long, done in a thread: one piece at a time.

Others have their turn every few milliseconds meanwhile, as Python's threads do. What is worked on
is nobody else's, or changed by nobody. Knows no object.
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
"""Bytes of an object with which nothing is done at once: reading it takes some 10 ms."""


class Offloader:
    """The place of one server for such work: more threads would only share what one has."""

    def __init__(self) -> None:
        self._place = asyncio.Semaphore(1)

    async def run_with_strategy(
        self, strategy: Strategy, work: Callable[..., Result], *args: Any
    ) -> Result:
        """What `work(*args, strategy)` returns or raises: at once, or begun again aside where the
        strategy finds that it takes long."""
        try:
            return work(*args, strategy)
        except ValidationTakesLong as error:
            slow_strategy = error.slow_strategy
        return await self.run_in_thread(lambda: work(*args, slow_strategy))

    async def run_sized(self, size: int, work: Callable[..., Result], *args: Any) -> Result:
        """What `work(*args)` with an object of so many bytes returns or raises."""
        if size < LARGE_OBJECT_BYTES:
            return work(*args)
        return await self.run_in_thread(lambda: work(*args))

    async def apply_change(self, entry: Entry, change: UpdateFunc) -> Tree:
        """What a change makes of an entry, which may want something first."""
        while True:
            try:
                return await self.run_sized(len(entry.value), change, copy_tree(entry.tree()))
            except FetchRequired as error:
                await error.fetch()

    async def tree(self, entry: Entry) -> Tree:
        """The tree of an entry, as `Entry.tree`."""
        if entry.cached_tree is None and len(entry.value) >= LARGE_OBJECT_BYTES:
            entry.cache_tree(await self.run_in_thread(lambda: entry.codec.tree(entry)))
        return entry.tree()

    async def run_in_thread(self, work: Callable[[], Result]) -> Result:
        """What `work` returns or raises."""
        async with self._place:
            return await asyncio.to_thread(work)
