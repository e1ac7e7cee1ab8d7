"""The snapshot: all nodes, the pods on them, and what these pods request.

It is kept up to date with each change, so that a decision about one pod does not add up the pods of
all nodes again. Pods on a node that does not exist yet are remembered until it does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kapiserver.api.accessors import labels_of, name_of, namespace_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.volumes.matching import claim_key, class_of
from kapiserver.simulation.scheduler.devices.inventory import Inventory
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.requests import Quantities, quantities_of


class NodeInfo:
    """A node and its pods.

    images              the sizes of the images on the node, by name
    requested           the sum of the requests of its pods
    scored_requested    the sum of the requests that count in scores
    score, scored_for   the last score by resources, and the requests that it is for; None: unknown
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.exists = False
        self.labels: Mapping[str, str] = {}
        self.taints: Sequence[Tree] = ()
        self.is_unschedulable = False
        self.allocatable: Quantities = {}
        self.requested: Quantities = {}
        self.scored_requested: Quantities = {}
        self.images: Mapping[str, int] = {}
        self.pods: dict[str, PodInfo] = {}
        self.score = 0
        self.scored_for: tuple[int, ...] | None = None

    def set(self, node: Tree) -> None:
        """Take the parts of a Node."""
        self.exists = True
        self.scored_for = None
        self.labels = labels_of(node)
        self.taints = value_at(node, "spec", "taints") or ()
        self.is_unschedulable = bool(value_at(node, "spec", "unschedulable"))
        self.allocatable = quantities_of(value_at(node, "status", "allocatable"))
        self.images = {
            name: image.get("sizeBytes") or 0
            for image in value_at(node, "status", "images") or ()
            for name in image.get("names") or ()
        }

    def add(self, pod: PodInfo) -> None:
        """Add a pod that is not on the node."""
        self.pods[pod.uid] = pod
        self.scored_for = None
        _add_all(self.requested, pod.requests, 1)
        _add_all(self.scored_requested, pod.scored_requests, 1)

    def remove(self, pod: PodInfo) -> None:
        """Remove a pod."""
        del self.pods[pod.uid]
        self.scored_for = None
        _add_all(self.requested, pod.requests, -1)
        _add_all(self.scored_requested, pod.scored_requests, -1)


def _add_all(total: Quantities, amounts: Quantities, sign: int) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + sign * amount


class _Use(NamedTuple):
    """What a volume is for: any claim of a class, or one claim, `NAMESPACE/NAME`."""

    class_name: str = ""
    claim: str = ""


def _use_of(volume: Tree) -> _Use:
    claim = claim_key(volume)
    return _Use(claim=claim) if claim else _Use(class_of(volume))


class Snapshot:
    """The nodes and pods of a cluster.

    namespaces          the labels of each namespace, for selectors of namespaces
    with_affinity       the pods on nodes that have affinity or anti-affinity to other pods
    claims              the PersistentVolumeClaims, by namespace and name
    volumes             the PersistentVolumes, by name
    storage_classes     the StorageClasses, by name
    csi_drivers         the CSIDrivers, by name
    csi_nodes           the CSINodes, by name
    attachments         the VolumeAttachments, by name
    storage_capacities  the CSIStorageCapacities, by `NAMESPACE/NAME`
    budgets             the PodDisruptionBudgets, by namespace and name
    inventory           the devices of dynamic resource allocation
    nominated           pending pods on the nodes where their victims are ending, by uid
    nodes_with_image    how many nodes have an image, by its name
    search_start        where the search for nodes continues, so that large clusters fill evenly
    """

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInfo] = {}
        self._existing: list[NodeInfo] | None = None
        self._pods: dict[str, PodInfo] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.with_affinity: dict[str, PodInfo] = {}
        self.claims: dict[tuple[str, str], Tree] = {}
        self.volumes: dict[str, Tree] = {}
        self.storage_classes: dict[str, Tree] = {}
        self.csi_drivers: dict[str, Tree] = {}
        self.csi_nodes: dict[str, Tree] = {}
        self.attachments: dict[str, Tree] = {}
        self.storage_capacities: dict[str, Tree] = {}
        self.budgets: dict[tuple[str, str], Tree] = {}
        self.inventory = Inventory()
        self.nominated: dict[str, PodInfo] = {}
        self.search_start = 0
        self.nodes_with_image: Counter[str] = Counter()
        self._replicas: dict[str, Counter[str]] = {}
        self._volumes_by_use: dict[_Use, dict[str, Tree]] = {}
        self._claim_users: Counter[tuple[str, str]] = Counter()

    @property
    def nodes(self) -> Sequence[NodeInfo]:
        """The nodes, sorted by name."""
        if self._existing is None:
            self._existing = sorted(
                (node for node in self._nodes.values() if node.exists), key=lambda node: node.name
            )
        return self._existing

    def node(self, name: str) -> NodeInfo | None:
        """Return a node, or None if it does not exist."""
        node = self._nodes.get(name)
        return node if node is not None and node.exists else None

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def set_node(self, node: Tree) -> None:
        """Add a node, or replace it and keep its pods."""
        info = self._node_of(name_of(node))
        self._count_images(info, -1)
        info.set(node)
        self._count_images(info, 1)
        self._existing = None

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods are remembered."""
        node = self._node_of(name)
        self._count_images(node, -1)
        node.images = {}
        node.exists = False
        self._existing = None
        self._forget_unused(node)

    def add_pod(self, pod: PodInfo) -> None:
        """Add a pod to its node, or replace it."""
        self.remove_pod(pod.uid)
        self._pods[pod.uid] = pod
        if pod.affinity is not None:
            self.with_affinity[pod.uid] = pod
        self._count_replica(pod, 1)
        self._count_claims(pod, 1)
        self._node_of(pod.node_name).add(pod)

    def remove_pod(self, uid: str) -> PodInfo | None:
        """Remove a pod and return it; None if it is on no node."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return None
        self.with_affinity.pop(uid, None)
        self._count_replica(pod, -1)
        self._count_claims(pod, -1)
        node = self._node_of(pod.node_name)
        node.remove(pod)
        self._forget_unused(node)
        return pod

    def remove_assumed(self, pod: PodInfo) -> None:
        """Remove a pod whose binding failed, unless another revision of it has replaced it."""
        if self._pods.get(pod.uid) is pod:
            self.remove_pod(pod.uid)

    def set_claim(self, claim: Tree) -> None:
        """Add a claim, or replace it."""
        self.claims[namespace_of(claim), name_of(claim)] = claim

    def set_volume(self, volume: Tree) -> None:
        """Add a volume, or replace it."""
        self.remove_volume(name_of(volume))
        self.volumes[name_of(volume)] = volume
        self._volumes_by_use.setdefault(_use_of(volume), {})[name_of(volume)] = volume

    def remove_volume(self, name: str) -> None:
        """Remove a volume, if it exists."""
        volume = self.volumes.pop(name, None)
        if volume is not None:
            volumes = self._volumes_by_use[_use_of(volume)]
            del volumes[name]
            if not volumes:
                del self._volumes_by_use[_use_of(volume)]

    def volumes_for(self, claim: Tree) -> list[Tree]:
        """Return the free volumes of the class of a claim, and those that are reserved for it."""
        uses = (_Use(class_of(claim)), _Use(claim=f"{namespace_of(claim)}/{name_of(claim)}"))
        return [volume for use in uses for volume in self._volumes_by_use.get(use, {}).values()]

    def is_claim_used(self, namespace: str, name: str) -> bool:
        """Report whether a pod on a node uses a claim."""
        return self._claim_users[namespace, name] > 0

    def replicas(self, owner: str) -> Mapping[str, int]:
        """Return the number of replicas of an owner on each node that has some."""
        return self._replicas.get(owner, {})

    def _count_images(self, node: NodeInfo, change: int) -> None:
        for name in node.images:
            self.nodes_with_image[name] += change
            if not self.nodes_with_image[name]:
                del self.nodes_with_image[name]

    def _count_claims(self, pod: PodInfo, change: int) -> None:
        for name in pod.claims:
            key = (pod.namespace, name)
            self._claim_users[key] += change
            if not self._claim_users[key]:
                del self._claim_users[key]

    def _count_replica(self, pod: PodInfo, change: int) -> None:
        if not pod.owner or pod.is_terminating:
            return
        counts = self._replicas.setdefault(pod.owner, Counter())
        counts[pod.node_name] += change
        if not counts[pod.node_name]:
            del counts[pod.node_name]
        if not counts:
            del self._replicas[pod.owner]

    def _node_of(self, name: str) -> NodeInfo:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = NodeInfo(name)
        return node

    def _forget_unused(self, node: NodeInfo) -> None:
        if not node.exists and not node.pods:
            del self._nodes[node.name]
