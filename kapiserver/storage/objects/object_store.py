"""The store of one resource's objects, for handlers and controllers.

Reads come from the watch cache (`storage/objects/object_reader.py`). A write prepares the object by
`storage/objects/lifecycle.py` and updates the key if its revision is unchanged, else it starts
again, as long as its request lives (guaranteed update). Writers of one key take turns
(`storage/objects/write_turns.py`). Knows no HTTP. Mirrors
k8s.io/apiserver/pkg/registry/generic/registry/store.go.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api.accessors import copy_tree, is_terminating, metadata_of, name_of, namespace_of
from kapiserver.api.errors import APIError, BadObject
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.kind_info import KindInfo
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Tree
from kapiserver.codecs.cost import cost_of_tree
from kapiserver.storage.cache.entry import Entry, ObjectKey, stamp_resource_version
from kapiserver.storage.cache.offload import change_cost
from kapiserver.storage.cache.query import (
    ADMITTED,
    ANY,
    DEFAULT_WRITE,
    Admission,
    Admit,
    DeleteQuery,
    ListQuery,
    Reserve,
    UpdateFunc,
    Validate,
    Write,
    WriteResult,
)
from kapiserver.storage.errors import (
    NO_UNIQUE_NAME,
    TERMINATING,
    AlreadyExists,
    Conflict,
    Corrupt,
    CorruptObject,
    KeyExists,
    NotFound,
    ObjectConflict,
)
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects import lifecycle
from kapiserver.storage.objects.object_reader import CachedResource, ResourceReader

PARALLEL_DELETIONS = 16
"""Concurrent deletions of one deletecollection request."""
COLLECTION_PAGE = 500

_NOT_WRITTEN = Revision(0)
_READABLE = (
    "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: "
    "unsafe deletion is not allowed because the object is decodable from storage"
)


class _Admitted(Struct, frozen=True):
    """An object after mutating admission, not yet prepared by its strategy.

    validate    the validating half of its admission
    cost        the cost of processing the object (`codecs/cost.py`)
    """

    obj: Tree
    validate: Validate
    cost: int


def _admitted(obj: Tree, admission: Admission, cost: int) -> _Admitted:
    if admission.has_changed:
        cost = max(cost, cost_of_tree(obj))
    return _Admitted(obj, admission.validate, cost)


class _Encoded(Struct, frozen=True):
    """An object that is to be written.

    stored  the bytes for the store
    value   the bytes that a read gives: of another version if a webhook converts the objects
    tree    the object; None if a read may give another one
    """

    stored: bytes
    value: bytes
    tree: Tree | None


class ResourceStore(ResourceReader):
    """Reads and writes the objects of one resource.

    Writes raise errors of `storage/errors.py` (ObjectError, Unavailable, Corrupt) and of
    `api/errors.py` (InvalidObject, BadObject).
    """

    def __init__(
        self,
        kind_info: KindInfo,
        cached: CachedResource,
        *,
        ttl: int = 0,
        reserve: Reserve | None = None,
    ) -> None:
        super().__init__(cached)
        self._group = kind_info.resource.group
        self._cached = cached
        self._reserve = reserve
        """Reserves what a kind holds outside of its objects, such as addresses."""
        self._kind_info = kind_info
        self._identifiers = cached.context.identifiers
        self._turns = cached.write_turns
        self._converting = cached.context.converting
        self._ttl = ttl

    def with_strategy(self, kind_info: KindInfo) -> ResourceStore:
        """Return a store of the same objects that writes with the strategy of another resource."""
        return ResourceStore(kind_info, self._cached, ttl=self._ttl, reserve=self._reserve)

    # Creating.

    async def create(
        self, obj: Tree, write: Write = DEFAULT_WRITE, *, namespace: str | None = None
    ) -> WriteResult:
        """Create an object in the namespace of the request; None takes the object's own. The store
        may change `obj`. Raises AlreadyExists."""
        if not self.resource.namespaced:
            lifecycle.ensure_namespace(obj, "")
        elif namespace is not None:
            lifecycle.ensure_namespace(obj, namespace)
        admitted = await self._admit_new(obj, write)
        meta = obj["metadata"]
        generate_name = "" if meta.get("name") else meta.get("generateName") or ""
        if not generate_name:
            return await self._create(admitted, dry_run=write.dry_run)
        cost = admitted.cost
        unnamed = await self._offloader.run(cost, copy_tree, obj)
        for attempt in range(1, lifecycle.NAME_ATTEMPTS + 1):
            if attempt > 1:  # `validate` checks this very tree
                obj.clear()
                obj.update(await self._offloader.run(cost, copy_tree, unnamed))
            self._name(obj, generate_name)
            try:
                return await self._create(admitted, dry_run=write.dry_run)
            except AlreadyExists as error:
                if attempt == lifecycle.NAME_ATTEMPTS:
                    raise self._exists(error.name, NO_UNIQUE_NAME, retry_after=1) from None
        raise AssertionError("unreachable")

    async def _admit_new(self, obj: Tree, write: Write) -> _Admitted:
        """Admit a new object before the server sets uid, creationTimestamp and a generated name.
        Raises BadObject if admission moves it to another namespace."""
        lifecycle.clear_system_metadata(obj)
        namespace = namespace_of(obj)
        admission = ADMITTED if write.admit is None else await write.admit(obj, None)
        lifecycle.ensure_namespace(obj, namespace)
        lifecycle.fill_system_metadata(
            obj, uid=self._identifiers.uid(), now=lifecycle.timestamp(self._clock.now())
        )
        return _admitted(obj, admission, write.cost)

    def _name(self, obj: Tree, generate_name: str) -> None:
        max_length = self._kind_info.strategy().generate_name_max
        meta = metadata_of(obj)
        meta["name"] = lifecycle.generate_name(
            generate_name, self._identifiers.suffix(), max_length=max_length
        )
        reorder_keys(meta, ObjectMeta)

    async def _create(self, admitted: _Admitted, *, dry_run: bool) -> WriteResult:
        if self._reserve is None:
            return await self._create_reserved(admitted, dry_run=dry_run)
        async with self._reserve(admitted.obj, None, dry_run):
            return await self._create_reserved(admitted, dry_run=dry_run)

    async def _create_reserved(self, admitted: _Admitted, *, dry_run: bool) -> WriteResult:
        obj, cost = admitted.obj, admitted.cost
        strategy = self._kind_info.strategy()
        warnings = await self._offloader.run_with_strategy(
            cost, strategy, lifecycle.before_create, obj, self.resource
        )
        await admitted.validate()
        if not dry_run:  # kube-apiserver does not check it in a dry run
            lifecycle.clear_resource_version(obj)
        await self._cache.wait_ready()
        path = self._codec.path(ObjectKey(namespace_of(obj), name_of(obj)))
        # Controllers create what may exist: a read costs less than an encoding and a transaction.
        is_cached = self._converting is None and self._cache.get(path) is not None
        try:
            if dry_run or is_cached:
                await self._must_be_absent(path)
            encoded = await self._encode(cost, obj)
            entry = self._codec.written_entry(path, encoded.value, _NOT_WRITTEN, encoded.tree)
            if not dry_run:
                create = self._kv.create(path, encoded.stored, ttl=self._ttl)
                entry = await self._write(entry, create)
        except KeyExists:
            existing = self._cache.get(path)
            terminating = False
            with contextlib.suppress(Corrupt):  # it exists, readable or not
                terminating = existing is not None and is_terminating(
                    await self._offloader.tree(existing)
                )
            raise self._exists(name_of(obj), TERMINATING if terminating else "") from None
        return WriteResult(entry=entry, outcome="created", warnings=warnings)

    async def _encode(self, cost: int, obj: Tree) -> _Encoded:
        """Encode an object for the store. If its version is not the stored one, the result of the
        write is what a read gives: a conversion may lose fields. Raises ConversionRefused."""
        value = await self._offloader.run(cost, self._codec.stored_value, obj)
        if self._converting is None:
            return _Encoded(value, value, obj)
        converted = await self._converting.round_trip(value)
        tree = obj if converted.value == value else None
        return _Encoded(converted.stored, converted.value, tree)

    async def _must_be_absent(self, path: str) -> None:
        if (await self._kv.get(path)).item is not None:
            raise KeyExists(path)

    # Changing.

    async def update(
        self, key: ObjectKey, change: UpdateFunc, write: Write = DEFAULT_WRITE
    ) -> WriteResult:
        """Update an object with an update function, as etcd3's GuaranteedUpdate. The function is
        called with the current object, and called again after a conflict.

        Raises NotFound, ObjectConflict.
        """
        strategy = self._kind_info.strategy(write.subresource)
        path = self._codec.path(key)
        await self._cache.wait_ready()
        races = write.dry_run or write.conditional
        # The watch cache of a store of this process has every object whose write has ended, and the
        # store refuses to create any other that exists.
        must_read = self._kv.shared or not write.may_create
        with self._turns.turn(path) as turn:
            if not races:
                await turn.take()
            entry = turn.newest(self._cache.get(path))
            is_latest = False
            while True:
                if entry is None and not is_latest and must_read:
                    entry, is_latest = await self._read(path), True
                if entry is None and not write.may_create:
                    raise self._not_found(key.name)
                try:
                    if write.preconditions != ANY:
                        old = None if entry is None else await self._offloader.tree(entry)
                        lifecycle.check_update_preconditions(
                            old, write.preconditions, self.resource, name=key.name, path=path
                        )
                    result = await (
                        self._create_by_update(key, change, write)
                        if entry is None
                        else self._update(entry, change, strategy, write)
                    )
                except (ObjectConflict, APIError):
                    # The cache may be stale: retry with the object in the store.
                    latest = None if is_latest else await self._read(path)
                    if is_latest or (latest and latest.revision) == (entry and entry.revision):
                        raise
                    entry, is_latest = latest, True
                except (Conflict, AlreadyExists) as error:
                    if not races:
                        await turn.take()  # it may have been given up for a webhook
                    entry, is_latest = await self._entry_after(error, path), True
                else:
                    turn.latest = result.entry if result.outcome != "deleted" else None
                    return result

    async def _create_by_update(
        self, key: ObjectKey, change: UpdateFunc, write: Write
    ) -> WriteResult:
        obj = await self._offloader.run(write.cost, change, None)
        metadata_of(obj).pop("resourceVersion", None)
        lifecycle.ensure_namespace(obj, key.namespace)
        admitted = await self._admit_new(obj, write)
        if name_of(obj) != key.name:
            raise BadObject(
                f"the name of the object ({name_of(obj)}) does not match the name on the URL "
                f"({key.name})"
            )
        return await self._create(admitted, dry_run=write.dry_run)

    async def _update(
        self, entry: Entry, change: UpdateFunc, strategy: Strategy, write: Write
    ) -> WriteResult:
        old = await self._offloader.tree(entry)
        cost = change_cost(write.cost, entry)
        new = await self._offloader.apply_change(cost, old, change, reads_only=write.reads_only)
        lifecycle.check_resource_version(new, old, self.resource, strategy)
        admission = ADMITTED if write.admit is None else await write.admit(new, old)
        admitted = _admitted(new, admission, cost)
        if self._reserve is None or write.subresource:
            return await self._update_reserved(entry, old, admitted, strategy, write.dry_run)
        async with self._reserve(new, old, write.dry_run):
            return await self._update_reserved(entry, old, admitted, strategy, write.dry_run)

    async def _update_reserved(
        self, entry: Entry, old: Tree, admitted: _Admitted, strategy: Strategy, dry_run: bool
    ) -> WriteResult:
        new, cost = admitted.obj, admitted.cost
        warnings = await self._offloader.run_with_strategy(
            cost, strategy, lifecycle.before_update, new, old, self.resource
        )
        await admitted.validate()
        if lifecycle.completes_deletion(new, old, strategy):
            value = await self._offloader.run(cost, self._codec.stored_value, new)
            deleted = await self._remove(entry, new, value, dry_run=dry_run)
            return WriteResult(entry=deleted, outcome="deleted", warnings=warnings)
        encoded = await self._encode(cost, new)
        if encoded.value == entry.value and await self._is_unchanged(entry, encoded):
            return WriteResult(entry=entry, outcome="unchanged", warnings=warnings)
        changed = await self._replace(entry, encoded, dry_run=dry_run)
        return WriteResult(entry=changed, outcome="updated", warnings=warnings)

    async def _is_unchanged(self, entry: Entry, encoded: _Encoded) -> bool:
        """Whether the store has this revision and its bytes need no rewrite. Raises Conflict if
        another server updated the object and the cache is behind."""
        if self._converting is None:
            item = (await self._kv.get(entry.path)).item
        else:
            item = await self._converting.stored_item(entry.path)
        if item is None or item.revision != entry.revision:
            if self._converting is not None:  # a conflict has the value that a read gives
                item = (await self._kv.get(entry.path)).item
            current, value = (item.revision, item.value) if item is not None else (None, None)
            raise Conflict(entry.path, expected=entry.revision, current=current, value=value)
        return item.value == encoded.stored and not item.stale

    async def _replace(self, entry: Entry, encoded: _Encoded, *, dry_run: bool) -> Entry:
        path, value, tree = entry.path, encoded.value, encoded.tree
        if dry_run:
            return self._codec.written_entry(path, value, entry.revision, tree)
        changed = self._codec.written_entry(path, value, _NOT_WRITTEN, tree)
        write = self._kv.update(path, encoded.stored, expected=entry.revision, ttl=self._ttl)
        return await self._write(changed, write)

    async def _write(self, entry: Entry, write: Coroutine[object, object, Revision]) -> Entry:
        """Await a write, and return its entry. The watch cache adopts the entry for the event, tree
        included, or for an earlier event of the same bytes that another server wrote."""
        self._cache.expect_write(entry)
        try:
            entry.set_revision(revision := await write)
        finally:
            self._cache.end_write(entry)
        return entry if entry.revision == revision else entry.at_revision(revision)

    # Deleting.

    async def delete(
        self, key: ObjectKey, query: DeleteQuery, *, admit: Admit | None = None
    ) -> WriteResult:
        """Delete an object, or mark it as terminating. Raises NotFound, ObjectConflict."""
        path = self._codec.path(key)
        await self._cache.wait_ready()
        races = query.dry_run or query.preconditions.resource_version is not None
        with self._turns.turn(path) as turn:
            if not races:
                await turn.take()
            entry = turn.newest(self._cache.get(path))
            is_latest = entry is None
            while True:
                if entry is None:
                    entry = await self._read(path)
                if entry is None:
                    raise self._not_found(key.name)
                try:
                    result = await self._delete(entry, query, admit)
                except (ObjectConflict, APIError):
                    latest = None if is_latest else await self._read(path)
                    if is_latest or (latest and latest.revision) == entry.revision:
                        raise
                    entry, is_latest = latest, True
                except Conflict as error:
                    if not races:
                        await turn.take()
                    entry, is_latest = await self._entry_after(error, path), True
                else:
                    turn.latest = result.entry if result.outcome != "deleted" else None
                    return result

    async def _entry_after(self, error: Conflict | AlreadyExists, path: str) -> Entry | None:
        """Return the entry that another writer stored: that of the watch cache if it is as new,
        because it may have its tree."""
        if isinstance(error, AlreadyExists):
            return await self._read(path)
        if error.current is None or error.value is None:
            return None
        cached = self._cache.get(path)
        if cached is not None and cached.revision >= error.current:
            return cached
        return Entry(self._codec, path, error.value, Revision(error.current))

    async def _delete(self, entry: Entry, query: DeleteQuery, admit: Admit | None) -> WriteResult:
        old = await self._offloader.tree(entry)
        lifecycle.check_delete_preconditions(old, query.preconditions, self.resource)
        if admit is not None:
            admission = await admit(None, old)
            await admission.validate()
        strategy = self._kind_info.strategy()
        plan = lifecycle.plan_deletion(old, query, strategy, now=self._clock.now())
        if plan.update is not None:
            encoded = await self._encode(change_cost(0, entry), plan.update)
            if encoded.value != entry.value:
                entry = await self._replace(entry, encoded, dry_run=query.dry_run)
                old = await self._offloader.tree(entry)
        if not plan.remove:
            return WriteResult(entry=entry, outcome="terminating")
        try:
            entry = await self._remove(entry, old, entry.value, dry_run=query.dry_run)
        except Conflict as error:
            # The update may have made a kubelet remove the pod (kubernetes/kubernetes#19403).
            if plan.update is None or error.current is not None:
                raise
        return WriteResult(entry=entry, outcome="deleted")

    async def _remove(self, entry: Entry, last: Tree, value: bytes, *, dry_run: bool) -> Entry:
        """Delete the key and return the last object, at the revision of the deletion."""
        if dry_run:
            return self._codec.written_entry(entry.path, value, entry.revision, last)
        async with self._reserve(None, last, False) if self._reserve else contextlib.nullcontext():
            revision = await self._kv.delete(entry.path, expected=entry.revision)
        tree = stamp_resource_version(last, revision)
        return self._codec.written_entry(entry.path, value, revision, tree)

    async def delete_unreadable(self, key: ObjectKey, *, dry_run: bool = False) -> None:
        """Delete an object that cannot be decrypted or decoded. Raises NotFound, and ObjectConflict
        for an object that can be read."""
        path = self._codec.path(key)
        with self._turns.turn(path) as turn:
            await turn.take()
            while True:
                item = (await self._kv.get(path)).item
                if item is None:
                    raise self._not_found(key.name)
                if await self._is_readable(Entry(self._codec, path, item.value, item.revision)):
                    raise ObjectConflict(
                        _READABLE.format(path),
                        resource=self.resource.name,
                        group=self.resource.group,
                        name=key.name,
                    )
                if dry_run:
                    return
                with contextlib.suppress(Conflict):
                    await self._kv.delete(path, expected=item.revision)
                    turn.latest = None
                    return

    async def delete_collection(
        self, listing: ListQuery, query: DeleteQuery, *, admit: Admit | None = None
    ) -> Sequence[WriteResult]:
        """Delete the objects of a list concurrently; objects deleted meanwhile are left out."""
        paged = listing.limit <= 0
        if paged:
            listing = replace(listing, limit=COLLECTION_PAGE)
        slots = asyncio.Semaphore(PARALLEL_DELETIONS)

        async def delete_entry(entry: Entry) -> WriteResult | None:
            async with slots:
                try:
                    return await self.delete(entry.key, query, admit=admit)
                except NotFound:
                    return None

        results: list[WriteResult] = []
        while True:
            page = await self.list(listing)
            try:
                page_results = await asyncio.gather(*map(delete_entry, page.entries))
            except CorruptObject as error:
                raise await self.corrupt_list(listing, error) from error
            results.extend(result for result in page_results if result is not None)
            if not paged or not page.continue_token:
                return results
            listing = replace(
                listing, continue_token=page.continue_token, resource_version="", match=""
            )

    def _exists(self, name: str, detail: str = "", *, retry_after: int = 0) -> AlreadyExists:
        return AlreadyExists(
            resource=self.resource.name,
            group=self._group,
            name=name,
            detail=detail,
            retry_after=retry_after,
        )
