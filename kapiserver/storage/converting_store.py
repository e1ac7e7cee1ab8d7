"""A store whose objects are in one version: what lies there in another is converted on the way.

Between the bytes and a custom resource that only a webhook converts: asking it takes a while, which
nothing above this seam has to know. Values are converted on their way out, of get, range and watch
alike, and into the stored version on their way in; revisions stay. Knows no webhook and no HTTP.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.storage_codec import decode_from_storage, encode_for_storage
from kapiserver.storage.encryption import ENCRYPTED_PREFIX
from kapiserver.storage.errors import ConversionRefused, StorageError, Unavailable
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

MAX_PENDING_EVENTS = 10_000
"""Changes that may wait for their conversion before a watch is given up."""

Convert: TypeAlias = Callable[[Sequence[Tree], GroupVersion], Awaitable[Sequence[Tree]]]
"""The objects in that version, in order. Raises ConversionRefused."""


class ConvertingStore(KV):
    """A view of a store for the objects of one resource in one version; closing it is up to who
    made the store.

    version   the objects' above this seam
    stored    below it, of what is written
    """

    def __init__(
        self,
        kv: KV,
        codecs: CodecFactory,
        convert: Convert,
        *,
        version: GroupVersion,
        stored: GroupVersion,
    ) -> None:
        self.shared = kv.shared
        self.durable = kv.durable
        self._kv = kv
        self._codecs = codecs
        self._convert = convert
        self._version = version
        self._stored = stored

    async def get(self, key: str, *, revision: Revision | None = None) -> GetResult:
        read = await self._kv.get(key, revision=revision)
        if read.item is None:
            return read
        (item,) = await self._items([read.item])
        return GetResult(item, read.revision)

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None
    ) -> RangeResult:
        page = await self._kv.range(prefix, start=start, limit=limit, revision=revision)
        return replace(page, items=await self._items(page.items))

    async def create(self, key: str, value: bytes, *, ttl: int = 0) -> Revision:
        return await self._kv.create(key, await self._to_stored(value), ttl=ttl)

    async def update(self, key: str, value: bytes, *, expected: Revision, ttl: int = 0) -> Revision:
        stored = await self._to_stored(value)
        return await self._kv.update(key, stored, expected=expected, ttl=ttl)

    async def delete(self, key: str, *, expected: Revision) -> Revision:
        return await self._kv.delete(key, expected=expected)

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        converting = _ConvertingSink(sink, self)
        converting.watch = self._kv.watch(prefix, after=after, sink=converting)
        return converting

    async def current_revision(self) -> Revision:
        return await self._kv.current_revision()

    async def writable(self) -> None:
        await self._kv.writable()

    async def compact(self, revision: Revision) -> None:
        await self._kv.compact(revision)

    async def close(self) -> None:
        pass

    async def convert_values(
        self, values: Sequence[bytes | None], version: GroupVersion
    ) -> list[bytes]:
        """The values that are there, in a version; what cannot be read stays as it is.

        Raises ConversionRefused.
        """
        found = [value for value in values if value is not None]
        other: dict[int, Tree] = {}
        for index, value in enumerate(found):
            tree = self._read(value)
            if tree is not None and tree["apiVersion"] != str(version):
                other[index] = tree
        if other:
            trees = await self._convert(list(other.values()), version)
            try:
                for index, tree in zip(other, trees, strict=True):
                    found[index] = encode_for_storage(self._codecs, tree)
            except CodecError as error:
                raise ConversionRefused(f"the converted object cannot be stored: {error}") from None
        return found

    async def convert_events(self, batch: Sequence[KVEvent]) -> list[KVEvent]:
        """The changes with their values converted. Raises ConversionRefused."""
        pairs = [(event.value, event.previous) for event in batch]
        values = iter(await self.convert_values([v for pair in pairs for v in pair], self._version))
        return [
            replace(
                event,
                value=None if event.value is None else next(values),
                previous=None if event.previous is None else next(values),
            )
            for event in batch
        ]

    async def _items(self, items: Sequence[KeyValue]) -> list[KeyValue]:
        values = await self.convert_values([item.value for item in items], self._version)
        return [replace(item, value=value) for item, value in zip(items, values, strict=True)]

    async def _to_stored(self, value: bytes) -> bytes:
        (stored,) = await self.convert_values([value], self._stored)
        return stored

    def _read(self, value: bytes) -> Tree | None:
        if value.startswith(ENCRYPTED_PREFIX):
            return None
        try:
            found = decode_from_storage(self._codecs, value)
        except CodecError:
            return None
        self._codecs.scheme.default(found)
        return found


@dataclass(frozen=True, slots=True)
class _Progress:
    revision: Revision


class _ConvertingSink:
    """Converts what a watch shows, for another sink, in order; the watch that is handed out."""

    def __init__(self, sink: EventSink, store: ConvertingStore) -> None:
        self.watch: Watch | None = None
        self._sink = sink
        self._store = store
        self._pending: deque[Sequence[KVEvent] | _Progress] = deque()
        self._task: asyncio.Task[None] | None = None
        self._over = False

    # What the store below says.

    def on_events(self, batch: Sequence[KVEvent]) -> None:
        self._put(batch)

    def on_progress(self, revision: Revision) -> None:
        self._put(_Progress(revision))

    def on_closed(self, error: Exception | None) -> None:
        if not self._over:
            self._over = True
            self._pending.clear()
            if self._task is not None:
                self._task.cancel()
            self._sink.on_closed(error)

    # What the one above asks.

    def cancel(self) -> None:
        """End it."""
        if self.watch is not None:
            self.watch.cancel()
        self.on_closed(None)

    def request_progress(self) -> None:
        """Ask for a `progress` call soon."""
        if self.watch is not None:
            self.watch.request_progress()

    def _put(self, what: Sequence[KVEvent] | _Progress) -> None:
        if self._over:
            return
        self._pending.append(what)
        if len(self._pending) > MAX_PENDING_EVENTS:
            self._give_up(Unavailable("objects change faster than they are converted"))
        elif self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._pending:
                what = self._pending.popleft()
                if isinstance(what, _Progress):
                    self._sink.on_progress(what.revision)
                else:
                    self._sink.on_events(await self._store.convert_events(what))
        except StorageError as error:
            self._give_up(error)
        finally:
            self._task = None

    def _give_up(self, error: StorageError) -> None:
        self._task = None
        self.on_closed(error)
        if self.watch is not None:
            self.watch.cancel()
