"""Reading the objects of one resource, out of its cache: get, list, watch.

Knows no HTTP and no rule of writes. Mirrors the reading half of
k8s.io/apiserver/pkg/registry/generic/registry/store.go and storage/cacher.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kapiserver.api.group import Resource
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.storage.clock import Clock
from kapiserver.storage.entry import Entry, Form, ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.informer import Informer
from kapiserver.storage.kv import KV
from kapiserver.storage.list_encoder import FormFramer, ListEncoder
from kapiserver.storage.lists import ListReader, LoadContinueTokenCodec, check_watch
from kapiserver.storage.object_codec import ObjectCodec
from kapiserver.storage.offload import Offloader
from kapiserver.storage.query import Framer, ListQuery, ListResult, WatchQuery, WatchSink
from kapiserver.storage.watch_cache import WatchCache
from kapiserver.storage.watch_fanout import Watcher, WatcherGroup, WatchFanout

MAX_REQUEST_SECONDS = 60.0  # no request holds a store for longer


class IdentifierSource(Protocol):
    """Where uids and the ends of generated names come from."""

    def uid(self) -> str:
        """A new uid."""

    def suffix(self) -> str:
        """The end of a generated name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreContext:
    """What the stores of all resources share."""

    kv: KV
    scheme: Scheme
    clock: Clock
    identifiers: IdentifierSource
    load_continue_tokens: LoadContinueTokenCodec
    offloader: Offloader


class ResourceReader:
    """The objects of one resource, to be read.

    Every method raises errors of `storage/errors.py` (ObjectError, Unavailable, Corrupt), and
    InvalidObject of `api/errors.py` for options that exclude each other.
    """

    def __init__(
        self, resource: Resource, codec: ObjectCodec, encoder: ListEncoder, context: StoreContext
    ) -> None:
        self.resource = resource
        self.encoder = encoder
        """Bodies of answers from entries."""
        self._codec = self.codec = codec
        self._kv = context.kv
        self._clock = context.clock
        self._cache = WatchCache(context.kv, codec.prefix, codec, context.clock)
        self._lists = ListReader(context.kv, codec, self._cache, context.load_continue_tokens)
        self.informer = Informer(self._cache, codec, context.clock)
        """The objects and their changes, for code in this process."""
        self._fanout = WatchFanout(self._cache, context.clock)
        self._retiring: asyncio.Future[None] | None = None

    async def get(self, key: ObjectKey, *, resource_version: str = "") -> Entry:
        """One object. Raises NotFound."""
        await self._lists.wait_for_version(resource_version)
        entry = self._cache.get(self._codec.path(key))
        if entry is None:
            raise self._not_found(key.name)
        return entry

    async def list(self, query: ListQuery) -> ListResult:
        """One page, or all. Raises Expired, ResourceVersionTooLarge, BadQuery."""
        return await self._lists.list(query)

    async def watch(self, query: WatchQuery, sink: WatchSink) -> Watcher:
        """Begin a watch; frames come at once or later, errors after that as an ERROR frame and
        the sink's end. Raises BadQuery, InvalidObject, ResourceVersionTooLarge before the first
        frame. A version that is too old is an ERROR frame, as with kube-apiserver."""
        check_watch(query)
        text = query.resource_version
        revision = self._lists.parse_version(text)
        begins = query.initial_events
        if begins is None:
            begins = revision == 0
        if begins or not revision:
            await self._lists.wait_for_version(text)
            revision = self._cache.revision
        else:
            await self._cache.wait_ready()
        scope = self._lists.scope(query.namespace, query.selection)
        watching = Watcher(
            group=WatcherGroup(scope, query.selection, query.framer),
            framer=query.framer,
            sink=sink,
            sent_revision=revision,
            bookmarks=query.bookmarks,
        )
        if revision < self._cache.oldest and not await self._cache.recall_history(revision):
            message = f"too old resource version: {revision} ({self._cache.oldest})"
            watching.end(self._lists.expired(message))
        else:
            marked = bool(query.initial_events) and query.bookmarks
            initial = self._cache.range(scope) if begins else None
            self._fanout.start(watching, initial, marked=marked)
        return watching

    def framer(self, form: Form, status: Callable[[Exception], Tree]) -> Framer:
        """The ordinary framer of a form (json, protobuf, cbor); `status` makes the Status tree
        of an ERROR event."""
        return FormFramer(self.encoder, form, status)

    @property
    def watcher_count(self) -> int:
        """How many watches are open."""
        return self._fanout.count

    @property
    def events_sent(self) -> int:
        """How many events were written to watchers."""
        return self._fanout.events_sent

    @property
    def cache(self) -> WatchCache:
        """All objects as they are, for who follows them closely."""
        return self._cache

    def stop(self) -> None:
        """End the cache's watch of the store, and all watches with it."""
        self._cache.stop()

    async def wait_delivered(self) -> None:
        """Wait until watches have told what they know."""
        await self._fanout.wait_delivered()

    def retire(self) -> None:
        """The same, when clients have been told what has happened; and once more when the last
        requests that hold this store are over, which may have begun anew."""
        self._retiring = asyncio.ensure_future(self.wait_delivered())
        self._retiring.add_done_callback(lambda _: self.stop())
        self._clock.call_later(MAX_REQUEST_SECONDS, self.stop)

    async def _read(self, path: str) -> Entry | None:
        """The entry as the store has it now."""
        item = (await self._kv.get(path)).item
        if item is None:
            return None
        known = self._cache.get(path)
        if known is not None and known.revision == item.revision:
            return known
        return Entry(self._codec, path, item.value, item.revision)

    def _not_found(self, name: str) -> NotFound:
        return NotFound(resource=self.resource.name, group=self.resource.group, name=name)
