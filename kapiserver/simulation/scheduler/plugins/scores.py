"""The scores and their weights, as in kube-scheduler's default profile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from kapiserver.simulation.scheduler.plugins.dynamic_resources import device_scores
from kapiserver.simulation.scheduler.plugins.image_locality import image_scores
from kapiserver.simulation.scheduler.plugins.inter_pod_affinity import pod_affinity_scores
from kapiserver.simulation.scheduler.plugins.node_affinity import node_affinity_scores
from kapiserver.simulation.scheduler.plugins.node_resources import resource_scores
from kapiserver.simulation.scheduler.plugins.pod_topology_spread import spread_scores
from kapiserver.simulation.scheduler.plugins.replica_spread import replica_spread_scores
from kapiserver.simulation.scheduler.plugins.taint_toleration import taint_scores
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot

_Scores: TypeAlias = Callable[[PodInfo, Snapshot, Sequence[NodeInfo]], list[int] | None]

_SCORES: tuple[tuple[int, _Scores], ...] = (
    (3, taint_scores),
    (2, node_affinity_scores),
    (2, spread_scores),
    (2, replica_spread_scores),
    (2, pod_affinity_scores),
    (2, device_scores),
    (1, resource_scores),
    (1, image_scores),
)


def best_node(pod: PodInfo, snapshot: Snapshot, nodes: Sequence[NodeInfo]) -> NodeInfo:
    """Return the node with the highest score; of equal ones that with the fewest pods, and the
    first. kube-scheduler picks one of them by chance, which a test could not repeat."""
    if len(nodes) == 1:
        return nodes[0]
    totals = [0] * len(nodes)
    for weight, score_nodes in _SCORES:
        scores = score_nodes(pod, snapshot, nodes)
        if scores is not None:
            totals = [total + weight * score for total, score in zip(totals, scores, strict=True)]
    best = max(range(len(nodes)), key=lambda index: (totals[index], -len(nodes[index].pods)))
    return nodes[best]
