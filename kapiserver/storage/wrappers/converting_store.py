"""A store that converts custom objects between the stored version and the served one.

It is used for custom resources that only a webhook converts, so that the layers above need not
wait for webhooks. Values are converted on get, range, watch, history and conflicts. Writers convert
a value with `round_trip` first: they need both its stored form and the value that a read of it
gives, which may differ from theirs. Revisions do not change. Knows no webhook and no HTTP.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api.accessors import kind_of
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.cost import LARGE, cost_of_tree
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.storage_codec import decode_from_storage, encode_for_storage
from kapiserver.codecs.tree_decoder import decode_tree
from kapiserver.storage.cache.entry import LARGE_OBJECT_BYTES
from kapiserver.storage.cache.offload import Offloader, Result
from kapiserver.storage.encryption.transformers import ENCRYPTED_PREFIX
from kapiserver.storage.errors import Conflict, ConversionRefused
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

Convert: TypeAlias = Callable[[Sequence[Tree], GroupVersion], Awaitable[Sequence[Tree]]]
"""Converts objects to a version, in order. Raises ConversionRefused."""


class RoundTrip(Struct, frozen=True):
    """A value that is to be written: its form in the stored version, and how a read of that form
    returns it."""

    stored: bytes
    value: bytes


class ConvertingStore(WrappedStore):
    """A view of a store for the objects of one resource in one version. `close` leaves the store
    open.

    version   version of the objects that callers read
    stored    version of the objects that callers write
    """

    def __init__(
        self,
        kv: KV,
        codecs: CodecFactory,
        convert: Convert,
        offloader: Offloader,
        *,
        version: GroupVersion,
        stored: GroupVersion,
    ) -> None:
        super().__init__(kv)
        self._offloader = offloader
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

    async def update(self, key: str, value: bytes, *, expected: Revision, ttl: int = 0) -> Revision:
        try:
            return await self._kv.update(key, value, expected=expected, ttl=ttl)
        except Conflict as error:
            await self._convert_conflict(error)
            raise

    async def delete(self, key: str, *, expected: Revision) -> Revision:
        try:
            return await self._kv.delete(key, expected=expected)
        except Conflict as error:
            await self._convert_conflict(error)
            raise

    async def _convert_conflict(self, error: Conflict) -> None:
        """Convert the value of an error as a read does. Raises ConversionRefused."""
        if error.value is not None:
            (error.value,) = await self.convert_values([error.value], self._version)

    async def round_trip(self, value: bytes) -> RoundTrip:
        """Convert a value to the stored version and back. Raises ConversionRefused."""
        if self._stored == self._version:
            return RoundTrip(value, value)
        (stored,) = await self.convert_values([value], self._stored)
        (read,) = await self.convert_values([stored], self._version)
        return RoundTrip(stored, read)

    async def stored_item(self, key: str) -> KeyValue | None:
        """Return a key and its value in the stored form; None if the key is absent."""
        return (await self._kv.get(key)).item

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        converting = OrderedSink(sink, self.convert_events)
        converting.watch = self._kv.watch(prefix, after=after, sink=converting)
        return converting

    async def history(
        self, prefix: str, after: Revision, until: Revision, limit: int, *, previous: bool = False
    ) -> HistoryPage:
        page = await self._kv.history(prefix, after, until, limit, previous=previous)
        return replace(page, events=await self.convert_events(page.events))

    async def convert_values(
        self, values: Sequence[bytes | None], version: GroupVersion
    ) -> list[bytes]:
        """Return the values (None left out) in a version; values that cannot be decoded
        do not change. Raises ConversionRefused.
        """
        result = [value for value in values if value is not None]
        is_large = sum(map(len, result)) >= LARGE_OBJECT_BYTES
        to_convert = await self._run(is_large, self._trees_to_convert, result, version)
        if to_convert:
            trees = await self._convert(list(to_convert.values()), version)
            # A webhook may return much larger objects.
            is_large = is_large or sum(map(cost_of_tree, trees)) >= LARGE
            encoded = await self._run(is_large, self._encode, trees)
            for index, value in zip(to_convert, encoded, strict=True):
                result[index] = value
        return result

    async def _run(self, is_large: bool, work: Callable[..., Result], *args: object) -> Result:
        """Return `work(*args)`, run in a thread if the values are large."""
        if not is_large:
            return work(*args)
        return await self._offloader.run_in_thread(work, *args, limited=False)

    def _trees_to_convert(self, values: Sequence[bytes], version: GroupVersion) -> dict[int, Tree]:
        """Return the values that are not in a version, decoded, by their index."""
        trees = {index: self._decode(value) for index, value in enumerate(values)}
        return {
            index: tree
            for index, tree in trees.items()
            if tree is not None and tree["apiVersion"] != str(version)
        }

    def _encode(self, trees: Sequence[Tree]) -> list[bytes]:
        """Return converted objects as stored values. Raises ConversionRefused."""
        try:
            return [encode_for_storage(self._codecs, self._without_unknown(tree)) for tree in trees]
        except CodecError as error:
            raise ConversionRefused(f"the converted object cannot be stored: {error}") from None

    async def convert_events(self, batch: Sequence[KVEvent]) -> list[KVEvent]:
        """Return the events with their values converted. Raises ConversionRefused."""
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

    def _without_unknown(self, tree: Tree) -> Tree:
        """Return a converted object without the fields that its version does not have. Raises
        CodecError."""
        return decode_tree(self._codecs.scheme.type_of(kind_of(tree)), tree, [])

    def _decode(self, value: bytes) -> Tree | None:
        if value.startswith(ENCRYPTED_PREFIX):
            return None
        try:
            result = decode_from_storage(self._codecs, value)
        except CodecError:
            return None
        self._codecs.scheme.default(result)
        return result
