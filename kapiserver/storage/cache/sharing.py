"""Keeps once in memory what the watch caches of several workers have alike.

Most of a worker's memory are the stored values and the encodings of objects, and each worker has a
watch cache of its own. One worker, the publisher, writes those that have not changed for a while to
segments (`storage/cache/segments.py`), and announces each to all workers. A worker looks for the
same keys in its caches. Where its own bytes are equal, it refers to the segment and frees its own,
so that nothing depends on what another process wrote.

    a worker                 who is not the publisher              the publisher
    every LOOK_SECONDS       asks the publisher to announce, if    publishes what is not in a
                             much is not shared, as after a start  segment, if it is much
    gets a segment           uses it for its entries               (it has done so already)
    is asked                                                       publishes, and announces all
                                                                   of its segments again

A segment is freed when no entry of any worker needs it. The publisher writes again what is left of
segments that it uses less than half of. Without a publisher, which may be starting again, nothing
is lost but memory. Knows no process: `SharingPeers` has the other workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mmap
import os
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from kapiserver.storage.cache.entry import Data, Entry, Part
from kapiserver.storage.cache.segments import (
    SEGMENT_BYTES,
    SEGMENT_ITEMS,
    Item,
    Segment,
    can_share,
    map_segment,
    write_segment,
)
from kapiserver.storage.cache.shared_bytes import SharedBytes
from kapiserver.storage.cache.watch_cache import WatchCache
from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.concurrency.clock import Clock, Timer
from kapiserver.storage.concurrency.time_slice import TimeSlice
from kapiserver.storage.kv.contract import Revision

LOOK_SECONDS = 15.0
"""The time between two looks at the caches. What has not changed between two is shared."""
PAUSE_FACTOR = 100
"""The pause after a slow look at the segments is this many times as long as the look."""
ASK_SECONDS = 120.0
"""The shortest time between two requests to the publisher."""
MIN_BYTES = 512
"""Smaller parts of entries are not shared: the reference takes 64 bytes."""
MIN_PUBLISHED_BYTES = 1 << 20
MIN_PUBLISHED_PART = 64
"""Less than this, or less than one 64th of all bytes, is not worth a segment."""
MAX_SEGMENTS = 512
"""Each takes two file descriptors."""

_log = logging.getLogger(__name__)


class SharingPeers(Protocol):
    """The other workers, and how to reach them. Nothing that is sent is sure to arrive."""

    def announce(self, segment: int) -> None:
        """Send the descriptor of a segment to all other workers."""

    def ask(self) -> None:
        """Ask the publisher to publish, and to announce all segments."""


class MemorySharing:
    """Shares what the caches of this worker have like those of others. One of the workers is the
    publisher."""

    def __init__(
        self,
        caches: Callable[[], Iterable[WatchCache]],
        peers: SharingPeers,
        clock: Clock,
        *,
        is_publisher: bool,
    ) -> None:
        self._caches = caches
        self._peers = peers
        self._clock = clock
        self._is_publisher = is_publisher
        self._timer: Timer | None = None
        self._tasks = BackgroundTasks[None]()
        self._lock = asyncio.Lock()
        self._revisions: dict[str, Revision] = {}
        """What each cache had received at the last look, by its prefix."""
        self._mappings = weakref.WeakValueDictionary[int, mmap.mmap]()
        """The segments that entries refer to, by the number of the file."""
        self._descriptors = weakref.WeakKeyDictionary[mmap.mmap, int]()
        """The descriptors of those that this worker has published."""
        self._asked_at = float("-inf")

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Look at the caches from time to time until the block ends."""
        if can_share():
            self._look_after(LOOK_SECONDS)
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()
            for task in self._tasks:
                task.cancel()

    def receive(self, descriptor: int) -> None:
        """Use a segment of another worker, and close its descriptor."""
        self._tasks.start(self._receive(descriptor))

    def publish_for_others(self) -> None:
        """Publish, and announce all segments: another worker has asked."""
        self._tasks.start(self._look(announce_all=True))

    def _look_after(self, seconds: float) -> None:
        def look() -> None:
            self._tasks.start(self._look_again())

        self._timer = self._clock.call_later(seconds, look)

    async def _look_again(self) -> None:
        start = self._clock.now()
        await self._look()
        self._look_after(max(LOOK_SECONDS, PAUSE_FACTOR * (self._clock.now() - start)))

    async def _look(self, *, announce_all: bool = False) -> None:
        """Publish what is not shared, or ask for it."""
        async with self._lock:
            entries = self._unchanged_entries()
            used = await self._bytes_used(entries)
            items, size, time_slice = list[Item](), 0, TimeSlice()
            for entry in entries:
                for part, data in _large_parts(entry):
                    size += len(data)
                    # Of a segment that is less than half used, the rest would be wasted.
                    mapping = _mapping_of(data)
                    if mapping is None or 2 * used[mapping] < len(mapping):
                        items.append(Item(entry.path, part, data))
                await time_slice.yield_if_expired()
            unshared = sum(len(item.data) for item in items)
            if unshared >= max(MIN_PUBLISHED_BYTES, size // MIN_PUBLISHED_PART):
                if self._is_publisher:
                    await self._publish(items)
                elif self._clock.now() >= self._asked_at + ASK_SECONDS:
                    self._asked_at = self._clock.now()
                    self._peers.ask()
            if announce_all:
                for descriptor in tuple(self._descriptors.values()):
                    self._peers.announce(descriptor)

    def _unchanged_entries(self) -> list[Entry]:
        """Return the entries of all caches that have not changed since the last look."""
        entries: list[Entry] = []
        last_look, self._revisions = self._revisions, {}
        for cache in self._caches():
            until = last_look.get(cache.prefix, 0)
            entries += (entry for entry in cache.range(cache.prefix) if 0 < entry.revision <= until)
            self._revisions[cache.prefix] = cache.revision
        return entries

    async def _bytes_used(self, entries: Iterable[Entry]) -> Mapping[mmap.mmap, int]:
        """Return how many bytes of each segment entries refer to."""
        used, time_slice = Counter[mmap.mmap](), TimeSlice()
        for entry in entries:
            for _, data in _large_parts(entry):
                mapping = _mapping_of(data)
                if mapping is not None:
                    used[mapping] += len(data)
            await time_slice.yield_if_expired()
        return used

    async def _publish(self, items: list[Item]) -> None:
        """Write items to segments, use them, and announce them."""
        for batch in _batches(items):
            if len(self._mappings) >= MAX_SEGMENTS:
                _log.warning("the objects of %d segments are shared, and no more", MAX_SEGMENTS)
                return
            try:
                mapping = self._write(batch)
            except OSError as error:
                _log.warning("memory cannot be shared with other workers: %s", error)
                return
            await self._use(mapping)
            self._peers.announce(self._descriptors[mapping])

    def _write(self, items: list[Item]) -> mmap.mmap:
        """Write a segment, and keep its descriptor as long as its mapping. Raises OSError."""
        descriptor = write_segment(items)
        try:
            mapping = self._map(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        self._descriptors[mapping] = descriptor
        weakref.finalize(mapping, os.close, descriptor).atexit = False
        return mapping

    def _map(self, descriptor: int) -> mmap.mmap:
        """Return the mapping of a segment; the one that entries refer to if there is one."""
        number = os.fstat(descriptor).st_ino
        mapping = self._mappings.get(number)
        if mapping is None:
            mapping = self._mappings[number] = map_segment(descriptor)
        return mapping

    async def _receive(self, descriptor: int) -> None:
        async with self._lock:
            try:
                mapping = self._map(descriptor)
            except OSError as error:
                _log.warning("memory of another worker cannot be shared: %s", error)
                return
            finally:
                os.close(descriptor)
            await self._use(mapping)

    async def _use(self, mapping: mmap.mmap) -> None:
        """Let the entries that have equal bytes refer to a segment."""
        cache, time_slice = None, TimeSlice()
        for path, part, data in Segment(mapping).items():
            if cache is None or not path.startswith(cache.prefix):
                caches = self._caches()
                cache = next((cache for cache in caches if path.startswith(cache.prefix)), None)
            entry = None if cache is None else cache.get(path)
            if entry is not None:
                entry.share(part, data)
            await time_slice.yield_if_expired()


def _large_parts(entry: Entry) -> Iterator[tuple[Part, Data]]:
    for part, data in entry.parts():
        if len(data) >= MIN_BYTES:
            yield part, data


def _mapping_of(data: Data) -> mmap.mmap | None:
    """Return the segment that has the bytes; None for bytes of this process."""
    return data.mapping if isinstance(data, SharedBytes) else None


def _batches(items: list[Item]) -> Iterator[list[Item]]:
    """Divide items into the contents of segments."""
    batch: list[Item] = []
    size = 0
    for item in items:
        batch.append(item)
        size += len(item.data)
        if size >= SEGMENT_BYTES or len(batch) >= SEGMENT_ITEMS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
