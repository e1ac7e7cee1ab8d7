"""A store whose values are sealed: the seam between the bytes at rest and everything above.

Values are sealed on their way in and opened on their way out, of get, range and watch alike; keys
are as they are. A value that does not open is passed on as it lies there: who wants to read that
one object hears why, and the others are not held up by it. Knows no cipher and no object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kapiserver.storage.encryption import DecryptionError, Transformer
from kapiserver.storage.kv import (
    KV,
    EventSink,
    GetResult,
    KeyValue,
    KVEvent,
    RangeResult,
    Revision,
    Watch,
)


class EncryptedStore(KV):
    """A view of a store for the objects of one resource; closing it is up to who made the store."""

    def __init__(self, kv: KV, transformer: Transformer) -> None:
        self.shared = kv.shared
        self.durable = kv.durable
        self._kv = kv
        self._transformer = transformer

    async def get(self, key: str, *, revision: Revision | None = None) -> GetResult:
        read = await self._kv.get(key, revision=revision)
        if read.item is None:
            return read
        return GetResult(self._item(read.item), read.revision)

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None
    ) -> RangeResult:
        page = await self._kv.range(prefix, start=start, limit=limit, revision=revision)
        return replace(page, items=[self._item(item) for item in page.items])

    async def create(self, key: str, value: bytes, *, ttl: int = 0) -> Revision:
        return await self._kv.create(key, self._transformer.encrypt(value, key), ttl=ttl)

    async def update(self, key: str, value: bytes, *, expected: Revision, ttl: int = 0) -> Revision:
        sealed = self._transformer.encrypt(value, key)
        return await self._kv.update(key, sealed, expected=expected, ttl=ttl)

    async def delete(self, key: str, *, expected: Revision) -> Revision:
        return await self._kv.delete(key, expected=expected)

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        return self._kv.watch(prefix, after=after, sink=_DecryptingSink(sink, self))

    async def current_revision(self) -> Revision:
        return await self._kv.current_revision()

    async def writable(self) -> None:
        await self._kv.writable()

    async def compact(self, revision: Revision) -> None:
        await self._kv.compact(revision)

    async def close(self) -> None:
        pass

    def decrypt_event(self, event: KVEvent) -> KVEvent:
        """The event with its values opened."""
        return replace(
            event,
            value=self._value(event.value, event.key),
            previous=self._value(event.previous, event.key),
        )

    def _item(self, item: KeyValue) -> KeyValue:
        try:
            opened = self._transformer.decrypt(item.value, item.key)
        except DecryptionError:
            return item
        return replace(item, value=opened.value, stale=opened.stale)

    def _value(self, value: bytes | None, key: str) -> bytes | None:
        if value is None:
            return None
        try:
            return self._transformer.decrypt(value, key).value
        except DecryptionError:
            return value


class _DecryptingSink:
    """Opens what a watch shows, for another sink."""

    def __init__(self, sink: EventSink, store: EncryptedStore) -> None:
        self._sink = sink
        self._store = store
        self.on_progress = sink.on_progress
        self.on_closed = sink.on_closed

    def on_events(self, batch: Sequence[KVEvent]) -> None:
        """Changes, their values in the clear."""
        self._sink.on_events([self._store.decrypt_event(event) for event in batch])
