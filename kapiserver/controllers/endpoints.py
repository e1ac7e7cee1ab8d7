"""Write the Endpoints and EndpointSlices of services from their pods.

Three controllers, as in Kubernetes: Endpoints of pods, slices of pods, and slices that mirror
Endpoints written by others. Each reconciles a namespace as a whole, shortly after a change in it.

Mirrors pkg/controller/endpoint, pkg/controller/endpointslice and
pkg/controller/endpointslicemirroring.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from kapiserver.api.accessors import is_terminating, labels_of, metadata_of, name_of
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.controllers.bootstrap import decoded
from kapiserver.controllers.context import ControllerContext
from kapiserver.controllers.endpoint_builder import (
    MANAGED_BY,
    SERVICE_NAME,
    is_mirrored,
    labels,
    mirrored,
    mirrored_annotations,
    owned_by,
    selected,
    selects_pods,
    slices,
    subsets,
)
from kapiserver.controllers.workqueue import WorkQueue
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import AlreadyExists, NotFound
from kapiserver.storage.metadata_informer import ObjectMetadata
from kapiserver.storage.query import DeleteQuery, ListQuery

WORKERS = 4
BATCH_SECONDS = 0.1
"""Wait after a change, so that one reconcile covers a burst of changes."""
REST_FACTOR = 4
"""A namespace is reconciled again at the earliest after this multiple of the last duration."""
_DISCOVERY = GroupVersion("discovery.k8s.io", "v1")
_SLICE_MANAGER = "endpointslice-controller.k8s.io"
_MIRROR_MANAGER = "endpointslicemirroring-controller.k8s.io"


@dataclass(frozen=True, slots=True)
class _Variant:
    """One of the controllers: the resources it reads beside services, and its sync function."""

    name: str
    depends_on: tuple[str, ...]
    sync: Callable[[Server, str, frozenset[str]], Awaitable[None]]
    """(server, namespace, names of deleted services)"""


class ServiceEndpointsController:
    """The control loop of one variant; its queue holds namespaces."""

    def __init__(self, context: ControllerContext, variant: _Variant) -> None:
        self._server = context.server
        self._metadata = context.metadata
        self._variant = variant
        self._services: dict[str, set[str]] = {}
        self._deleted_services: dict[str, set[str]] = {}
        """By namespace: what was written for them is deleted too."""
        self._scheduled: set[str] = set()
        self._durations: dict[str, float] = {}
        """Seconds that the last reconcile took, by namespace."""
        self._queue: WorkQueue[str] = WorkQueue(
            self._reconcile, context.server.clock, workers=WORKERS, name=variant.name
        )

    async def start(self) -> None:
        """Subscribe to the metadata of all objects."""
        self._metadata.subscribe(self)

    async def stop(self) -> None:
        """End, cancelling reconciles in progress."""
        await self._queue.stop()

    def on_reset(self) -> None:
        """Forget everything: all present objects follow."""
        self._queue.clear()
        for part in (self._services, self._deleted_services, self._durations):
            part.clear()

    def on_upsert(self, seen: ObjectMetadata) -> None:
        """An object was created or changed."""
        name = seen.resource.qualified_name
        if name == "services":
            self._services.setdefault(seen.key.namespace, set()).add(seen.key.name)
            self._schedule(seen.key.namespace)
        elif name in self._variant.depends_on and seen.key.namespace in self._services:
            self._schedule(seen.key.namespace)

    def on_delete(self, seen: ObjectMetadata) -> None:
        """An object was deleted."""
        namespace, name = seen.key.namespace, seen.resource.qualified_name
        if name == "services":
            services = self._services.get(namespace, set())
            services.discard(seen.key.name)
            if not services:
                self._services.pop(namespace, None)
                self._durations.pop(namespace, None)
            self._deleted_services.setdefault(namespace, set()).add(seen.key.name)
            self._schedule(namespace)
        elif (
            name in (*self._variant.depends_on, *_WRITTEN_RESOURCES) and namespace in self._services
        ):
            self._schedule(namespace)

    def _schedule(self, namespace: str) -> None:
        if namespace not in self._scheduled:
            self._scheduled.add(namespace)
            seconds = max(BATCH_SECONDS, REST_FACTOR * self._durations.get(namespace, 0))
            self._server.clock.call_later(seconds, lambda: self._add(namespace))

    def _add(self, namespace: str) -> None:
        self._scheduled.discard(namespace)
        self._queue.add(namespace)

    async def _reconcile(self, namespace: str) -> None:
        gone = frozenset(self._deleted_services.pop(namespace, set()))
        with contextlib.suppress(NotFound):
            entry = await self._server.stores.by_name(CORE, "namespaces").get(
                ObjectKey("", namespace)
            )
            if is_terminating(entry.tree()):
                return
            began = self._server.clock.now()
            try:
                await self._variant.sync(self._server, namespace, gone)
            except Exception:
                self._deleted_services.setdefault(namespace, set()).update(gone)
                raise
            if namespace in self._services:
                self._durations[namespace] = self._server.clock.now() - began


_WRITTEN_RESOURCES = ("endpoints", "endpointslices.discovery.k8s.io")


async def _list_namespace(
    server: Server, version: GroupVersion, name: str, namespace: str
) -> list[Tree]:
    listed = await server.stores.by_name(version, name).list(ListQuery(namespace=namespace))
    return [entry.tree() for entry in listed.entries]


async def _services_with_pods(server: Server, namespace: str) -> list[tuple[Tree, list[Tree]]]:
    services = await _list_namespace(server, CORE, "services", namespace)
    mine = [one for one in services if selects_pods(one) and not is_terminating(one)]
    pods = await _list_namespace(server, CORE, "pods", namespace) if mine else []
    labelled: dict[tuple[str, str], list[Tree]] = {}
    for pod in pods:
        for label in labels_of(pod).items():
            labelled.setdefault(label, []).append(pod)

    def candidates(service: Tree) -> list[Tree]:
        selector = service["spec"]["selector"].items()
        return min((labelled.get(label, []) for label in selector), key=len)

    return [(service, selected(service, candidates(service))) for service in mine]


# Endpoints.


async def _sync_endpoints(server: Server, namespace: str, gone: frozenset[str]) -> None:
    store = server.stores.by_name(CORE, "endpoints")
    for service, pods in await _services_with_pods(server, namespace):
        metadata = {
            "name": name_of(service),
            "namespace": namespace,
            "labels": {
                **labels(service),
                "endpoints.kubernetes.io/managed-by": "endpoint-controller",
            },
        }
        wanted: Tree = {"kind": "Endpoints", "apiVersion": "v1", "metadata": metadata}
        wanted["subsets"] = subsets(service, pods)
        await _write(server, CORE, "endpoints", wanted)
    for name in gone:
        key = ObjectKey(namespace, name)
        with contextlib.suppress(NotFound):
            await server.stores.by_name(CORE, "services").get(key)
            continue  # it is there again
        with contextlib.suppress(NotFound):
            await store.delete(key, DeleteQuery())


async def _write(server: Server, version: GroupVersion, resource: str, wanted: Tree) -> None:
    """Create or replace an object, keeping labels and annotations that others added."""
    store = server.stores.by_name(version, resource)
    fresh = decoded(server, wanted)
    content = {key: value for key, value in fresh.items() if key != "metadata"}
    namespace = fresh["metadata"]["namespace"]

    def change(current: Tree | None) -> Tree:
        if current is None:  # Endpoints may be created so
            return fresh
        for part in ("labels", "annotations"):
            given = {
                **(metadata_of(current).get(part) or {}),
                **(fresh["metadata"].get(part) or {}),
            }
            if given:
                metadata_of(current)[part] = dict(sorted(given.items()))
        bare = {key: value for key, value in current.items() if key in ("kind", "apiVersion")}
        return {**bare, "metadata": current["metadata"], **content}

    name = fresh["metadata"].get("name")
    if name:
        with contextlib.suppress(NotFound):
            await store.update(ObjectKey(namespace, name), change)
            return
    with contextlib.suppress(AlreadyExists):
        await store.create(fresh, namespace=namespace)


# Slices.


async def _sync_slices(server: Server, namespace: str, gone: frozenset[str]) -> None:
    there = await _slices_of(server, namespace, _SLICE_MANAGER)
    for service, pods in await _services_with_pods(server, namespace):
        name = name_of(service)
        wanted = slices(service, pods)
        owner = owned_by(service, "Service")
        given = {**labels(service), SERVICE_NAME: name, MANAGED_BY: _SLICE_MANAGER}
        metadata = {"namespace": namespace, "labels": given, "ownerReferences": [owner]}
        await _write_slices(server, name, metadata, wanted, there.pop(name, []))
    for name in gone:
        await _delete_slices(server, namespace, there.get(name, []))


async def _sync_mirrored_slices(server: Server, namespace: str, gone: frozenset[str]) -> None:
    there = await _slices_of(server, namespace, _MIRROR_MANAGER)
    services = {
        name_of(one): one for one in await _list_namespace(server, CORE, "services", namespace)
    }
    for endpoints in await _list_namespace(server, CORE, "endpoints", namespace):
        name = name_of(endpoints)
        service = services.get(name)
        if service is None or not is_mirrored(endpoints, service):
            continue
        given = {**labels_of(endpoints), SERVICE_NAME: name, MANAGED_BY: _MIRROR_MANAGER}
        owner = owned_by(endpoints, "Endpoints")
        metadata: Tree = {"namespace": namespace, "labels": given, "ownerReferences": [owner]}
        annotations = mirrored_annotations(endpoints)
        if annotations:
            metadata["annotations"] = annotations
        await _write_slices(server, name, metadata, mirrored(endpoints), there.pop(name, []))
    for left in there.values():  # of Endpoints or services that are no more
        await _delete_slices(server, namespace, left)


async def _slices_of(server: Server, namespace: str, manager: str) -> dict[str, list[Tree]]:
    found: dict[str, list[Tree]] = {}
    for one in await _list_namespace(server, _DISCOVERY, "endpointslices", namespace):
        given = labels_of(one)
        if given.get(MANAGED_BY) == manager and not is_terminating(one):
            found.setdefault(given.get(SERVICE_NAME) or "", []).append(one)
    return found


async def _write_slices(
    server: Server,
    service: str,
    metadata: Mapping[str, object],
    wanted: Sequence[Tree],
    there: list[Tree],
) -> None:
    for content in wanted:
        kept = next((one for one in there if one["addressType"] == content["addressType"]), None)
        named: Tree = {"generateName": f"{service}-"}
        if kept is not None:
            there.remove(kept)
            named = {"name": name_of(kept)}
        head = {"kind": "EndpointSlice", "apiVersion": str(_DISCOVERY)}
        tree = {**head, "metadata": {**named, **metadata}, **content}
        await _write(server, _DISCOVERY, "endpointslices", tree)
    await _delete_slices(server, str(metadata["namespace"]), there)


async def _delete_slices(server: Server, namespace: str, there: Sequence[Tree]) -> None:
    store = server.stores.by_name(_DISCOVERY, "endpointslices")
    for one in there:
        with contextlib.suppress(NotFound):
            await store.delete(ObjectKey(namespace, name_of(one)), DeleteQuery())


_ENDPOINTS = _Variant("endpoints-controller", ("pods",), _sync_endpoints)
_SLICES = _Variant("endpointslice-controller", ("pods",), _sync_slices)
_MIRRORED_SLICES = _Variant(
    "endpointslice-mirroring-controller", ("endpoints",), _sync_mirrored_slices
)


def endpoints_controller(context: ControllerContext) -> ServiceEndpointsController:
    """Return the controller that writes Endpoints of pods."""
    return ServiceEndpointsController(context, _ENDPOINTS)


def endpoint_slice_controller(context: ControllerContext) -> ServiceEndpointsController:
    """Return the controller that writes EndpointSlices of pods."""
    return ServiceEndpointsController(context, _SLICES)


def endpoint_slice_mirroring_controller(context: ControllerContext) -> ServiceEndpointsController:
    """Return the controller that mirrors Endpoints written by others as EndpointSlices."""
    return ServiceEndpointsController(context, _MIRRORED_SLICES)
