"""The objects of a simulated node: the Node with its status, and its Lease.

A node with the label `simulation.kapiserver.dev/simulated: "true"` is simulated. `--simulate-nodes`
makes such nodes, and so may anybody: what a node does not say is filled in. Mirrors
pkg/kubelet/nodestatus and the lease controller of component-helpers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from ipaddress import IPv4Network
from zlib import crc32

from kapiserver.api.accessors import name_of, uid_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.conditions import find_condition
from kapiserver.storage.objects.lifecycle import timestamp

SIMULATED = "simulation.kapiserver.dev/simulated"
"""The label of a simulated node."""
NAME_PREFIX = "simulated-"
MAX_NODES = 16384
LEASE_SECONDS = 40
"""How long a Lease is valid; a kubelet renews it four times as often."""
RENEW_SECONDS = 10.0

_POD_NETWORK = IPv4Network("10.128.0.0/9")
"""The addresses of pods; each node has a network of 256 addresses of it."""
_POD_NETWORK_BITS = 24
_NODE_NETWORK = IPv4Network("172.18.0.0/16")
_CAPACITY = {"cpu": "32", "ephemeral-storage": "1Ti", "memory": "256Gi", "pods": "110"}
_NOT_READY = "node.kubernetes.io/not-ready"
_HAS_MEMORY = "kubelet has sufficient memory available"
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", _HAS_MEMORY),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def is_simulated(labels: Mapping[str, str]) -> bool:
    """Report whether the kubelet of a node with these labels is simulated."""
    return labels.get(SIMULATED) == "true"


def new_node(index: int) -> Tree:
    """Return one of the nodes that `--simulate-nodes` makes."""
    name = f"{NAME_PREFIX}{index}"
    network = str(_pod_network(index))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                SIMULATED: "true",
            },
        },
        "spec": {"podCIDR": network, "podCIDRs": [network]},
    }


def _pod_network(index: int) -> IPv4Network:
    first = _POD_NETWORK.network_address + (index << (32 - _POD_NETWORK_BITS))
    return IPv4Network((first, _POD_NETWORK_BITS))


def network_index(node: Tree) -> int | None:
    """Return which of the networks of pods a node has; None if it has none of them."""
    try:
        network = IPv4Network(value_at(node, "spec", "podCIDR") or "")
    except ValueError:
        return None
    if network.prefixlen != _POD_NETWORK_BITS or not network.subnet_of(_POD_NETWORK):
        return None
    index = (int(network.network_address) - int(_POD_NETWORK.network_address)) >> 8
    return index if index < MAX_NODES else None


def node_spec(node: Tree, free_index: Callable[[], int]) -> Tree:
    """Return the spec of a node that is ready: it has a network of pods, the one whose number
    `free_index` returns unless it has one already, and no taint that it is not ready."""
    spec = dict(node.get("spec") or {})
    if not spec.get("podCIDR"):
        network = str(_pod_network(free_index()))
        spec |= {"podCIDR": network, "podCIDRs": [network]}
    taints = [taint for taint in spec.pop("taints", None) or () if taint.get("key") != _NOT_READY]
    return spec | ({"taints": taints} if taints else {})


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
        "conditions": _conditions(status.get("conditions") or [], now),
        "nodeInfo": _node_info(node, version),
    }


def _addresses(node: Tree) -> list[Tree]:
    """Return addresses by the number of the node's network of pods, or else by its name."""
    name, index = name_of(node), network_index(node)
    if index is None:
        index = MAX_NODES + crc32(name.encode()) % MAX_NODES
    return [
        {"type": "InternalIP", "address": str(_NODE_NETWORK.network_address + 2 + index)},
        {"type": "Hostname", "address": name},
    ]


def _conditions(present: list[Tree], now: float) -> list[Tree]:
    time = timestamp(now)
    names = {name for name, *_ in _CONDITIONS}
    conditions = [condition for condition in present if condition.get("type") not in names]
    for name, status, reason, message in _CONDITIONS:
        old = find_condition(present, name)
        if old is not None and (old.get("status"), old.get("reason")) == (status, reason):
            conditions.append(old)
            continue
        condition = {"type": name, "status": status, "lastHeartbeatTime": time}
        conditions.append(
            condition | {"lastTransitionTime": time, "reason": reason, "message": message}
        )
    return conditions


def _node_info(node: Tree, version: str) -> Tree:
    identity = uid_of(node)
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


def internal_address(node: Tree) -> str:
    """Return the internal address of a node, or ""."""
    for address in value_at(node, "status", "addresses") or ():
        if address.get("type") == "InternalIP":
            return address.get("address") or ""
    return ""


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
