"""Decides whether a kubelet takes a pod, and whether it has room for other resources of one.

A scheduler never binds a pod that a kubelet rejects, but whoever sets `spec.nodeName` may do so.
Mirrors the predicates of pkg/kubelet/lifecycle. Unlike a real kubelet, a simulated one does not
preempt other pods for a critical pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kapiserver.api.accessors import generation_of, labels_of, name_of, value_at
from kapiserver.api.core.pods.node_affinity import required_affinity
from kapiserver.api.core.pods.tolerations import tolerates
from kapiserver.api.types import Tree
from kapiserver.simulation.pod_resize import with_present_resources
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.requests import quantities_of, requests_of
from kapiserver.simulation.scheduler.snapshot import NodeInfo
from kapiserver.storage.objects.lifecycle import timestamp

REJECTED = "Pod was rejected: "
"""How the message in the status of a rejected pod begins."""
_OS = "kubernetes.io/os"
_CRITICAL_PRIORITY = 2_000_000_000
_MAIN_RESOURCES = ("cpu", "memory", "ephemeral-storage")


class Rejection(NamedTuple):
    """Why a kubelet does not take a pod."""

    reason: str
    message: str


class AdmittedPods:
    """The pods that the kubelets of all nodes have taken."""

    def __init__(self) -> None:
        self._pods: dict[str, PodInfo] = {}
        self._nodes: dict[str, NodeInfo] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def add(self, pod: Tree) -> None:
        """Add a pod to its node, or replace it."""
        info = PodInfo(pod)
        self.remove(info.uid)
        self._pods[info.uid] = info
        self._nodes.setdefault(info.node_name, NodeInfo(info.node_name)).add(info)

    def remove(self, uid: str) -> None:
        """Remove a pod, if it is known."""
        pod = self._pods.pop(uid, None)
        if pod is not None:
            node = self._nodes[pod.node_name]
            node.remove(pod)
            if not node.pods:
                del self._nodes[pod.node_name]

    def rejection(self, pod: Tree, node: Tree) -> Rejection | None:
        """Return why the kubelet of a node does not take a pod beside those that it has; None if
        it does."""
        name = name_of(node)
        return next(_rejections(PodInfo(pod), self._nodes.get(name) or NodeInfo(name), node), None)


def rejected_status(pod: Tree, rejection: Rejection, now: float) -> Tree:
    """Return the status of a pod that a kubelet does not take."""
    status = {
        "observedGeneration": generation_of(pod),
        "phase": "Failed",
        "reason": rejection.reason,
        "message": REJECTED + rejection.message,
        "startTime": timestamp(now),
    }
    qos_class = value_at(pod, "status", "qosClass")
    return status | ({"qosClass": qos_class} if qos_class else {})


def _rejections(pod: PodInfo, taken: NodeInfo, node: Tree) -> Iterator[Rejection]:
    """Yield the reasons in the order in which a kubelet checks them."""
    operating_system = value_at(node, "status", "nodeInfo", "operatingSystem") or "linux"
    if pod.labels.get(_OS, operating_system) != operating_system:
        message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
        yield Rejection("PodOSSelectorNodeLabelDoesNotMatch", message)
    if (value_at(pod.spec, "os", "name") or operating_system) != operating_system:
        message = "Failed to admit pod as the OS field doesn't match node OS"
        yield Rejection("PodOSNotSupported", message)
    if pod.priority < _CRITICAL_PRIORITY:
        yield from _lacks(pod, taken, node)
    matches = required_affinity(pod.spec)
    taken.labels = labels_of(node)
    if matches is not None and not matches(taken):
        yield _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    ports = [port for other in taken.pods.values() for port in other.host_ports]
    if any(port.conflicts_with(used_port) for port in pod.host_ports for used_port in ports):
        yield _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    taints = value_at(node, "spec", "taints") or ()
    if any(
        taint.get("effect") == "NoExecute" and not tolerates(pod.tolerations, taint)
        for taint in taints
    ):
        yield _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def _failed(predicate: str, description: str) -> Rejection:
    return Rejection(predicate, f"Predicate {predicate} failed: {description}")


def _lacks(pod: PodInfo, taken: NodeInfo, node: Tree) -> Iterator[Rejection]:
    """Yield the resources that a node lacks. Extended resources that it does not know are for
    others to provide, such as drivers of devices."""
    capacity = quantities_of(value_at(node, "status", "allocatable"))
    wanted, used = {"pods": 1}, {"pods": len(taken.pods)} | taken.requested
    main = [name for name in _MAIN_RESOURCES if name in pod.requests]
    known = sorted(name for name in pod.requests if name not in main and name in capacity)
    wanted |= {name: pod.requests[name] for name in (*main, *known)}
    for name, requested in wanted.items():
        if requested > capacity.get(name, 0) - used.get(name, 0):
            yield Rejection(
                f"OutOf{name}",
                _insufficient(name, requested, used.get(name, 0), capacity.get(name, 0)),
            )


def refusal(pod: Tree, others: Iterable[Tree], node: Tree) -> str:
    """Return why a node has no room for what a pod requests beside other pods, "" if it has."""
    capacity, used = quantities_of(value_at(node, "status", "allocatable")), Counter[str]()
    for other in others:
        used.update(requests_of(with_present_resources(other)))
    for name, requested in requests_of(pod).items():
        if requested > capacity.get(name, 0) - used[name]:
            return _insufficient(name, requested, used[name], capacity.get(name, 0))
    return ""


def _insufficient(name: str, requested: int, used: int, capacity: int) -> str:
    return (
        f"Node didn't have enough resource: {name}, requested: {requested}, "
        f"used: {used}, capacity: {capacity}"
    )
