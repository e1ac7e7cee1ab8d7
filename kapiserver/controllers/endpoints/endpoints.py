"""Write the Endpoints and EndpointSlices of services from their pods.

Three controllers, as in Kubernetes: Endpoints of pods, slices of pods, and slices that mirror
Endpoints written by others. Each reconciles a namespace as a whole, shortly after a change in it.

Mirrors pkg/controller/endpoint, pkg/controller/endpointslice and
pkg/controller/endpointslicemirroring.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from kapiserver.api.accessors import (
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    resource_version_of,
)
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.types import Tree
from kapiserver.controllers.defaults.bootstrap import canonical_tree
from kapiserver.controllers.endpoints.endpoint_builder import (
    MANAGED_BY,
    SERVICE_NAME,
    is_mirrored,
    labels,
    mirrored_annotations,
    mirrored_slices,
    owned_by,
    selected_pods,
    selects_pods,
    slices,
    subsets,
)
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import delete_object, suppress_reason, update_object
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects.informer import Informer, ObjectChange

BATCH_SECONDS = 0.1
"""The wait after a change, so that one reconcile covers a burst of changes."""
REST_FACTOR = 4
"""A namespace is reconciled again at the earliest after this multiple of the last duration."""
_DISCOVERY = GroupVersion("discovery.k8s.io", "v1")
_SLICE_MANAGER = "endpointslice-controller.k8s.io"
_MIRROR_MANAGER = "endpointslicemirroring-controller.k8s.io"


class _Variant(Struct, frozen=True):
    """One of the three controllers; `sync` reconciles a namespace."""

    reads_pods: bool
    sync: Callable[[_Reader, str, frozenset[str]], Awaitable[None]]
    """Takes the reader, the namespace, and the names of deleted services."""


class ServiceEndpointsController(Controller[str]):
    """The control loop of one variant; its queue holds namespaces."""

    workers = 4

    def __init__(self, context: ControllerContext, variant: _Variant) -> None:
        super().__init__(context)
        self._variant = variant
        self._deleted_services: dict[str, set[str]] = {}
        """The deleted services of each namespace, whose Endpoints and slices are to be deleted."""
        self._durations: dict[str, float] = {}
        """Seconds that the last reconcile took, by namespace."""

    def set_up(self) -> None:
        """Watch services, Endpoints and slices; the first service with a selector watches pods."""
        self._reader = _Reader(
            context=self.context,
            namespaces=self.watch(CORE, "namespaces"),
            services=self.watch(CORE, "services", self._for_service),
            endpoints=self.watch(CORE, "endpoints", self._for_endpoints),
            slices=self.watch(_DISCOVERY, "endpointslices", self._for_slice),
        )

    def _for_service(self, change: ObjectChange) -> Iterable[str]:
        namespace, name = change.last.key
        if change.new is None:
            self._deleted_services.setdefault(namespace, set()).add(name)
        elif self._variant.reads_pods and selects_pods(change.new.tree()):
            self._reader.pods = self.watch(CORE, "pods", self._for_input)
        return self._after_rest(namespace)

    def _for_endpoints(self, change: ObjectChange) -> Iterable[str]:
        is_input = change.new is None or not self._variant.reads_pods
        return self._for_input(change) if is_input else ()

    def _for_slice(self, change: ObjectChange) -> Iterable[str]:
        return self._for_input(change) if change.new is None else ()

    def _for_input(self, change: ObjectChange) -> Iterable[str]:
        namespace = change.last.key.namespace
        return self._after_rest(namespace) if self._reader.services.lister.list(namespace) else ()

    def _after_rest(self, namespace: str) -> Iterable[str]:
        """Queue a namespace when it has rested; nothing is left to queue now."""
        seconds = REST_FACTOR * self._durations.get(namespace, 0.0)
        self.queue.add_batched(namespace, max(BATCH_SECONDS, seconds))
        return ()

    async def reconcile(self, name: str) -> None:
        """Write what the services of a namespace ask for."""
        namespace = self._reader.namespaces.lister.get(ObjectKey("", name))
        deleted = frozenset(self._deleted_services.pop(name, set()))
        if namespace is None or is_terminating(namespace.tree()):
            self._durations.pop(name, None)
            return
        start_time = self.clock.now()
        try:
            await self._variant.sync(self._reader, name, deleted)
        except Exception:
            self._deleted_services.setdefault(name, set()).update(deleted)
            raise
        self._durations[name] = self.clock.now() - start_time


class _Reader(Struct, kw_only=True):
    """The informers that a controller reads; `pods` is None while no service selects any."""

    context: ControllerContext
    namespaces: Informer
    services: Informer
    endpoints: Informer
    slices: Informer
    pods: Informer | None = None


async def _trees(reader: _Reader, entries: Iterable[Entry]) -> list[Tree]:
    offloader = reader.context.server.offloader
    return [await offloader.tree(entry) for entry in entries]


async def _services_with_pods(reader: _Reader, namespace: str) -> list[tuple[Tree, list[Tree]]]:
    services = [
        service
        for service in await _trees(reader, reader.services.lister.list(namespace))
        if selects_pods(service) and not is_terminating(service)
    ]
    if not services or reader.pods is None:
        return []
    pods_by_label: dict[tuple[str, str], list[Entry]] = {}
    for pod in reader.pods.lister.list(namespace):
        for label in pod.labels.items():
            pods_by_label.setdefault(label, []).append(pod)

    async def candidates(service: Tree) -> list[Tree]:
        selector = service["spec"]["selector"].items()
        rarest = min((pods_by_label.get(label, []) for label in selector), key=len)
        return await _trees(reader, rarest)

    return [(service, selected_pods(service, await candidates(service))) for service in services]


# Endpoints.


async def _sync_endpoints(reader: _Reader, namespace: str, deleted: frozenset[str]) -> None:
    for service, pods in await _services_with_pods(reader, namespace):
        metadata = {
            "name": name_of(service),
            "namespace": namespace,
            "labels": {
                **labels(service),
                "endpoints.kubernetes.io/managed-by": "endpoint-controller",
            },
        }
        desired: Tree = {"kind": "Endpoints", "apiVersion": "v1", "metadata": metadata}
        desired["subsets"] = subsets(service, pods)
        await _write(reader, reader.endpoints, CORE, "endpoints", desired)
    for name in sorted(deleted):
        key = ObjectKey(namespace, name)
        if reader.services.lister.get(key) is None:  # else it was created again
            endpoints = reader.context.resource("v1", "endpoints", namespace=namespace)
            await delete_object(endpoints, name)


async def _write(
    reader: _Reader, informer: Informer, version: GroupVersion, resource: str, desired: Tree
) -> Revision:
    """Create or replace an object unless it is as desired, keeping labels and annotations that
    others added. Return the revision of the write; 0 without one."""
    content = canonical_tree(reader.context.server.codecs, desired)
    namespace, name = namespace_of(content), name_of(content)
    objects = reader.context.resource(str(version), resource, namespace=namespace)

    def merge(current: Tree) -> Tree:
        metadata = dict(current["metadata"])
        for part in ("labels", "annotations"):
            merged = {**(metadata.get(part) or {}), **(content["metadata"].get(part) or {})}
            if merged != (metadata.get(part) or {}):
                metadata[part] = dict(sorted(merged.items()))
        kind = {"kind": current["kind"], "apiVersion": current["apiVersion"]}
        return {**kind, **content, "metadata": metadata}

    existing = informer.lister.get(ObjectKey(namespace, name)) if name else None
    if existing is not None:
        present = await reader.context.server.offloader.tree(existing)
        if merge(present) == present:
            return Revision(0)
        updated = await update_object(objects, name, merge)
        if updated is not None:
            return Revision(int(resource_version_of(updated)))
    with suppress_reason("AlreadyExists", "NotFound"):
        return Revision(int(resource_version_of(await objects.create(desired))))
    return Revision(0)


# Slices.


async def _sync_slices(reader: _Reader, namespace: str, deleted: frozenset[str]) -> None:
    existing = _slices_of(reader, namespace, _SLICE_MANAGER)
    for service, pods in await _services_with_pods(reader, namespace):
        name = name_of(service)
        desired = slices(service, pods)
        owner = owned_by(service, "Service")
        own_labels = {**labels(service), SERVICE_NAME: name, MANAGED_BY: _SLICE_MANAGER}
        metadata = {"namespace": namespace, "labels": own_labels, "ownerReferences": [owner]}
        await _write_slices(reader, name, metadata, desired, existing.pop(name, []))
    for name in sorted(deleted):
        await _delete_slices(reader, namespace, existing.get(name, []))


async def _sync_mirrored_slices(reader: _Reader, namespace: str, deleted: frozenset[str]) -> None:
    existing = _slices_of(reader, namespace, _MIRROR_MANAGER)
    service_trees = await _trees(reader, reader.services.lister.list(namespace))
    services = {name_of(service): service for service in service_trees}
    for endpoints in await _trees(reader, reader.endpoints.lister.list(namespace)):
        name = name_of(endpoints)
        service = services.get(name)
        if service is None or not is_mirrored(endpoints, service):
            continue
        own_labels = {**labels_of(endpoints), SERVICE_NAME: name, MANAGED_BY: _MIRROR_MANAGER}
        owner = owned_by(endpoints, "Endpoints")
        metadata: Tree = {"namespace": namespace, "labels": own_labels, "ownerReferences": [owner]}
        annotations = mirrored_annotations(endpoints)
        if annotations:
            metadata["annotations"] = annotations
        await _write_slices(
            reader, name, metadata, mirrored_slices(endpoints), existing.pop(name, [])
        )
    for orphaned in existing.values():  # of deleted Endpoints or services
        await _delete_slices(reader, namespace, orphaned)


def _slices_of(reader: _Reader, namespace: str, manager: str) -> dict[str, list[Tree]]:
    """Return the slices that a controller manages, by the name of their service."""
    slices_by_service: dict[str, list[Tree]] = {}
    for entry in reader.slices.lister.list(namespace):
        own_labels = entry.labels
        if own_labels.get(MANAGED_BY) == manager and not is_terminating(entry.tree()):
            service = own_labels.get(SERVICE_NAME) or ""
            slices_by_service.setdefault(service, []).append(entry.tree())
    return slices_by_service


async def _write_slices(
    reader: _Reader,
    service: str,
    metadata: Mapping[str, object],
    contents: Sequence[Tree],
    existing: list[Tree],
) -> None:
    """Write slices of these contents over the existing ones of a service; delete the others."""
    last_revision = Revision(0)
    for content in contents:
        family = content["addressType"]
        reused = next((old for old in existing if old["addressType"] == family), None)
        named: Tree = {"generateName": f"{service}-"}
        if reused is not None:
            existing.remove(reused)
            named = {"name": name_of(reused)}
        head = {"kind": "EndpointSlice", "apiVersion": str(_DISCOVERY)}
        tree = {**head, "metadata": {**named, **metadata}, **content}
        revision = await _write(reader, reader.slices, _DISCOVERY, "endpointslices", tree)
        last_revision = max(last_revision, revision)
    await _delete_slices(reader, str(metadata["namespace"]), existing)
    # The next reconcile must find the slices that this one has created.
    await reader.slices.wait_for(last_revision)


async def _delete_slices(reader: _Reader, namespace: str, slices: Sequence[Tree]) -> None:
    objects = reader.context.resource(str(_DISCOVERY), "endpointslices", namespace=namespace)
    for slice_ in slices:
        await delete_object(objects, name_of(slice_))


_ENDPOINTS = _Variant(True, _sync_endpoints)
_SLICES = _Variant(True, _sync_slices)
_MIRRORED_SLICES = _Variant(False, _sync_mirrored_slices)


def endpoints_controller(context: ControllerContext) -> ServiceEndpointsController:
    """Return the controller that writes Endpoints of pods."""
    return ServiceEndpointsController(context, _ENDPOINTS)


def endpoint_slice_controller(context: ControllerContext) -> ServiceEndpointsController:
    """Return the controller that writes EndpointSlices of pods."""
    return ServiceEndpointsController(context, _SLICES)


def endpoint_slice_mirroring_controller(context: ControllerContext) -> ServiceEndpointsController:
    """Return the controller that mirrors Endpoints written by others as EndpointSlices."""
    return ServiceEndpointsController(context, _MIRRORED_SLICES)
