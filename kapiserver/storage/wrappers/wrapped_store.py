"""The base class of stores that wrap another store and override some of its methods."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from kapiserver.storage.kv.contract import (
    KV,
    EventSink,
    GetResult,
    HistoryPage,
    RangeResult,
    Revision,
    Watch,
)


class WrappedStore(KV):
    """Passes every call on to another store, except `close`, which leaves that store open."""

    def __init__(self, kv: KV) -> None:
        self.shared = kv.shared
        self.durable = kv.durable
        self._kv = kv

    @property
    def compacted(self) -> Revision:
        return self._kv.compacted

    async def get(self, key: str, *, revision: Revision | None = None) -> GetResult:
        return await self._kv.get(key, revision=revision)

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None
    ) -> RangeResult:
        return await self._kv.range(prefix, start=start, limit=limit, revision=revision)

    async def create(self, key: str, value: bytes, *, ttl: int = 0) -> Revision:
        return await self._kv.create(key, value, ttl=ttl)

    async def update(self, key: str, value: bytes, *, expected: Revision, ttl: int = 0) -> Revision:
        return await self._kv.update(key, value, expected=expected, ttl=ttl)

    async def delete(self, key: str, *, expected: Revision) -> Revision:
        return await self._kv.delete(key, expected=expected)

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        return self._kv.watch(prefix, after=after, sink=sink)

    async def history(
        self, prefix: str, after: Revision, until: Revision, limit: int, *, previous: bool = False
    ) -> HistoryPage:
        return await self._kv.history(prefix, after, until, limit, previous=previous)

    def current_revision(self) -> Coroutine[Any, Any, Revision]:  # each read needs it
        return self._kv.current_revision()

    async def writable(self) -> None:
        await self._kv.writable()

    async def size(self) -> int:
        return await self._kv.size()

    async def compact(self, revision: Revision) -> None:
        await self._kv.compact(revision)

    async def close(self) -> None:
        pass
