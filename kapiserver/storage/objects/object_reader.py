"""Reads the objects of one resource from its watch cache: get, list, watch.

Knows no HTTP and no write. Mirrors the reading half of
k8s.io/apiserver/pkg/registry/generic/registry/store.go and storage/cacher.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Protocol

from msgspec import Struct

from kapiserver.api.accessors import metadata_of
from kapiserver.api.group import Resource
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.storage.cache.entry import Encoding, Entry, ObjectKey
from kapiserver.storage.cache.event_stream import InitialEventsEnd, WatchStart, stream_events
from kapiserver.storage.cache.metrics import ListMetrics, WatchMetrics
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.cache.query import Framer, ListQuery, ListResult, WatchQuery, WatchSink
from kapiserver.storage.cache.value_index import ValueIndex
from kapiserver.storage.cache.visible_events import VisibleEvent
from kapiserver.storage.cache.watch_backlogs import WatchBacklogs
from kapiserver.storage.cache.watch_cache import WatchCache
from kapiserver.storage.cache.watch_fanout import Watcher, WatcherGroup, WatchFanout
from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.errors import Corrupt, CorruptList, CorruptObject, NotFound
from kapiserver.storage.kv.contract import KV
from kapiserver.storage.objects.informer import Informer
from kapiserver.storage.objects.list_encoder import ListEncoder, ObjectFramer
from kapiserver.storage.objects.lists import ListReader, LoadContinueTokenCodec, check_watch
from kapiserver.storage.objects.object_codec import ObjectCodec
from kapiserver.storage.objects.write_turns import WriteTurns
from kapiserver.storage.wrappers.converting_store import ConvertingStore

MAX_REQUEST_SECONDS = 60.0
"""A retired store is stopped again after this time, when no request uses it any more."""


class IdentifierSource(Protocol):
    """Generates the uids and name suffixes of new objects.

    rng     chooses among free addresses and ports
    """

    rng: random.Random

    def uid(self) -> str:
        """Return a new uid."""

    def suffix(self) -> str:
        """Return a random suffix for metadata.generateName."""


class StoreContext(Struct, frozen=True, kw_only=True):
    """The parts that the stores of all resources share.

    converting  the store `kv` itself if it converts the objects of this resource, else None
    workers     the processes that share the clients of this server
    """

    kv: KV
    scheme: Scheme
    clock: Clock
    identifiers: IdentifierSource
    load_token_codec: LoadContinueTokenCodec
    offloader: Offloader
    watch_backlogs: WatchBacklogs
    converting: ConvertingStore | None = None
    workers: int = 1


class CachedResource:
    """The watch cache of one resource, all that reads from it, and the turns of its writers.

    Several stores may share it.
    """

    __slots__ = (
        "cache",
        "codec",
        "context",
        "encoder",
        "fanout",
        "index",
        "informer",
        "lists",
        "resource",
        "write_turns",
    )

    def __init__(
        self, resource: Resource, codec: ObjectCodec, encoder: ListEncoder, context: StoreContext
    ) -> None:
        self.resource = resource
        self.codec = codec
        self.encoder = encoder
        self.context = context
        self.cache = WatchCache(context.kv, codec.prefix, codec, context.clock)
        self.index = ValueIndex(self.cache, context.clock)
        self.write_turns = WriteTurns()
        self.lists = ListReader(
            context.kv, codec, self.cache, self.index, context.load_token_codec, context.offloader
        )
        self.informer = Informer(self.cache, codec, context.clock, context.offloader)
        self.fanout = WatchFanout(
            self.cache, context.clock, context.watch_backlogs, workers=context.workers
        )


class ResourceReader:
    """Reads the objects of one resource.

    Every method raises errors of `storage/errors.py` (ObjectError, Unavailable, Corrupt), and
    InvalidObject of `api/errors.py` for conflicting options.
    """

    def __init__(self, cached: CachedResource) -> None:
        self.resource = cached.resource
        self._group = cached.resource.group
        """The group in messages."""
        self.encoder = cached.encoder
        """Encodes entries into response bodies."""
        self._codec = self.codec = cached.codec
        self._kv = cached.context.kv
        self._clock = cached.context.clock
        self._cache = cached.cache
        self._index = cached.index
        self._lists = cached.lists
        self.informer = cached.informer
        """Informs code in this process of objects and their changes."""
        self._fanout = cached.fanout
        self._offloader = cached.context.offloader
        self._retirement: asyncio.Future[None] | None = None

    async def get(self, key: ObjectKey, *, resource_version: str = "") -> Entry:
        """Return one object. Raises NotFound."""
        if resource_version:
            await self._lists.wait_for_version(resource_version)
        else:
            await self._cache.wait_fresh()
        entry = self._cache.get(self._codec.path(key))
        if entry is None:
            raise self._not_found(key.name)
        return entry

    async def get_cached_first(self, key: ObjectKey) -> Entry:
        """Return one object from the watch cache, or from the store if the cache lacks it: another
        server may have created it just now. Raises NotFound."""
        try:
            return await self.get(key, resource_version="0")
        except NotFound:
            return await self.get(key)

    def cached_entry(self, key: ObjectKey) -> Entry | None:
        """Return one object as the watch cache has it, perhaps older than the store's; None if the
        cache lacks it or is not filled."""
        return self._cache.get(self._codec.path(key)) if self._cache.is_filled else None

    @property
    def is_cached_empty(self) -> bool:
        """Whether the watch cache is filled and has no object."""
        return self._cache.is_filled and not self._cache.count

    def ownership_metadata(self, path: str, value: bytes) -> Tree:
        """Return metadata with uid, owners, finalizers and deletion of a stored value. Decodes only
        these unless the whole tree is cached. Raises Unreadable, Undecryptable."""
        tree = self._cache.cached_tree(path, value)
        if tree is not None:
            return metadata_of(tree)
        return self._codec.ownership_metadata(path, value)

    async def list(self, query: ListQuery) -> ListResult:
        """Return a list or one page of it. Raises Expired, ResourceVersionTooLarge, BadQuery."""
        return await self._lists.list(query)

    async def corrupt_list(self, query: ListQuery, error: CorruptObject) -> CorruptList:
        """Return the error for a list with objects that cannot be read, of which `error` is one."""
        return await self._lists.corrupt_list(query, error)

    async def cached_entries(self, namespace: str = "") -> Sequence[Entry]:
        """Return the objects of a namespace ("" for all) as the watch cache has them, perhaps
        older than the store's. Raises Unavailable, Undecryptable."""
        return await self._lists.cached_entries(namespace)

    async def watch(self, query: WatchQuery, framer: Framer, sink: WatchSink) -> Watcher:
        """Start a watch that writes frames to the sink.

        Raises BadQuery, InvalidObject, ResourceVersionTooLarge before the first frame. A resource
        version that is too old, and every later error, ends the stream with an ERROR frame, as
        with kube-apiserver.
        """
        start = await self._start_watch(query)
        group = WatcherGroup(
            start.scope, query.selection, framer, self._offloader, self._fanout.large_frames
        )
        watcher = Watcher(
            group=group,
            framer=framer,
            sink=sink,
            sent_revision=start.revision,
            bookmarks=query.bookmarks,
        )
        if start.expired is not None:
            watcher.end(start.expired)
        else:
            self._fanout.start(watcher, start.initial, marked=start.marked)
        return watcher

    def write_last_bookmark(self, watcher: Watcher) -> None:
        """Write a bookmark to a watcher whose stream ends; see WatchFanout.write_last_bookmark."""
        self._fanout.write_last_bookmark(watcher)

    async def events(
        self, query: WatchQuery, *, max_seconds: float | None = None
    ) -> AsyncGenerator[VisibleEvent | InitialEventsEnd, None]:
        """Yield the events of a watch for code in this process, until the cache loses its watch, is
        stopped, or `max_seconds` are over. The caller may resume then.

        Raises BadQuery, InvalidObject, ResourceVersionTooLarge, and Expired if the resource version
        is too old.
        """
        start = await self._start_watch(query)
        if start.expired is not None:
            try:
                raise start.expired
            finally:
                del start  # the error refers to this frame: that would be a cycle
        stream = stream_events(self._cache, start, query.selection, max_seconds)
        async with aclosing(stream) as events:
            async for event in events:
                yield event

    async def _start_watch(self, query: WatchQuery) -> WatchStart:
        check_watch(query)
        resource_version = query.resource_version
        revision = self._lists.parse_version(resource_version, context="")
        send_initial = query.initial_events
        if send_initial is None:
            send_initial = revision == 0
        scope = self._lists.scope(query.namespace, query.selection)
        if send_initial:
            await self._index.prepare(query.selection, scope)
        if send_initial or not revision:
            await self._lists.wait_for_version(resource_version)
            revision = self._cache.revision
        else:
            await self._cache.wait_ready()
        if revision < self._cache.oldest and not await self._cache.recall_history(revision):
            message = f"too old resource version: {revision} ({self._cache.oldest})"
            return WatchStart(scope, revision, expired=self._lists.expired_error(message))
        return WatchStart(
            scope,
            revision,
            initial=self._index.entries(query.selection, scope) if send_initial else None,
            marked=bool(query.initial_events) and query.bookmarks,
        )

    def framer(self, encoding: Encoding, status: Callable[[Exception], Tree]) -> Framer:
        """Return the framer of whole objects (json, protobuf, cbor); `status` converts the error of
        an ERROR event to a Status."""
        return ObjectFramer(self.encoder, encoding, status)

    @property
    def watch_metrics(self) -> WatchMetrics:
        """The numbers of all watches."""
        return self._fanout.metrics

    @property
    def list_metrics(self) -> Mapping[str, ListMetrics]:
        """The numbers of lists, by storage: "watchcache" or "etcd"."""
        return self._lists.metrics

    @property
    def cache(self) -> WatchCache:
        """The watch cache of the resource."""
        return self._cache

    def stop(self) -> None:
        """Stop the watch cache, and with it all watches."""
        self._cache.stop()

    async def wait_delivered(self) -> None:
        """Wait until all received events were delivered to the watchers."""
        await self._fanout.wait_delivered()

    def retire(self) -> None:
        """Stop when all received events were delivered, and again after MAX_REQUEST_SECONDS,
        because a request that still uses this store may fill the cache again. Then the cache and
        its watchers no longer refer to each other: that cycle would stay in memory."""
        self._retirement = asyncio.ensure_future(self.wait_delivered())
        self._retirement.add_done_callback(lambda _: self.stop())
        self._clock.call_later(MAX_REQUEST_SECONDS, self.close)

    def close(self) -> None:
        """Stop, and deliver nothing to watchers any more."""
        self.stop()
        self._fanout.stop()

    async def _read(self, path: str) -> Entry | None:
        """Read the current entry from the store; reuse the cached one of the same revision."""
        item = (await self._kv.get(path)).item
        if item is None:
            return None
        cached = self._cache.get(path)
        if cached is not None and cached.revision == item.revision:
            return cached
        return Entry(self._codec, path, item.value, item.revision)

    async def _is_readable(self, entry: Entry) -> bool:
        """Return whether an entry can be decrypted and decoded."""
        try:
            await self._offloader.tree(entry)
        except Corrupt:
            return False
        return True

    def _not_found(self, name: str) -> NotFound:
        return NotFound(resource=self.resource.name, group=self._group, name=name)
