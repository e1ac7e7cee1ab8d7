"""Delete dependents with their owners: background, foreground and orphan deletion.

The metadata informer delivers the owners of every object, and `OwnerGraph` says which objects to
reconcile because of a change. Before the collector writes, it reads the object from the store.
Mirrors pkg/controller/garbagecollector of Kubernetes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from kapiserver.api.accessors import finalizers_of, is_terminating, metadata_of, uid_of
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion, Resource
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.aggregation.aggregated_resources import AggregatedKind
from kapiserver.controllers.deletion.aggregated_objects import AggregatedObjects, path_of
from kapiserver.controllers.deletion.owner_graph import OwnerGraph
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import UPDATE_ATTEMPTS
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.concurrency.time_slice import TimeSlice
from kapiserver.storage.errors import NotFound
from kapiserver.storage.objects.lifecycle import FOREGROUND, ORPHAN
from kapiserver.storage.objects.metadata_informer import DeletedObject, ObjectMetadata
from kapiserver.storage.objects.object_store import ResourceStore

_ChangeOwners: TypeAlias = Callable[[list[Tree]], list[Tree]]

_log = logging.getLogger(__name__)


class _OwnersByState(Struct):
    """The uids of one object's owners, by their state."""

    solid: list[str]
    absent: list[str]
    waiting: list[str]


class GarbageCollector(Controller[str]):
    """The control loop; its queue holds paths of objects."""

    workers = 20

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._metadata = context.metadata
        self._recorder = EventRecorder(context, context.name)
        self._unresolved: dict[str, None] = {}
        """Paths of objects with an owner whose kind was unknown at the last reconcile."""
        self._graph = OwnerGraph()
        self._aggregated = AggregatedObjects(context, self, self._graph, self._on_kinds_changed)

    def set_up(self) -> None:
        """Subscribe to the metadata of all objects, and to definitions."""
        custom_resources = self.server.custom_resources
        self.add_subscription(custom_resources.subscribe(self._on_kinds_changed))
        self.add_subscription(self._metadata.subscribe(self))
        self.add_subscription(self._aggregated.start())

    async def stop(self) -> None:
        """Stop, and end the watches of extension API servers."""
        await self._aggregated.stop()
        del self._aggregated  # it has this object as its handler
        await super().stop()

    def _on_kinds_changed(self, _names: Sequence[str] = ()) -> None:
        """Reconcile objects whose owner may be of a kind that is served now."""
        unknown, self._unresolved = self._unresolved, {}
        for path in unknown:
            self.queue.add(path)

    # The handler of the metadata informer.

    def on_reset(self) -> None:
        """Forget everything: all present objects follow."""
        self.queue.clear()
        self._unresolved.clear()
        self._graph.clear()
        self._aggregated.deliver_again()

    def on_upsert(self, observed: ObjectMetadata) -> None:
        """An object was created or changed."""
        for path in self._graph.upsert(observed):
            self.queue.add(path)

    def on_delete(self, deleted: DeletedObject) -> None:
        """An object was deleted."""
        for path in self._graph.delete(deleted):
            self.queue.add(path)

    # Reconciling one object.

    async def reconcile(self, path: str) -> None:
        """Carry out what the owners and the dependents of an object ask for."""
        await self._metadata.wait_listed()  # an object may be listed before its owners
        observed = self._graph.get(path)
        if observed is None or await self._has_observed_owners(observed):
            return
        obj = await self._read(observed.resource, observed.key)
        if obj is None or uid_of(obj) != observed.uid:
            return
        if is_terminating(obj):
            await self._process_dependents(observed, obj)
        elif metadata_of(obj).get("ownerReferences"):
            await self._process_owners(observed, obj)

    async def _has_observed_owners(self, observed: ObjectMetadata) -> bool:
        """Whether the informer has observed each owner, and none waits for its dependents. The
        object need not be read then: a later event of an owner queues it again."""
        if observed.terminating:
            return False
        time_slice = TimeSlice()
        for reference in observed.owners:
            await time_slice.yield_if_expired()
            uid = reference.get("uid")
            try:
                resource = self._resource_of(reference)
                key = _key_of_owner(observed, reference, resource)
            except (NotRegistered, ValueError, _ClusterScopedDependent):
                return False
            if not uid or self._observed_uid(resource, key) != uid:
                return False
            if self._graph.is_waiting(uid):
                return False
        return True

    async def _process_dependents(self, observed: ObjectMetadata, obj: Tree) -> None:
        """Carry out the deletion policy of a terminating owner for its dependents."""
        finalizers = finalizers_of(obj)
        if ORPHAN in finalizers:
            for path in self._graph.dependents(observed.uid):
                await self._remove_owners(path, [observed.uid])
            await self._drop_finalizer(observed, ORPHAN)
        elif FOREGROUND in finalizers:
            if not self._graph.has_blocking_dependents(observed.uid):
                await self._drop_finalizer(observed, FOREGROUND)
                return
            for path in self._graph.take_blocking_dependents(observed.uid):
                self.queue.add(path)

    async def _process_owners(self, observed: ObjectMetadata, obj: Tree) -> None:
        """Keep the object, remove references to absent owners, or delete it."""
        owners = await self._classify_owners(observed, obj)
        if owners is None:
            return
        if owners.solid:
            if owners.absent or owners.waiting:
                await self._remove_owners(observed.path, [*owners.absent, *owners.waiting])
            return
        if owners.waiting and self._graph.has_dependents(observed.uid):
            await self._unblock_cycle(observed)
            policy = "Foreground"
        elif ORPHAN in finalizers_of(obj):
            policy = "Orphan"
        else:
            policy = "Foreground" if FOREGROUND in finalizers_of(obj) else "Background"
        await self._delete(observed, policy, metadata_of(obj).get("resourceVersion") or "")

    async def _unblock_cycle(self, observed: ObjectMetadata) -> None:
        """Break a cycle of foreground deletions: make none of the object's owners wait for it."""
        if self._graph.has_waiting_dependents(observed.uid):
            await self._change_owners(
                observed.path,
                lambda owners: [{**item, "blockOwnerDeletion": False} for item in owners],
            )

    async def _classify_owners(self, observed: ObjectMetadata, obj: Tree) -> _OwnersByState | None:
        """Return the owners by state, or None if one cannot be looked up."""
        owners_by_state, absent, time_slice = _OwnersByState([], [], []), [], TimeSlice()
        for reference in metadata_of(obj).get("ownerReferences") or ():
            uid = reference.get("uid") or ""
            await time_slice.yield_if_expired()
            try:
                owner = await self._get_owner(observed, reference)
            except _ClusterScopedDependent as error:
                await self._warn(observed, str(error))
                return None
            except (NotRegistered, ValueError) as error:
                _log.info("an owner of %s cannot be looked up: %s", observed.path, error)
                self._unresolved[observed.path] = None
                return None
            if owner is None:
                owners_by_state.absent.append(uid)
                if not self._graph.is_deleted(uid):
                    absent.append(reference)
            elif is_terminating(owner) and FOREGROUND in finalizers_of(owner):
                owners_by_state.waiting.append(uid)
            else:
                owners_by_state.solid.append(uid)
        await self._warn_of_other_namespaces(observed, absent)
        return owners_by_state

    async def _get_owner(self, observed: ObjectMetadata, reference: Tree) -> Tree | None:
        """Return the owner that a reference names, or None if it does not exist. Raises
        NotRegistered, ValueError, _ClusterScopedDependent."""
        uid = reference.get("uid") or ""
        resource = self._resource_of(reference)
        key = _key_of_owner(observed, reference, resource)
        if self._graph.is_deleted(uid):
            return None
        for version in ("0", ""):  # the watch cache may lack what another server created just now
            owner = await self._read(resource, key, version)
            if owner is not None and uid_of(owner) == uid:
                return owner
        return None

    def _resource_of(self, reference: Tree) -> Resource:
        """Return the resource of an owner. Raises NotRegistered, ValueError."""
        version = GroupVersion.parse(reference.get("apiVersion") or "")
        kind = version.with_kind(reference.get("kind") or "")
        if self._aggregated.serves(version):
            return self._aggregated.resource_of(kind)
        return self.server.scheme.resource_of(kind)

    def _observed_uid(self, resource: Resource, key: ObjectKey) -> str:
        """Return the uid of an object as last observed, or ""."""
        if isinstance(resource, AggregatedKind):
            return self._aggregated.uid_of(path_of(resource, key))
        return self._metadata.uid_of(self.server.stores.get(resource).codec.path(key))

    async def _warn_of_other_namespaces(
        self, observed: ObjectMetadata, absent: Sequence[Tree]
    ) -> None:
        """Write an event for each absent owner that is in another namespace."""
        owners: dict[Resource, dict[tuple[str, str], Tree]] = {}
        time_slice = TimeSlice()
        for reference in absent:
            await time_slice.yield_if_expired()
            resource = self._resource_of(reference)
            if resource.namespaced:
                identity = (reference.get("name") or "", reference.get("uid") or "")
                owners.setdefault(resource, {})[identity] = reference
        for resource, references in owners.items():
            if isinstance(resource, AggregatedKind):
                continue
            names = {name for name, _ in references}
            store = self.server.stores.get(resource)
            for entry in await store.cached_entries():
                await time_slice.yield_if_expired()
                name = entry.key.name
                if name not in names:
                    continue
                metadata = await self._metadata_of_entry(store, entry)
                owner = references.get((name, uid_of(metadata)))
                if owner is not None:
                    text = _reference_text(owner, entry.key.namespace)
                    namespace = observed.key.namespace
                    await self._warn(
                        observed, f'ownerRef {text} does not exist in namespace "{namespace}"'
                    )

    async def _warn(self, observed: ObjectMetadata, message: str) -> None:
        if isinstance(observed.resource, AggregatedKind):
            obj = await self._aggregated.read(observed.resource, observed.key)
        else:
            obj = (await self.server.stores.get(observed.resource).get(observed.key)).tree()
        if obj is not None:
            await self._recorder.warn(obj, "OwnerRefInvalidNamespace", message)

    async def _read(self, resource: Resource, key: ObjectKey, version: str = "") -> Tree | None:
        """Return the object, or its metadata alone, at any resource version or the newest; None if
        there is none. Raises StatusError for an object of an extension API server."""
        if isinstance(resource, AggregatedKind):
            return await self._aggregated.read(resource, key)
        store = self.server.stores.get(resource)
        try:
            entry = await store.get(key, resource_version=version)
        except NotFound:
            return None
        obj = await self._metadata_of_entry(store, entry)
        return {**obj, "metadata": {**metadata_of(obj), "resourceVersion": str(entry.revision)}}

    async def _metadata_of_entry(self, store: ResourceStore, entry: Entry) -> Tree:
        """Return the object, or its metadata alone if the rest is not decoded yet."""
        if entry.cached_tree is not None:
            return entry.cached_tree
        run, decode = self.server.offloader.run_for_entry, store.codec.ownership_metadata
        return {"metadata": await run(entry, decode, entry.path, entry.value)}

    # Writing one object.

    async def _remove_owners(self, path: str, uids: Sequence[str]) -> None:
        """Remove owner references from a dependent."""
        removed = frozenset(uids)
        await self._change_owners(
            path, lambda owners: [item for item in owners if item.get("uid") not in removed]
        )

    async def _change_owners(self, path: str, change: _ChangeOwners) -> None:
        observed = self._graph.get(path)
        if observed is None:
            return

        def patch(metadata: Tree) -> Tree:
            owners = metadata.get("ownerReferences") or []
            changed = change(owners)
            return {} if changed == owners else {"ownerReferences": changed or None}

        await self._patch_metadata(observed, patch)

    async def _drop_finalizer(self, observed: ObjectMetadata, name: str) -> None:
        def patch(metadata: Tree) -> Tree:
            finalizers = metadata.get("finalizers") or []
            if name not in finalizers:
                return {}
            return {
                "finalizers": [finalizer for finalizer in finalizers if finalizer != name] or None
            }

        await self._patch_metadata(observed, patch)

    async def _patch_metadata(
        self, observed: ObjectMetadata, change: Callable[[Tree], Tree]
    ) -> None:
        """Merge what `change` returns for the current metadata into them; nothing if it returns
        nothing."""
        objects = self._client(observed)
        if objects is None:
            return
        for _ in range(UPDATE_ATTEMPTS):
            try:
                obj = await self._read(observed.resource, observed.key)
                if obj is None or uid_of(obj) != observed.uid:
                    return
                patch = change(metadata_of(obj))
                if patch:
                    version = {"resourceVersion": metadata_of(obj).get("resourceVersion")}
                    await objects.patch(observed.key.name, {"metadata": {**version, **patch}})
                return
            except StatusError as error:
                if error.reason == "Conflict":
                    continue
                if error.reason != "NotFound":
                    if not _is_refusal(error):
                        raise
                    _log.info("%s was not changed: %s", observed.path, error)
                return

    def _client(self, observed: ObjectMetadata) -> ResourceClient | None:
        """Return the controller's client of an object; None if its resource is not served."""
        namespace = observed.key.namespace
        if isinstance(observed.resource, AggregatedKind):
            return self._aggregated.client(observed.resource, namespace)
        return self.context.served_resource(observed.resource, namespace=namespace)

    async def _delete(self, observed: ObjectMetadata, policy: str, version: str) -> None:
        """Delete an object if it is still at that resource version; if not, it is reconciled
        again."""
        key, objects = observed.key, self._client(observed)
        preconditions = {"uid": observed.uid, "resourceVersion": version}
        options = {"propagationPolicy": policy, "preconditions": preconditions}
        if objects is not None:
            try:
                await objects.shared.delete(key.name, options)
            except StatusError as error:
                if error.reason == "Conflict":
                    self.queue.add(observed.path)
                elif error.reason != "NotFound":
                    raise


def _is_refusal(error: StatusError) -> bool:
    """Whether the error would be the same the next time."""
    return error.code < 500 and error.code != 429


class _ClusterScopedDependent(Exception):
    """An owner reference of a cluster-scoped object to a namespaced kind."""


def _key_of_owner(observed: ObjectMetadata, reference: Tree, resource: Resource) -> ObjectKey:
    """Return the key of an owner. Raises _ClusterScopedDependent."""
    if resource.namespaced and not observed.resource.namespaced:
        raise _ClusterScopedDependent(
            f"ownerRef {_reference_text(reference, '')} of a cluster-scoped object names a "
            "namespaced kind"
        )
    namespace = observed.key.namespace if resource.namespaced else ""
    return ObjectKey(namespace, reference.get("name") or "")


def _reference_text(reference: Tree, namespace: str) -> str:
    return (
        f"[{reference.get('apiVersion')}/{reference.get('kind')}, namespace: {namespace}, "
        f"name: {reference.get('name')}, uid: {reference.get('uid')}]"
    )
