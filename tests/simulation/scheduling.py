"""Pods, nodes and snapshots for the tests of the scheduler."""

from __future__ import annotations

from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.schedule import Placement, schedule
from kapiserver.simulation.scheduler.snapshot import Snapshot


def a_node(name="one", *, labels=None, taints=(), unschedulable=False, **allocatable):
    resources = {"cpu": "4", "memory": "8Gi", "pods": "110"} | {
        key.replace("_", "-"): value for key, value in allocatable.items()
    }
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name} | (labels or {})},
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {"allocatable": resources},
    }


def a_container(requests=None, **fields):
    return {"name": "c", "image": "i", "resources": {"requests": requests or {}}} | fields


def a_pod(name="web", requests=None, *, labels=None, namespace="shop", status=None, **spec):
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}/{name}",
            "labels": labels or {},
        },
        "spec": {"containers": [a_container(requests)]} | spec,
        "status": status or {},
    }


def on(node, pod):
    """The pod, bound to a node."""
    return pod | {"spec": pod["spec"] | {"nodeName": node}}


def a_snapshot(nodes, pods=(), namespaces=None):
    snapshot = Snapshot()
    snapshot.namespaces.update(namespaces or {"shop": {"team": "shop"}})
    for node in nodes:
        snapshot.set_node(node)
    for pod in pods:
        snapshot.add_pod(PodInfo(pod))
    return snapshot


def decide(pod, snapshot):
    """The name of the node, or the message."""
    decision = schedule(PodInfo(pod), snapshot)
    return decision.node if isinstance(decision, Placement) else decision.message
