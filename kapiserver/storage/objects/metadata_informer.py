"""The metadata informer: owners, finalizers and deletion of all objects, by one watch of the store.

One watch covers all resources instead of one cache per resource. Controllers that process all
objects (garbage collection, namespace deletion) need no other fields. Knows no controller.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from kapiserver.api.group import Resource
from kapiserver.api.types import Tree
from kapiserver.storage.cache.entry import LARGE_OBJECT_BYTES, ObjectKey
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.concurrency.time_slice import TimeSlice
from kapiserver.storage.errors import Compacted, Corrupt, Unavailable, Undecryptable
from kapiserver.storage.kv.contract import KV, KVEvent, Revision, Watch
from kapiserver.storage.objects.object_reader import ResourceReader

PAGE = 250
"""Keys per page of the initial list."""

_log = logging.getLogger(__name__)


class ObjectMetadata(Struct, frozen=True, kw_only=True):
    """The metadata of one object; `path` is its key in the store."""

    resource: Resource
    path: str
    uid: str
    owners: tuple[Tree, ...] = ()
    finalizers: tuple[str, ...] = ()
    terminating: bool = False

    @property
    def key(self) -> ObjectKey:
        """The namespace and name of the object."""
        return _key_of(self.resource, self.path)


@dataclass(frozen=True)
class DeletedObject:
    """An object that was deleted; its uid is "" if it could not be decoded."""

    resource: Resource
    path: str
    uid: str

    @functools.cached_property
    def key(self) -> ObjectKey:
        """The namespace and name of the object."""
        return _key_of(self.resource, self.path)


def _key_of(resource: Resource, path: str) -> ObjectKey:
    above, _, name = path.rpartition("/")
    return ObjectKey(above.rpartition("/")[2] if resource.namespaced else "", name)


class MetadataHandler(Protocol):
    """Receives the metadata of objects. Must not block and must not raise."""

    def on_reset(self) -> None:
        """Drop all state: `on_upsert` follows for every object."""

    def on_upsert(self, metadata: ObjectMetadata) -> None:
        """An object was listed, created or updated."""

    def on_delete(self, deleted: DeletedObject) -> None:
        """An object was deleted."""


StoreForKey: TypeAlias = Callable[[str], ResourceReader | None]


def _interned(owners: Sequence[Tree]) -> tuple[Tree, ...]:
    """Return the owners as an interned tuple, because many objects have the same owners."""
    if not owners:
        return ()
    if len(owners) > _MAX_INTERNED_OWNERS:
        return tuple(owners)
    return _intern_owners(tuple(tuple(owner.items()) for owner in owners))


_MAX_INTERNED_OWNERS = 4


@functools.lru_cache(maxsize=1024)
def _intern_owners(owners: tuple[tuple[tuple[str, Any], ...], ...]) -> tuple[Tree, ...]:
    return tuple(dict(owner) for owner in owners)


class MetadataInformer:
    """Lists and watches all objects from `start` to `stop`."""

    def __init__(
        self,
        kv: KV,
        prefix: str,
        store_for_key: StoreForKey,
        handler: MetadataHandler,
        offloader: Offloader,
    ) -> None:
        self._kv = kv
        self._prefix = prefix
        self._store_for_key = store_for_key
        self._handler = handler
        self._offloader = offloader
        self._pending: deque[KVEvent] = deque()
        """The first event with a large object, and all later events."""
        self._pump: asyncio.Task[None] | None = None
        self._uids: dict[str, str] = {}
        """The uid of each object by its path; the events of deletions have none."""
        self._watch: Watch | None = None
        self._on_break: Callable[[], None] = lambda: None

    async def start(self, on_break: Callable[[], None]) -> None:
        """List all objects, then watch them. Calls `on_break` if the watch breaks. Raises
        StorageError."""
        self._drop_pending()
        self._uids.clear()
        self._handler.on_reset()
        start = ""
        revision: Revision | None = None
        time_slice = TimeSlice()
        while True:
            page = await self._kv.range(self._prefix, start=start, limit=PAGE, revision=revision)
            revision = page.revision
            for item in page.items:
                await time_slice.yield_if_expired()
                self._upsert(await self._decode_item(item.key, item.value))
            if not page.remaining:
                break
            start = page.items[-1].key + "\0"
        self._on_break = on_break
        self._watch = self._kv.watch(self._prefix, after=revision, sink=self)

    def uid_of(self, path: str) -> str:
        """Return the uid of the object at a path, as far as the informer has received events; ""
        if there is none."""
        return self._uids.get(path, "")

    @property
    def is_current(self) -> bool:
        """Whether the handler has received all changes that the informer has received."""
        return self._pump is None

    async def wait_current(self) -> None:
        """Wait until the handler has received these changes."""
        while self._pump is not None:
            await asyncio.wait([self._pump])

    def stop(self) -> None:
        """Stop listing and watching. Idempotent."""
        self._on_break = lambda: None
        self._drop_pending()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    async def _decode_item(self, path: str, value: bytes) -> ObjectMetadata | None:
        """Return the metadata of an object; a large object is decoded in a thread."""
        store = self._store_of(path)
        if len(value) < LARGE_OBJECT_BYTES:
            return self._decode(store, path, value)
        return await self._offloader.run_in_thread(self._decode, store, path, value)

    def _store_of(self, path: str) -> ResourceReader | None:
        store = self._store_for_key(path)
        return store if store is not None and path.startswith(store.codec.prefix) else None

    def _decode(
        self, store: ResourceReader | None, path: str, value: bytes
    ) -> ObjectMetadata | None:
        if store is None:
            return None
        try:
            fields = store.ownership_metadata(path, value)
        except (Corrupt, Undecryptable) as error:
            _log.warning("ignoring an object that cannot be decoded: %s", error)
            return None
        return ObjectMetadata(
            resource=store.codec.resource,
            path=path,
            uid=fields.get("uid") or "",
            owners=_interned(fields.get("ownerReferences") or ()),
            finalizers=tuple(fields.get("finalizers") or ()),
            terminating=bool(fields.get("deletionTimestamp")),
        )

    # The sink of the watch.

    def on_events(self, batch: Sequence[KVEvent]) -> None:
        """Pass events on to the handler, in order; large objects are decoded in a thread."""
        store: ResourceReader | None = None
        for event in batch:
            if self._pending or (event.value and len(event.value) >= LARGE_OBJECT_BYTES):
                self._pending.append(event)
            elif event.value is not None:
                if store is None or not event.key.startswith(store.codec.prefix):
                    store = self._store_of(event.key)
                self._upsert(self._decode(store, event.key, event.value))
            else:
                self._delete(event)
        if self._pending and self._pump is None:
            # Outside the context of the request whose write is delivered.
            self._pump = asyncio.create_task(self._handle_pending(), context=Context())

    async def _handle_pending(self) -> None:
        time_slice = TimeSlice()
        while self._pending:
            event = self._pending[0]
            if event.value is not None:
                self._upsert(await self._decode_item(event.key, event.value))
            else:
                self._delete(event)
            self._pending.popleft()
            await time_slice.yield_if_expired()
        self._pump = None

    def _drop_pending(self) -> None:
        self._pending.clear()
        if self._pump is not None:
            self._pump.cancel()
            self._pump = None

    def _upsert(self, metadata: ObjectMetadata | None) -> None:
        if metadata is not None:
            self._uids[metadata.path] = metadata.uid
            self._handler.on_upsert(metadata)

    def _delete(self, event: KVEvent) -> None:
        uid = self._uids.pop(event.key, "")
        store = self._store_of(event.key)
        if store is not None:
            self._handler.on_delete(DeletedObject(store.codec.resource, event.key, uid))

    def on_progress(self, revision: Revision) -> None:
        """Ignore progress."""

    def on_closed(self, error: Exception | None) -> None:
        """Report the end of the watch."""
        self._watch = None
        if error is not None:
            if not isinstance(error, Compacted | Unavailable):
                _log.warning("metadata informer: the watch ended: %s", error)
            self._on_break()
