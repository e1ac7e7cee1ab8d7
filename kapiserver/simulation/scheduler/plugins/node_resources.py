"""Resources: whether a node has room, and how evenly nodes are used.

Mirrors pkg/scheduler/framework/plugins/noderesources.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.simulation.scheduler.plugins.dynamic_resources import extended_classes
from kapiserver.simulation.scheduler.plugins.normalize import MAX_SCORE
from kapiserver.simulation.scheduler.plugins.rejection import Check, Rejection
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.requests import SCORED
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot


def fit_filter(pod: PodInfo, snapshot: Snapshot) -> Check:
    """Reject nodes without enough free resources (NodeResourcesFit). A resource that a node does
    not have itself may be provided by devices, which `dynamic_resources` looks for."""
    requests = list(pod.requests.items())
    by_devices = extended_classes(pod, snapshot)

    def check(node: NodeInfo) -> Rejection | None:
        allocatable, requested = node.allocatable, node.requested
        reasons = []
        if len(node.pods) + 1 > allocatable.get("pods", 0):
            reasons.append("Too many pods")
        resolvable = True
        for name, amount in requests:
            capacity = allocatable.get(name, 0)
            if amount > capacity - requested.get(name, 0) and (capacity or name not in by_devices):
                reasons.append(f"Insufficient {name}")
                resolvable = resolvable and amount <= capacity
        return Rejection(tuple(reasons), resolvable) if reasons else None

    return check


def resource_scores(pod: PodInfo, _snapshot: Snapshot, nodes: Sequence[NodeInfo]) -> list[int]:
    """Return the sum of two scores: one is higher for a node with a larger free part of its cpu and
    memory, the other one for a node whose use of both gets more even by the pod. A node remembers
    its score for the last requests, because pods of the same size often follow each other."""
    requests = (
        *(pod.scored_requests[name] for name in SCORED),
        *(pod.requests.get(name, 0) for name in SCORED),
    )
    scores = []
    for node in nodes:
        if node.scored_for != requests:
            node.score = _least_allocated(node, *requests[:2]) + _balanced(node, *requests[2:])
            node.scored_for = requests
        scores.append(node.score)
    return scores


def _least_allocated(node: NodeInfo, cpu: int, memory: int) -> int:
    parts = [
        max(capacity - node.scored_requested.get(name, 0) - amount, 0) * MAX_SCORE // capacity
        for name, amount in zip(SCORED, (cpu, memory), strict=True)
        if (capacity := node.allocatable.get(name, 0))
    ]
    return sum(parts) // len(parts) if parts else 0


def _balanced(node: NodeInfo, cpu: int, memory: int) -> int:
    """Return 0 for pods without requests, which change nothing."""
    if not cpu and not memory:
        return 0
    used = [node.requested.get(name, 0) for name in SCORED]
    before, after = _balance(node, *used), _balance(node, used[0] + cpu, used[1] + memory)
    half = MAX_SCORE // 2
    return half + (half + after - before) // 2


def _balance(node: NodeInfo, *used: int) -> int:
    """Return how even the use of a node is; that of a node without cpu or memory is even."""
    parts = [
        min(amount / capacity, 1.0)
        for name, amount in zip(SCORED, used, strict=True)
        if (capacity := node.allocatable.get(name, 0))
    ]
    deviation = abs(parts[0] - parts[1]) / 2 if len(parts) == 2 else 0.0
    return int((1 - deviation) * MAX_SCORE)
