"""Keeps Endpoints and EndpointSlices of services as their pods are.

Three loops, as in Kubernetes: Endpoints of pods, slices of pods, slices of Endpoints that somebody
else wrote. Each looks at a namespace as a whole, a moment after something in it changed.

Mirrors pkg/controller/endpoint, pkg/controller/endpointslice and
pkg/controller/endpointslicemirroring.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.objects import is_terminating, labels_of, metadata_of, name_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.controllers.bootstrap import decoded
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
from kapiserver.controllers.workqueue import Work
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import AlreadyExists, NotFound
from kapiserver.storage.metadata_informer import Seen
from kapiserver.storage.query import DeleteQuery, ListQuery

WORKERS = 4
SOON_SECONDS = 0.1
"""After a change; many of them are looked at once."""
REST = 4
"""After a look a namespace rests so many times as long as that took."""
_DISCOVERY = GroupVersion("discovery.k8s.io", "v1")
_OF_PODS = "endpointslice-controller.k8s.io"
_OF_ENDPOINTS = "endpointslicemirroring-controller.k8s.io"


@dataclass(frozen=True, slots=True)
class _Kind:
    """One of the loops: what its work depends on beside services, and what it does."""

    name: str
    depends_on: tuple[str, ...]
    look: Callable[[Server, str, frozenset[str]], Awaitable[None]]
    """(server, namespace, services that went)"""


class ServiceLoop:
    """The loop: a reader of the feed, and workers while a namespace wants looking at."""

    def __init__(self, server: Server, kind: _Kind) -> None:
        self._server = server
        self._kind = kind
        self._services: dict[str, set[str]] = {}
        self._gone: dict[str, set[str]] = {}
        """Services that went, by namespace: what was made for them goes too."""
        self._soon: set[str] = set()
        self._took: dict[str, float] = {}
        """Seconds that a look lasted, by namespace."""
        self._work: Work[str] = Work(self._look, server.clock, workers=WORKERS, name=kind.name)

    async def stop(self) -> None:
        """End; what is being looked at is broken off."""
        await self._work.stop()

    def begin(self) -> None:
        """Forget everything."""
        self._work.clear()
        for part in (self._services, self._gone, self._took):
            part.clear()

    def put(self, seen: Seen) -> None:
        """An object is there, or changed."""
        name = seen.resource.qualified_name
        if name == "services":
            self._services.setdefault(seen.key.namespace, set()).add(seen.key.name)
            self._later(seen.key.namespace)
        elif name in self._kind.depends_on and seen.key.namespace in self._services:
            self._later(seen.key.namespace)

    def gone(self, seen: Seen) -> None:
        """An object is there no more."""
        namespace, name = seen.key.namespace, seen.resource.qualified_name
        if name == "services":
            services = self._services.get(namespace, set())
            services.discard(seen.key.name)
            if not services:
                self._services.pop(namespace, None)
                self._took.pop(namespace, None)
            self._gone.setdefault(namespace, set()).add(seen.key.name)
            self._later(namespace)
        elif name in (*self._kind.depends_on, *_MADE) and namespace in self._services:
            self._later(namespace)

    def _later(self, namespace: str) -> None:
        if namespace not in self._soon:
            self._soon.add(namespace)
            seconds = max(SOON_SECONDS, REST * self._took.get(namespace, 0))
            self._server.clock.call_later(seconds, lambda: self._now(namespace))

    def _now(self, namespace: str) -> None:
        self._soon.discard(namespace)
        self._work.put(namespace)

    async def _look(self, namespace: str) -> None:
        gone = frozenset(self._gone.pop(namespace, set()))
        with contextlib.suppress(NotFound):
            entry = await self._server.stores.named(CORE, "namespaces").get(
                ObjectKey("", namespace)
            )
            if is_terminating(entry.tree()):
                return
            began = self._server.clock.now()
            try:
                await self._kind.look(self._server, namespace, gone)
            except Exception:
                self._gone.setdefault(namespace, set()).update(gone)
                raise
            if namespace in self._services:
                self._took[namespace] = self._server.clock.now() - began


_MADE = ("endpoints", "endpointslices.discovery.k8s.io")


async def _all(server: Server, version: GroupVersion, name: str, namespace: str) -> list[Tree]:
    listed = await server.stores.named(version, name).list(ListQuery(namespace=namespace))
    return [entry.tree() for entry in listed.entries]


async def _services_with_pods(server: Server, namespace: str) -> list[tuple[Tree, list[Tree]]]:
    services = await _all(server, CORE, "services", namespace)
    mine = [one for one in services if selects_pods(one) and not is_terminating(one)]
    pods = await _all(server, CORE, "pods", namespace) if mine else []
    labelled: dict[tuple[str, str], list[Tree]] = {}
    for pod in pods:
        for label in labels_of(pod).items():
            labelled.setdefault(label, []).append(pod)

    def candidates(service: Tree) -> list[Tree]:
        selector = service["spec"]["selector"].items()
        return min((labelled.get(label, []) for label in selector), key=len)

    return [(service, selected(service, candidates(service))) for service in mine]


# Endpoints.


async def _keep_endpoints(server: Server, namespace: str, gone: frozenset[str]) -> None:
    store = server.stores.named(CORE, "endpoints")
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
        await _put(server, CORE, "endpoints", wanted)
    for name in gone:
        key = ObjectKey(namespace, name)
        with contextlib.suppress(NotFound):
            await server.stores.named(CORE, "services").get(key)
            continue  # it is there again
        with contextlib.suppress(NotFound):
            await store.delete(key, DeleteQuery())


async def _put(server: Server, version: GroupVersion, resource: str, wanted: Tree) -> None:
    """Make an object what it should be; what others wrote into its metadata stays."""
    store = server.stores.named(version, resource)
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


async def _keep_slices(server: Server, namespace: str, gone: frozenset[str]) -> None:
    there = await _slices_of(server, namespace, _OF_PODS)
    for service, pods in await _services_with_pods(server, namespace):
        name = name_of(service)
        wanted = slices(service, pods)
        owner = owned_by(service, "Service")
        given = {**labels(service), SERVICE_NAME: name, MANAGED_BY: _OF_PODS}
        metadata = {"namespace": namespace, "labels": given, "ownerReferences": [owner]}
        await _reconcile(server, name, metadata, wanted, there.pop(name, []))
    for name in gone:
        await _remove(server, namespace, there.get(name, []))


async def _mirror(server: Server, namespace: str, gone: frozenset[str]) -> None:
    there = await _slices_of(server, namespace, _OF_ENDPOINTS)
    services = {name_of(one): one for one in await _all(server, CORE, "services", namespace)}
    for endpoints in await _all(server, CORE, "endpoints", namespace):
        name = name_of(endpoints)
        service = services.get(name)
        if service is None or not is_mirrored(endpoints, service):
            continue
        given = {**labels_of(endpoints), SERVICE_NAME: name, MANAGED_BY: _OF_ENDPOINTS}
        owner = owned_by(endpoints, "Endpoints")
        metadata: Tree = {"namespace": namespace, "labels": given, "ownerReferences": [owner]}
        annotations = mirrored_annotations(endpoints)
        if annotations:
            metadata["annotations"] = annotations
        await _reconcile(server, name, metadata, mirrored(endpoints), there.pop(name, []))
    for left in there.values():  # of Endpoints or services that are no more
        await _remove(server, namespace, left)


async def _slices_of(server: Server, namespace: str, manager: str) -> dict[str, list[Tree]]:
    found: dict[str, list[Tree]] = {}
    for one in await _all(server, _DISCOVERY, "endpointslices", namespace):
        given = labels_of(one)
        if given.get(MANAGED_BY) == manager and not is_terminating(one):
            found.setdefault(given.get(SERVICE_NAME) or "", []).append(one)
    return found


async def _reconcile(
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
        await _put(server, _DISCOVERY, "endpointslices", tree)
    await _remove(server, str(metadata["namespace"]), there)


async def _remove(server: Server, namespace: str, there: Sequence[Tree]) -> None:
    store = server.stores.named(_DISCOVERY, "endpointslices")
    for one in there:
        with contextlib.suppress(NotFound):
            await store.delete(ObjectKey(namespace, name_of(one)), DeleteQuery())


_ENDPOINTS = _Kind("endpoints-controller", ("pods",), _keep_endpoints)
_SLICES = _Kind("endpointslice-controller", ("pods",), _keep_slices)
_MIRRORS = _Kind("endpointslice-mirroring-controller", ("endpoints",), _mirror)


def endpoints_of_pods(server: Server) -> ServiceLoop:
    """The loop that keeps Endpoints."""
    return ServiceLoop(server, _ENDPOINTS)


def slices_of_pods(server: Server) -> ServiceLoop:
    """The loop that keeps EndpointSlices."""
    return ServiceLoop(server, _SLICES)


def slices_of_endpoints(server: Server) -> ServiceLoop:
    """The loop that shows Endpoints as slices."""
    return ServiceLoop(server, _MIRRORS)
