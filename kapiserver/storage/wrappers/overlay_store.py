"""A store whose keys are its own rows over base rows that it shares with other stores, copied on
write.

Base rows are in memory and in no row of the store below, so that a thousand stores can have them at
the cost of one. They never change. The first write of a base key creates a row below, which hides
the base row from then on; the deletion of a base key writes TOMBSTONE, because a row that is absent
hides nothing.

    row below        base row    what readers see
    a value          -           the value, at the revision of the row
    TOMBSTONE        -           nothing
    absent           present     the base row, at the revision of all base rows
    absent           absent      nothing

So each write is one write below, with the same comparison of revisions, and a watch below delivers
what changes above. Mirrors overlayfs of Linux, whose whiteouts are these tombstones.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.storage.errors import Conflict, KeyExists
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
from kapiserver.storage.wrappers.wrapped_store import WrappedStore

TOMBSTONE = b"kapiserver:deleted"
"""The value of a row whose base row was deleted; no object is encoded so."""


class BaseRows(Struct, frozen=True):
    """Rows that stores share.

    revision    the revision of all of them; the store below had reached it when they were made
    values      the values by key, in the order of the keys; the keys do not have the root of a
                store, and begin with a slash
    """

    revision: Revision
    values: Mapping[str, bytes]


class OverlayStore(WrappedStore):
    """A view of a store: the rows below a root over base rows. `close` leaves the store open.

    Values that expire cannot take the place of base rows, which would come back. `remaining` of a
    range is exact on its last page; before, it may count base rows twice.
    """

    def __init__(self, kv: KV, base: BaseRows, *, root: str) -> None:
        super().__init__(kv)
        self._base = base
        self._keys = tuple(base.values)
        self._root = root

    async def get(self, key: str, *, revision: Revision | None = None) -> GetResult:
        result = await self._kv.get(key, revision=revision)
        if result.item is None:
            return GetResult(self._base_item(key), result.revision)
        if result.item.value == TOMBSTONE:
            return GetResult(None, result.revision)
        return result

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None
    ) -> RangeResult:
        base = self._base_keys(prefix)
        if not base:
            return await self._kv.range(prefix, start=start, limit=limit, revision=revision)
        while True:
            page = await self._kv.range(prefix, start=start, limit=limit, revision=revision)
            end = page.items[-1].key if page.remaining else None
            after = len(base) if end is None else bisect_right(base, end)
            items = self._merge(page.items, base[bisect_left(base, start) : after])
            if items or end is None:
                break
            start, revision = f"{end}\0", page.revision  # the whole page was deleted base rows
        hidden = len(items) - limit if limit and len(items) > limit else 0
        return RangeResult(
            items[: len(items) - hidden],
            page.revision,
            hidden + page.remaining + len(base) - after,
        )

    def _merge(self, items: Sequence[KeyValue], base: Sequence[str]) -> list[KeyValue]:
        """Return the visible rows, sorted, of rows below and of base keys in the same range."""
        merged = {key: item for key in base if (item := self._base_item(key)) is not None}
        merged |= {item.key: item for item in items}
        return [merged[key] for key in sorted(merged) if merged[key].value != TOMBSTONE]

    async def create(self, key: str, value: bytes, *, ttl: int = 0) -> Revision:
        if self._base_item(key) is None:
            return await self._kv.create(key, value, ttl=ttl)
        row = (await self._kv.get(key)).item
        if row is None or row.value != TOMBSTONE:
            raise KeyExists(key)
        try:
            return await self._kv.update(key, value, expected=row.revision, ttl=ttl)
        except Conflict as error:  # another server has created it at the same time
            raise KeyExists(key) from error

    async def update(self, key: str, value: bytes, *, expected: Revision, ttl: int = 0) -> Revision:
        if self._base_item(key) is None:
            return await self._kv.update(key, value, expected=expected, ttl=ttl)
        return await self._write_over_base(key, value, expected, ttl)

    async def delete(self, key: str, *, expected: Revision) -> Revision:
        if self._base_item(key) is None:
            return await self._kv.delete(key, expected=expected)
        return await self._write_over_base(key, TOMBSTONE, expected, ttl=0)

    async def _write_over_base(
        self, key: str, value: bytes, expected: Revision, ttl: int
    ) -> Revision:
        try:
            if expected == self._base.revision:
                return await self._kv.create(key, value, ttl=ttl)
            return await self._kv.update(key, value, expected=expected, ttl=ttl)
        except (KeyExists, Conflict) as error:
            current = (await self.get(key)).item
            raise Conflict(
                key,
                expected=expected,
                current=None if current is None else current.revision,
                value=None if current is None else current.value,
            ) from error

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        if not self._base_keys(prefix):
            return self._kv.watch(prefix, after=after, sink=sink)
        return self._kv.watch(prefix, after=after, sink=_VisibleEvents(sink))

    async def history(
        self, prefix: str, after: Revision, until: Revision, limit: int, *, previous: bool = False
    ) -> HistoryPage:
        page = await self._kv.history(prefix, after, until, limit, previous=previous)
        if not self._base_keys(prefix):
            return page
        before = self._values_before(page.events) if previous else ()
        return replace(page, events=_visible(page.events, before))

    def _values_before(self, events: Sequence[KVEvent]) -> list[bytes | None]:
        """Return the values that the keys of events had before, with base values."""
        base = (self._base_item(event.key) for event in events)
        return [
            item.value if event.previous is None and item is not None else event.previous
            for event, item in zip(events, base, strict=True)
        ]

    def _base_item(self, key: str) -> KeyValue | None:
        value = self._base.values.get(key.removeprefix(self._root))
        return None if value is None else KeyValue(key, value, self._base.revision)

    def _base_keys(self, prefix: str) -> list[str]:
        """Return the base keys that begin with a prefix, sorted, with the root."""
        root, keys = self._root, self._keys
        key_prefix = prefix.removeprefix(root)
        first = bisect_left(keys, key_prefix)
        matching = []
        for key in keys[first:]:
            if not key.startswith(key_prefix):
                break
            matching.append(root + key)
        return matching


class _VisibleEvents:
    """Passes the events of a watch on as readers see them."""

    def __init__(self, sink: EventSink) -> None:
        self._sink = sink
        self.on_progress = sink.on_progress
        self.on_closed = sink.on_closed

    def on_events(self, batch: Sequence[KVEvent]) -> None:
        """Pass the events on; the sinks know themselves what a key had before."""
        self._sink.on_events(_visible(batch))


def _visible(events: Sequence[KVEvent], before: Sequence[bytes | None] = ()) -> list[KVEvent]:
    """Return events without tombstones, and with the values before them if these are given."""
    values = before or [event.previous for event in events]
    return [
        replace(event, value=_visible_value(event.value), previous=_visible_value(value))
        for event, value in zip(events, values, strict=True)
    ]


def _visible_value(value: bytes | None) -> bytes | None:
    return None if value == TOMBSTONE else value
