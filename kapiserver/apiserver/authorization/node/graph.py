"""Which objects belong to which node: its pods, and what they name. Informers update the graph.

A pod names secrets, config maps, claims, a service account; a claim has a volume; a volume names
secrets. Knows no request. Mirrors plugin/pkg/auth/authorizer/node (graph, graph_populator).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from kapiserver.api.accessors import name_of, namespace_of, value_at
from kapiserver.api.core.pods.references import (
    claim_names,
    config_map_names,
    is_mirror,
    resource_claim_names,
    secret_names,
    volume_secrets,
)
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.types import Tree
from kapiserver.storage.objects.informer import InformerSubscription, ObjectChange
from kapiserver.storage.objects.store_registry import StoreRegistry

CLAIMS, VOLUMES, SECRETS = "persistentvolumeclaims", "persistentvolumes", "secrets"


class Vertex(NamedTuple):
    """An object, by the plural name of its resource."""

    resource: str
    namespace: str
    name: str


class _Owner(NamedTuple):
    """The vertices that one object gives to a node."""

    node: str
    vertices: Sequence[Vertex]


class _Volume(NamedTuple):
    claim: Vertex
    secrets: Sequence[Vertex]


_Grants: TypeAlias = Callable[[Tree], _Owner]


class NodeGraph:
    """The objects of each node."""

    def __init__(self, stores: StoreRegistry) -> None:
        self._stores = stores
        self._owners: dict[str, _Owner] = {}
        """The owners, by the path of the object that gives."""
        self._nodes: dict[Vertex, Counter[str]] = {}
        """How many objects give a vertex to each node."""
        self._volumes: dict[str, _Volume] = {}
        """Bound persistent volumes by name."""
        self._volumes_of: dict[Vertex, set[str]] = {}
        """The names of the volumes that need a secret."""
        self._subscriptions: list[InformerSubscription] = []

    async def start(self) -> None:
        """Subscribe to the objects; return when the graph has all. Raises StorageError."""
        for (version, resource), grants in _GRANTS.items():
            self._subscribe(version, resource, self._owner_handler(grants))
        self._subscribe(CORE, VOLUMES, self._on_volumes)
        for subscription in self._subscriptions:
            await subscription.wait_synced()

    def stop(self) -> None:
        """Cancel the subscriptions. Idempotent."""
        for subscription in self._subscriptions:
            subscription.cancel()
        self._subscriptions.clear()

    def belongs(self, vertex: Vertex, node: str) -> bool:
        """Whether an object belongs to a node."""
        if node in self._nodes.get(vertex, ()):
            return True
        if vertex.resource == VOLUMES:
            volume = self._volumes.get(vertex.name)
            return volume is not None and self.belongs(volume.claim, node)
        return any(
            self.belongs(Vertex(VOLUMES, "", name), node)
            for name in self._volumes_of.get(vertex, ())
        )

    def _subscribe(
        self,
        version: GroupVersion,
        resource: str,
        handler: Callable[[Sequence[ObjectChange]], None],
    ) -> None:
        informer = self._stores.by_name(version, resource).informer
        self._subscriptions.append(informer.subscribe_batches(handler))

    def _owner_handler(self, grants: _Grants) -> Callable[[Sequence[ObjectChange]], None]:
        def on_changes(changes: Sequence[ObjectChange]) -> None:
            for change in changes:
                self._remove_owner(change.last.path)
                if change.new is not None:
                    self._add_owner(change.last.path, grants(change.new.tree()))

        return on_changes

    def _add_owner(self, path: str, owner: _Owner) -> None:
        if not owner.node:
            return
        self._owners[path] = owner
        for vertex in owner.vertices:
            self._nodes.setdefault(vertex, Counter())[owner.node] += 1

    def _remove_owner(self, path: str) -> None:
        owner = self._owners.pop(path, None)
        if owner is None:
            return
        for vertex in owner.vertices:
            nodes = self._nodes[vertex]
            nodes[owner.node] -= 1
            if not nodes[owner.node]:
                del nodes[owner.node]
            if not nodes:
                del self._nodes[vertex]

    def _on_volumes(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            name = change.last.key.name
            old = self._volumes.pop(name, None)
            for secret in old.secrets if old is not None else ():
                self._volumes_of[secret].discard(name)
                if not self._volumes_of[secret]:
                    del self._volumes_of[secret]
            if change.new is not None:
                self._add_volume(name, change.new.tree())

    def _add_volume(self, name: str, tree: Tree) -> None:
        claim = value_at(tree, "spec", "claimRef") or {}
        if not claim.get("name"):
            return
        secrets = tuple({Vertex(SECRETS, *secret) for secret in volume_secrets(tree)})
        vertex = Vertex(CLAIMS, claim.get("namespace") or "", claim["name"])
        self._volumes[name] = _Volume(vertex, secrets)
        for secret in secrets:
            self._volumes_of.setdefault(secret, set()).add(name)


def _of_pod(pod: Tree) -> _Owner:
    """A node gets a pod that is bound to it, and what the pod names unless it is a mirror pod,
    which the node itself creates."""
    namespace = namespace_of(pod)
    vertices = {Vertex("pods", namespace, name_of(pod))}
    if not is_mirror(pod):
        names: Mapping[str, Iterable[str]] = {
            "serviceaccounts": filter(None, (value_at(pod, "spec", "serviceAccountName"),)),
            SECRETS: secret_names(pod),
            "configmaps": config_map_names(pod),
            CLAIMS: claim_names(pod),
            "resourceclaims": resource_claim_names(pod),
        }
        for resource, object_name in names.items():
            vertices.update(Vertex(resource, namespace, name) for name in object_name)
    return _Owner(value_at(pod, "spec", "nodeName") or "", tuple(vertices))


def _of_itself(resource: str) -> _Grants:
    """Return a function for objects whose `spec.nodeName` is their node."""

    def grants(tree: Tree) -> _Owner:
        vertex = Vertex(resource, namespace_of(tree), name_of(tree))
        return _Owner(value_at(tree, "spec", "nodeName") or "", (vertex,))

    return grants


_GRANTS: Mapping[tuple[GroupVersion, str], _Grants] = {
    (CORE, "pods"): _of_pod,
    (GroupVersion("storage.k8s.io", "v1"), "volumeattachments"): _of_itself("volumeattachments"),
    (GroupVersion("resource.k8s.io", "v1"), "resourceslices"): _of_itself("resourceslices"),
    (GroupVersion("certificates.k8s.io", "v1beta1"), "podcertificaterequests"): _of_itself(
        "podcertificaterequests"
    ),
}
"""The resources whose objects give something to a node."""
