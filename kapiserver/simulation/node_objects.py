"""The objects of a simulated node: the Node with its status, and its Lease.

A node with the label `simulation.kapiserver.dev/simulated: "true"` is simulated, and so is one with
kwok's annotation `kwok.x-k8s.io/node: fake`. `--simulate-nodes` makes such nodes, and so may
anybody: what a node does not say is filled in. Mirrors
pkg/kubelet/nodestatus and the lease controller of component-helpers.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import IPv4Address
from uuid import NAMESPACE_DNS, uuid5
from zlib import crc32

from kapiserver.api.accessors import (
    annotations_of,
    labels_of,
    metadata_of,
    name_of,
    uid_of,
    value_at,
)
from kapiserver.api.types import Tree
from kapiserver.simulation.annotations import MISSING_IMAGES, STOPPED
from kapiserver.simulation.image_pulls import full_image_name
from kapiserver.simulation.networks import MAX_NODES, network_index, pod_network
from kapiserver.simulation.node_conditions import reported_conditions
from kapiserver.storage.cache.entry import Entry

SIMULATED = "simulation.kapiserver.dev/simulated"
"""The label of a simulated node."""
KWOK_NODE = "kwok.x-k8s.io/node"
"""The annotation that kwok's users give to nodes: `fake` for simulated ones."""
NAME_PREFIX = "simulated-"
LEASE_SECONDS = 40
"""How long a Lease is valid; a kubelet renews it four times as often."""
RENEW_SECONDS = 10.0

_FIRST_ADDRESS = IPv4Address("172.18.0.2")
"""The address of the node that has the first network of pods."""
_CAPACITY = {"cpu": "32", "ephemeral-storage": "1Ti", "memory": "256Gi", "pods": "110"}


def is_simulated(node: Tree) -> bool:
    """Report whether the kubelet of a node is simulated."""
    fake = annotations_of(node).get(KWOK_NODE) == "fake"
    return fake or labels_of(node).get(SIMULATED) == "true"


def has_kubelet(node: Entry) -> bool:
    """Report whether a simulated kubelet runs on a node."""
    return is_simulated(node.tree()) and annotations_of(node.tree()).get(STOPPED) != "true"


def new_node(index: int) -> Tree:
    """Return one of the nodes that `--simulate-nodes` makes."""
    network = str(pod_network(index))
    spec = {"podCIDR": network, "podCIDRs": [network]}
    return with_labels({"metadata": {"name": f"{NAME_PREFIX}{index}"}, "spec": spec})


def with_labels(node: Tree) -> Tree:
    """Return a new node with the labels that every kubelet sets, unless it has others, and with the
    label that it is simulated."""
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name_of(node),
        "kubernetes.io/os": "linux",
        **labels_of(node),
        SIMULATED: "true",
    }
    metadata = metadata_of(node) | {"labels": labels}
    return node | {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def node_spec(node: Tree, take_network: Callable[[], int | None]) -> Tree:
    """Return the spec of a node with a network of pods: unless it has one already, the one whose
    number `take_network` returns, or none for None."""
    spec: Tree = node.get("spec") or {}
    index = None if spec.get("podCIDR") else take_network()
    if index is None:
        return spec
    network = str(pod_network(index))
    return spec | {"podCIDR": network, "podCIDRs": [network]}


def node_status(node: Tree, version: str, now: float) -> Tree:
    """Return the status of a node whose kubelet runs. What the status says already stays.

    version  the version of Kubernetes
    """
    status = dict(node.get("status") or {})
    capacity = status.get("capacity") or _CAPACITY
    return status | {
        "capacity": capacity,
        "allocatable": status.get("allocatable") or capacity,
        "addresses": status.get("addresses") or _addresses(node),
        "conditions": reported_conditions(node, now),
        "nodeInfo": _node_info(node, version) | _stated(status.get("nodeInfo") or {}),
    }


def _stated(fields: Tree) -> Tree:
    """Return the fields that are not empty."""
    return {name: value for name, value in fields.items() if value}


def _addresses(node: Tree) -> list[Tree]:
    """Return addresses by the number of the node's network of pods, or else by its name."""
    name, index = name_of(node), network_index(node)
    if index is None:
        index = MAX_NODES + crc32(name.encode()) % MAX_NODES
    return [
        {"type": "InternalIP", "address": str(_FIRST_ADDRESS + index)},
        {"type": "Hostname", "address": name},
    ]


def _node_info(node: Tree, version: str) -> Tree:
    identity = str(uuid5(NAMESPACE_DNS, name_of(node)))
    return {
        "machineID": identity.replace("-", ""),
        "systemUUID": identity,
        "bootID": identity,
        "kernelVersion": "6.12.0",
        "osImage": "Simulated",
        "containerRuntimeVersion": "containerd://2.1.0",
        "kubeletVersion": version,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def internal_addresses(node: Tree) -> list[str]:
    """Return the internal addresses of a node: the one of its first family comes first."""
    return [
        address.get("address") or ""
        for address in value_at(node, "status", "addresses") or ()
        if address.get("type") == "InternalIP"
    ]


def missing_images(node: Tree) -> frozenset[str]:
    """Return the full names of the images that a node cannot pull."""
    text = annotations_of(node).get(MISSING_IMAGES) or ""
    return frozenset(full_image_name(name) for name in text.split())


def lease_spec(name: str, now: float) -> Tree:
    """Return the spec of the Lease with which a node shows that it lives."""
    return {
        "holderIdentity": name,
        "leaseDurationSeconds": LEASE_SECONDS,
        "renewTime": datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }


def lease_of(node: Tree, now: float) -> Tree:
    """Return the Lease of a node."""
    name = name_of(node)
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid_of(node)}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": lease_spec(name, now),
    }
