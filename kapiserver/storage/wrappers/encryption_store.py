"""A store that encrypts values at rest.

Values are encrypted on writes and decrypted on get, range, watch and conflicts; keys are not
encrypted. A read waits for the keys that a KMS plugin has to decrypt first. A value that cannot be
decrypted is passed on as stored: decoding it reports the error, and other objects are not affected.
Knows no cipher and no object.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kapiserver.storage.encryption.transformers import DecryptionError, Transformer
from kapiserver.storage.errors import Conflict
from kapiserver.storage.kv.contract import (
    KV,
    EventSink,
    GetResult,
    HistoryPage,
    KeyValue,
    KVEvent,
    RangeResult,
    Revision,
    Watch,
)
from kapiserver.storage.wrappers.ordered_sink import OrderedSink
from kapiserver.storage.wrappers.wrapped_store import WrappedStore


class EncryptedStore(WrappedStore):
    """A view of a store for the objects of one resource. `close` leaves the store open."""

    def __init__(self, kv: KV, transformer: Transformer) -> None:
        super().__init__(kv)
        self._transformer = transformer

    async def get(self, key: str, *, revision: Revision | None = None) -> GetResult:
        read = await self._kv.get(key, revision=revision)
        if read.item is None:
            return read
        await self._load_keys([read.item.value])
        return GetResult(self._item(read.item), read.revision)

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None
    ) -> RangeResult:
        page = await self._kv.range(prefix, start=start, limit=limit, revision=revision)
        await self._load_keys([item.value for item in page.items])
        return replace(page, items=[self._item(item) for item in page.items])

    async def create(self, key: str, value: bytes, *, ttl: int = 0) -> Revision:
        return await self._kv.create(key, self._transformer.encrypt(value, key), ttl=ttl)

    async def update(self, key: str, value: bytes, *, expected: Revision, ttl: int = 0) -> Revision:
        encrypted = self._transformer.encrypt(value, key)
        try:
            return await self._kv.update(key, encrypted, expected=expected, ttl=ttl)
        except Conflict as error:
            await self._decrypt_conflict(error, key)
            raise

    async def delete(self, key: str, *, expected: Revision) -> Revision:
        try:
            return await self._kv.delete(key, expected=expected)
        except Conflict as error:
            await self._decrypt_conflict(error, key)
            raise

    async def _decrypt_conflict(self, error: Conflict, key: str) -> None:
        if error.value is not None:
            await self._load_keys([error.value])
            error.value = self._value(error.value, key)

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        decrypting = _DecryptingSink(sink, self)
        decrypting.watch = self._kv.watch(prefix, after=after, sink=decrypting)
        return decrypting

    async def history(
        self, prefix: str, after: Revision, until: Revision, limit: int, *, previous: bool = False
    ) -> HistoryPage:
        page = await self._kv.history(prefix, after, until, limit, previous=previous)
        return replace(page, events=await self.load_and_decrypt(page.events))

    async def load_and_decrypt(self, events: Sequence[KVEvent]) -> Sequence[KVEvent]:
        """Return the events with their values decrypted, and wait for their keys."""
        await self._load_keys(_values(events))
        return [self.decrypt_event(event) for event in events]

    def needs_keys(self, events: Sequence[KVEvent]) -> bool:
        """Return whether keys of the events are not in memory."""
        return self._transformer.needs_keys(_values(events))

    async def _load_keys(self, values: Sequence[bytes]) -> None:
        if self._transformer.needs_keys(values):
            await self._transformer.load_keys(values)

    def decrypt_event(self, event: KVEvent) -> KVEvent:
        """Return the event with its values decrypted."""
        return replace(
            event,
            value=self._value(event.value, event.key),
            previous=self._value(event.previous, event.key),
        )

    def _item(self, item: KeyValue) -> KeyValue:
        try:
            decrypted = self._transformer.decrypt(item.value, item.key)
        except DecryptionError:
            return item
        return replace(item, value=decrypted.value, stale=decrypted.stale)

    def _value(self, value: bytes | None, key: str) -> bytes | None:
        if value is None:
            return None
        try:
            return self._transformer.decrypt(value, key).value
        except DecryptionError:
            return value


def _values(events: Sequence[KVEvent]) -> list[bytes]:
    return [
        value for event in events for value in (event.value, event.previous) if value is not None
    ]


class _DecryptingSink(OrderedSink):
    """Decrypts the events of a watch for another sink: at once if their keys are in memory."""

    def __init__(self, sink: EventSink, store: EncryptedStore) -> None:
        super().__init__(sink, store.load_and_decrypt)
        self._store = store

    def on_events(self, batch: Sequence[KVEvent]) -> None:
        """Pass on events with decrypted values."""
        if self.is_waiting or self._store.needs_keys(batch):
            super().on_events(batch)
        else:
            self._sink.on_events([self._store.decrypt_event(event) for event in batch])

    def on_progress(self, revision: Revision) -> None:
        """Pass progress on, after events that wait for keys."""
        if self.is_waiting:
            super().on_progress(revision)
        else:
            self._sink.on_progress(revision)
