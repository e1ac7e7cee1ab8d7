"""The store of a virtual resource: a copy in memory of the objects of a source.

`VirtualStore` implements the contract of stores (`storage/kv/contract.py`), so that watch cache,
pages and watches work as for stored objects. It says that it is shared with other writers, as etcd
is: therefore each consistent read asks for the current revision first, which calls the `list` of
the source and writes the differences to the copy. A write calls the source, then writes the copy.

One lock orders all of this. A read that arrives while the source is being listed waits for the next
list, because the objects may have changed after the first one began; all such reads share it.

The revisions of the copy begin at the time in milliseconds, so that resource versions of an earlier
process are too old (410) and not those of other states.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from kapiserver.api import names
from kapiserver.api.accessors import copy_tree, metadata_of, name_of, namespace_of
from kapiserver.api.custom_kinds import CustomKinds
from kapiserver.api.types import Tree
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.storage_codec import decode_from_storage, encode_for_storage
from kapiserver.extension.kinds import DeclaredVersion
from kapiserver.extension.objects import Object
from kapiserver.extension.sources import ObjectSource
from kapiserver.storage.concurrency.clock import Clock, wait
from kapiserver.storage.errors import Conflict, KeyExists, StorageError, Unavailable
from kapiserver.storage.kv.contract import KV, EventSink, Revision, Watch
from kapiserver.storage.wrappers.wrapped_store import WrappedStore

CHUNK = 200
"""Objects that are compared before other requests get a turn."""
_KEPT_METADATA = (
    "uid", "creationTimestamp", "generation", "finalizers", "managedFields", "deletionTimestamp",
    "deletionGracePeriodSeconds",
)  # fmt: skip
"""Metadata that the copy keeps if the source has none."""

_log = logging.getLogger(__name__)


class _Copy(Struct):
    """An object of the copy, as it was written."""

    tree: Tree
    revision: Revision


class Place(Struct, frozen=True, kw_only=True):
    """Where the copies of virtual resources are.

    kv      a store in memory
    root    the prefix of all keys
    """

    kv: KV
    codecs: CodecFactory
    clock: Clock
    root: str


def virtual_stores(kinds: CustomKinds, place: Place) -> dict[tuple[str, str], KV]:
    """Return the stores of virtual resources, by group and plural name."""
    versions = (definition.stored_version for definition in kinds)
    return {
        (version.definition.group, version.definition.plural): VirtualStore(
            place, version, version.declared.source
        )
        for version in versions
        if isinstance(version, DeclaredVersion) and version.declared.source is not None
    }


class VirtualStore(WrappedStore):
    """The objects of one virtual resource, as they are stored in `version`."""

    def __init__(self, place: Place, version: DeclaredVersion, source: ObjectSource[Any]) -> None:
        super().__init__(place.kv)
        self.shared = self.durable = True
        self._version = version
        self._source = source
        self._codecs = place.codecs
        self._clock = place.clock
        self._prefix = f"{place.root}/{version.resource.prefix}/"
        self._copies: dict[str, _Copy] = {}
        self._lock = asyncio.Lock()
        self._next: asyncio.Future[None] | None = None
        """The refresh that has not begun yet; reads that arrive share it."""
        self._refreshed_at = float("-inf")
        self._following: asyncio.Task[None] | None = None

    # Reads.

    async def current_revision(self) -> Revision:
        await self.refresh()
        return await self._kv.current_revision()

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        if self._following is None:
            self._following = asyncio.get_running_loop().create_task(self._follow())
        return self._kv.watch(prefix, after=after, sink=sink)

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._following

    async def refresh(self) -> None:
        """Bring the copy up to date with the source. Raises Unavailable."""
        if self._clock.now() - self._refreshed_at < self._source.max_age_seconds:
            return
        if self._next is None:
            self._next = asyncio.ensure_future(self._refresh())
            self._next.add_done_callback(_mark_retrieved)
        await asyncio.shield(self._next)

    async def _refresh(self) -> None:
        async with self._lock:
            self._next = None
            await self._synchronize()

    # Writes.

    async def create(self, key: str, value: bytes, *, ttl: int = 0) -> Revision:
        async with self._lock:
            await self._synchronize()
            if key in self._copies:
                raise KeyExists(key)
            tree = self._decode(value)
            await self._source.create(self._object(tree))
            return await self._save(key, tree, self._kv.create(key, value, ttl=ttl))

    async def update(self, key: str, value: bytes, *, expected: Revision, ttl: int = 0) -> Revision:
        async with self._lock:
            old = await self._expect(key, expected)
            tree = self._decode(value)
            await self._source.update(self._object(tree), self._object(old))
            written = self._kv.update(key, value, expected=expected, ttl=ttl)
            return await self._save(key, tree, written)

    async def delete(self, key: str, *, expected: Revision) -> Revision:
        async with self._lock:
            old = await self._expect(key, expected)
            await self._source.delete(self._object(old))
            revision = await self._kv.delete(key, expected=expected)
            del self._copies[key]
            return revision

    async def _expect(self, key: str, expected: Revision) -> Tree:
        """Return the object of a key, which is at a revision. Raises Conflict, Unavailable."""
        await self._synchronize()
        copy = self._copies.get(key)
        if copy is None:
            raise Conflict(key, expected=expected, current=None, value=None)
        if copy.revision != expected:
            value = encode_for_storage(self._codecs, copy.tree)
            raise Conflict(key, expected=expected, current=copy.revision, value=value)
        return copy.tree

    async def _save(self, key: str, tree: Tree, write: Awaitable[Revision]) -> Revision:
        revision = await write
        self._copies[key] = _Copy(tree, revision)
        return revision

    def _decode(self, value: bytes) -> Tree:
        return decode_from_storage(self._codecs, value)

    def _object(self, tree: Tree) -> Object:
        return self._version.hub_object(tree)

    # The copy.

    async def _follow(self) -> None:
        """Refresh whenever the source may have changed."""
        while True:
            try:
                async for _ in self._ticks():
                    await self.refresh()
            except StorageError:
                pass  # logged
            except Exception:
                _log.exception("%s: following the source failed; trying again", self._name)
            await wait(self._clock, self._source.poll_seconds)

    def _ticks(self) -> AsyncIterator[None]:
        return self._source.changes() if self._source.has("changes") else self._polls()

    async def _polls(self) -> AsyncIterator[None]:
        while True:
            await wait(self._clock, self._source.poll_seconds)
            yield

    @property
    def _name(self) -> str:
        return self._version.definition.name

    async def _synchronize(self) -> None:
        """Write what differs between the source and the copy to the copy. Raises Unavailable."""
        started = self._clock.now()
        try:
            objects = list(await self._source.list())
        except Exception as error:
            _log.exception("%s: listing the source failed", self._name)
            raise Unavailable(f"{self._name}: the source does not answer: {error}") from error
        deleted_keys = self._copies.keys() - await self._write_changed(objects)
        for key in deleted_keys:
            copy = self._copies.pop(key)
            await self._kv.delete(key, expected=copy.revision)
        self._refreshed_at = started

    async def _write_changed(self, objects: Sequence[Object]) -> set[str]:
        """Write the objects that differ from the copy, and return the keys of all."""
        seen: set[str] = set()
        for start in range(0, len(objects), CHUNK):
            writes = {}
            for obj in objects[start : start + CHUNK]:
                tree = self._tree(obj)
                key = self._key(tree)
                if key is None or key in seen:
                    _log.warning("%s: no valid or unique name: %r", self._name, name_of(tree))
                    continue
                seen.add(key)
                if self._complete(tree, self._copies.get(key)):
                    writes[key] = tree
            await asyncio.gather(*(self._put(key, tree) for key, tree in writes.items()))
            await asyncio.sleep(0)
        return seen

    async def _put(self, key: str, tree: Tree) -> None:
        value, copy = encode_for_storage(self._codecs, tree), self._copies.get(key)
        write = functools.partial(self._kv.create, key, value)
        if copy is not None:
            write = functools.partial(self._kv.update, key, value, expected=copy.revision)
        await self._save(key, tree, write())

    def _tree(self, obj: Object) -> Tree:
        """Return an object as it would be stored."""
        tree = self._version.tree_of(obj)
        metadata_of(tree).pop("resourceVersion", None)
        self._version.default(tree)
        return tree

    def _key(self, tree: Tree) -> str | None:
        """Return the key of an object; None for a name or namespace that is not valid."""
        parts = [name_of(tree)]
        if self._version.definition.namespaced:
            parts.insert(0, namespace_of(tree))
        if any(names.dns1123_subdomain(part) for part in parts):
            return None
        return self._prefix + "/".join(parts)

    def _complete(self, tree: Tree, copy: _Copy | None) -> bool:
        """Set the metadata that the source leaves out. Report whether the object differs from the
        copy."""
        metadata = metadata_of(tree)
        old = metadata_of(copy.tree) if copy is not None else self._new_metadata(tree)
        for name in _KEPT_METADATA:
            if name not in metadata and name in old:
                metadata[name] = copy_tree(old[name])
        if copy is None:
            return True
        if tree == copy.tree:
            return False
        self._version.kind_strategy.count_generation(tree, copy.tree)
        return tree != copy.tree  # the source may have an earlier generation

    def _new_metadata(self, tree: Tree) -> Tree:
        """Return the metadata of an object that the source shows for the first time."""
        text = f"{self._name}/{namespace_of(tree)}/{name_of(tree)}"
        moment = datetime.fromtimestamp(self._clock.now(), UTC)
        return {
            "uid": str(uuid.uuid5(uuid.NAMESPACE_URL, text)),
            "creationTimestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "generation": 1,
        }


def _mark_retrieved(refresh: asyncio.Future[None]) -> None:
    """Keep asyncio from logging the exception of a refresh whose readers were all cancelled."""
    if not refresh.cancelled():
        refresh.exception()
