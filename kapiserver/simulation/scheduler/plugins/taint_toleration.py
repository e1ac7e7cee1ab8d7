"""Taints and tolerations, and nodes that are cordoned.

Mirrors the plugins tainttoleration and nodeunschedulable of pkg/scheduler/framework/plugins.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.core.pods.tolerations import tolerates
from kapiserver.api.types import Tree
from kapiserver.simulation.scheduler.plugins.normalize import normalized
from kapiserver.simulation.scheduler.plugins.rejection import Check, Rejection
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot

_CORDONED: Tree = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_UNSCHEDULABLE = Rejection(("node(s) were unschedulable",), resolvable=False)
_UNTOLERATED = Rejection(("node(s) had untolerated taint(s)",), resolvable=False)
_BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


def has_untolerated_taint(pod: PodInfo, node: NodeInfo) -> bool:
    """Report whether the node has a taint that keeps the pod away."""
    return any(
        taint.get("effect") in _BLOCKING_EFFECTS and not tolerates(pod.tolerations, taint)
        for taint in node.taints
    )


def unschedulable_filter(pod: PodInfo, _snapshot: Snapshot) -> Check | None:
    """Reject cordoned nodes (NodeUnschedulable)."""
    if tolerates(pod.tolerations, _CORDONED):
        return None
    return lambda node: _UNSCHEDULABLE if node.is_unschedulable else None


def taint_filter(pod: PodInfo, _snapshot: Snapshot) -> Check:
    """Reject nodes with taints that the pod does not tolerate (TaintToleration)."""

    def check(node: NodeInfo) -> Rejection | None:
        if node.taints and has_untolerated_taint(pod, node):
            return _UNTOLERATED
        return None

    return check


def taint_scores(pod: PodInfo, _snapshot: Snapshot, nodes: Sequence[NodeInfo]) -> list[int] | None:
    """Return a lower score for a node with more PreferNoSchedule taints that are not tolerated."""
    if not any(node.taints for node in nodes):
        return None
    tolerations = [
        toleration
        for toleration in pod.tolerations
        if toleration.get("effect") in (None, "", "PreferNoSchedule")
    ]
    counts = [
        sum(
            taint.get("effect") == "PreferNoSchedule" and not tolerates(tolerations, taint)
            for taint in node.taints
        )
        for node in nodes
    ]
    return normalized(counts, reverse=True)
