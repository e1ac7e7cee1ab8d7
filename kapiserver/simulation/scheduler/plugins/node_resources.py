"""Resources: whether a node has room, and how evenly nodes are used.

Mirrors pkg/scheduler/framework/plugins/noderesources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kapiserver.simulation.scheduler.plugins.normalize import MAX_SCORE
from kapiserver.simulation.scheduler.plugins.rejection import Check, Rejection
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.requests import SCORED
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot


def fit_filter(pod: PodInfo, _snapshot: Snapshot) -> Check:
    """Reject nodes without enough free resources (NodeResourcesFit)."""
    requests = list(pod.requests.items())

    def check(node: NodeInfo) -> Rejection | None:
        allocatable, requested = node.allocatable, node.requested
        reasons = []
        if len(node.pods) + 1 > allocatable.get("pods", 0):
            reasons.append("Too many pods")
        resolvable = True
        for name, amount in requests:
            capacity = allocatable.get(name, 0)
            if amount > capacity - requested.get(name, 0):
                reasons.append(f"Insufficient {name}")
                resolvable = resolvable and amount <= capacity
        return Rejection(tuple(reasons), resolvable) if reasons else None

    return check


def least_allocated_scores(
    pod: PodInfo, _snapshot: Snapshot, nodes: Sequence[NodeInfo]
) -> list[int]:
    """Return a higher score for a node with a larger free part of its cpu and memory."""
    cpu, memory = (pod.scored_requests[name] for name in SCORED)
    scores = []
    for node in nodes:
        used, allocatable = node.scored_requested, node.allocatable
        total = count = 0
        for name, amount in (("cpu", cpu), ("memory", memory)):
            capacity = allocatable.get(name, 0)
            if capacity:
                free = capacity - used.get(name, 0) - amount
                total += free * MAX_SCORE // capacity if free > 0 else 0
                count += 1
        scores.append(total // count if count else 0)
    return scores


def balanced_allocation_scores(
    pod: PodInfo, _snapshot: Snapshot, nodes: Sequence[NodeInfo]
) -> list[int] | None:
    """Return a higher score for a node whose use of cpu and memory gets more even by the pod. Pods
    without requests change nothing, so that no node is scored."""
    requests = {name: pod.requests.get(name, 0) for name in SCORED}
    if not any(requests.values()):
        return None
    scores, half = [], MAX_SCORE // 2
    for node in nodes:
        after = _balance(
            {name: node.requested.get(name, 0) + requests[name] for name in SCORED}, node
        )
        before = _balance(node.requested, node)
        scores.append(half + (half + after - before) // 2)
    return scores


def _balance(used: Mapping[str, int], node: NodeInfo) -> int:
    fractions = [
        min(used.get(name, 0) / capacity, 1.0)
        for name in SCORED
        if (capacity := node.allocatable.get(name, 0))
    ]
    deviation = abs(fractions[0] - fractions[1]) / 2 if len(fractions) == 2 else 0.0
    return int((1 - deviation) * MAX_SCORE)
