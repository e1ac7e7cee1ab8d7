"""Reads the objects of one resource from its watch cache: get, list, watch.

Knows no HTTP and no write. Mirrors the reading half of
k8s.io/apiserver/pkg/registry/generic/registry/store.go and storage/cacher.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from kapiserver.api.group import Resource
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.storage.clock import Clock
from kapiserver.storage.entry import Encoding, Entry, ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.event_stream import InitialEventsEnd, WatchStart, stream_events
from kapiserver.storage.informer import Informer
from kapiserver.storage.kv import KV
from kapiserver.storage.list_encoder import ListEncoder, ObjectFramer
from kapiserver.storage.lists import ListReader, LoadContinueTokenCodec, check_watch
from kapiserver.storage.object_codec import ObjectCodec
from kapiserver.storage.offload import Offloader
from kapiserver.storage.query import Framer, ListQuery, ListResult, WatchQuery, WatchSink
from kapiserver.storage.watch_backlogs import WatchBacklogs
from kapiserver.storage.watch_cache import WatchCache
from kapiserver.storage.watch_fanout import VisibleEvent, Watcher, WatcherGroup, WatchFanout

MAX_REQUEST_SECONDS = 60.0
"""A retired store is stopped again after this time, when no request uses it any more."""


class IdentifierSource(Protocol):
    """Generates the uids and name suffixes of new objects."""

    def uid(self) -> str:
        """Return a new uid."""

    def suffix(self) -> str:
        """Return a random suffix for metadata.generateName."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreContext:
    """The parts that the stores of all resources share."""

    kv: KV
    scheme: Scheme
    clock: Clock
    identifiers: IdentifierSource
    load_token_codec: LoadContinueTokenCodec
    offloader: Offloader
    watch_backlogs: WatchBacklogs


class CachedResource:
    """The watch cache of one resource and all that reads from it; several stores may share it."""

    __slots__ = ("cache", "codec", "context", "encoder", "fanout", "informer", "lists", "resource")

    def __init__(
        self, resource: Resource, codec: ObjectCodec, encoder: ListEncoder, context: StoreContext
    ) -> None:
        self.resource = resource
        self.codec = codec
        self.encoder = encoder
        self.context = context
        self.cache = WatchCache(context.kv, codec.prefix, codec, context.clock)
        self.lists = ListReader(
            context.kv, codec, self.cache, context.load_token_codec, context.offloader
        )
        self.informer = Informer(self.cache, codec, context.clock, context.offloader)
        self.fanout = WatchFanout(self.cache, context.clock, context.watch_backlogs)


class ResourceReader:
    """Reads the objects of one resource.

    Every method raises errors of `storage/errors.py` (ObjectError, Unavailable, Corrupt), and
    InvalidObject of `api/errors.py` for conflicting options.
    """

    def __init__(self, cached: CachedResource) -> None:
        self.resource = cached.resource
        self.encoder = cached.encoder
        """Encodes entries into response bodies."""
        self._codec = self.codec = cached.codec
        self._kv = cached.context.kv
        self._clock = cached.context.clock
        self._cache = cached.cache
        self._lists = cached.lists
        self.informer = cached.informer
        """Objects and their changes for code in this process."""
        self._fanout = cached.fanout
        self._offloader = cached.context.offloader
        self._retirement: asyncio.Future[None] | None = None

    async def get(self, key: ObjectKey, *, resource_version: str = "") -> Entry:
        """Return one object. Raises NotFound."""
        await self._lists.wait_for_version(resource_version)
        entry = self._cache.get(self._codec.path(key))
        if entry is None:
            raise self._not_found(key.name)
        return entry

    async def list(self, query: ListQuery) -> ListResult:
        """Return a list or one page of it. Raises Expired, ResourceVersionTooLarge, BadQuery."""
        return await self._lists.list(query)

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

    async def events(
        self, query: WatchQuery, *, max_seconds: float | None = None
    ) -> AsyncGenerator[VisibleEvent | InitialEventsEnd, None]:
        """Yield the events of a watch for code in this process, until the cache loses its watch, is
        stopped, or `max_seconds` are over; resume then.

        Raises BadQuery, InvalidObject, ResourceVersionTooLarge, and Expired if the resource version
        is too old.
        """
        start = await self._start_watch(query)
        if start.expired is not None:
            raise start.expired
        stream = stream_events(self._cache, start, query.selection, max_seconds)
        async with aclosing(stream) as events:
            async for event in events:
                yield event

    async def _start_watch(self, query: WatchQuery) -> WatchStart:
        check_watch(query)
        resource_version = query.resource_version
        revision = self._lists.parse_version(resource_version)
        send_initial = query.initial_events
        if send_initial is None:
            send_initial = revision == 0
        if send_initial or not revision:
            await self._lists.wait_for_version(resource_version)
            revision = self._cache.revision
        else:
            await self._cache.wait_ready()
        scope = self._lists.scope(query.namespace, query.selection)
        if revision < self._cache.oldest and not await self._cache.recall_history(revision):
            message = f"too old resource version: {revision} ({self._cache.oldest})"
            return WatchStart(scope, revision, expired=self._lists.expired(message))
        return WatchStart(
            scope,
            revision,
            initial=self._cache.range(scope) if send_initial else None,
            marked=bool(query.initial_events) and query.bookmarks,
        )

    def framer(self, encoding: Encoding, status: Callable[[Exception], Tree]) -> Framer:
        """Return the framer of whole objects (json, protobuf, cbor); `status` converts the error of
        an ERROR event to a Status."""
        return ObjectFramer(self.encoder, encoding, status)

    @property
    def watcher_count(self) -> int:
        """Number of open watches."""
        return self._fanout.count

    @property
    def events_sent(self) -> int:
        """Number of events written to watchers."""
        return self._fanout.events_sent

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
        because a request that still uses this store may fill the cache again."""
        self._retirement = asyncio.ensure_future(self.wait_delivered())
        self._retirement.add_done_callback(lambda _: self.stop())
        self._clock.call_later(MAX_REQUEST_SECONDS, self.stop)

    async def _read(self, path: str) -> Entry | None:
        """Read the current entry from the store; reuse the cached one of the same revision."""
        item = (await self._kv.get(path)).item
        if item is None:
            return None
        cached = self._cache.get(path)
        if cached is not None and cached.revision == item.revision:
            return cached
        return Entry(self._codec, path, item.value, item.revision)

    def _not_found(self, name: str) -> NotFound:
        return NotFound(resource=self.resource.name, group=self.resource.group, name=name)
