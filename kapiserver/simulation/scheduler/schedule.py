"""The decision about one pod: the node that it is bound to, or why there is none.

Mirrors schedulePod and FitError of pkg/scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kapiserver.api.types import Tree
from kapiserver.simulation.scheduler.fit_message import fit_message
from kapiserver.simulation.scheduler.plugins.dynamic_resources import (
    ClaimToReserve,
    claim_to_free,
    claims_to_reserve,
    resource_claim_problem,
)
from kapiserver.simulation.scheduler.plugins.filters import (
    checks_for,
    fits,
    rejection_with_nominated,
)
from kapiserver.simulation.scheduler.plugins.node_affinity import required_node_names
from kapiserver.simulation.scheduler.plugins.rejection import Rejection
from kapiserver.simulation.scheduler.plugins.scores import best_node
from kapiserver.simulation.scheduler.plugins.volume_binding import (
    ClaimToBind,
    claim_problem,
    claims_to_bind,
)
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.preemption import preempt
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot

_NO_NODES = "no nodes available to schedule pods"
_MIN_NODES = 100
"""In clusters of more nodes, only some of those that fit are looked for and scored."""
_MIN_PERCENTAGE = 5


@dataclass(frozen=True)
class Placement:
    """The pod fits.

    node            the name of its node
    claims          the ResourceClaims to allocate and reserve
    volume_claims   the PersistentVolumeClaims that must be bound before the pod is
    """

    node: str
    claims: Sequence[ClaimToReserve] = ()
    volume_claims: Sequence[ClaimToBind] = ()


@dataclass(frozen=True)
class Unschedulable:
    """The pod fits nowhere.

    message         why, in the words of kube-scheduler
    nominated_node  the node where the pod will fit when its victims have ended, or ""
    victims         the pods that have to end for that
    claim_to_free   a ResourceClaim whose allocation keeps the pod from its nodes, or None
    """

    message: str
    nominated_node: str = ""
    victims: Sequence[PodInfo] = ()
    claim_to_free: Tree | None = None


def schedule(pod: PodInfo, snapshot: Snapshot) -> Placement | Unschedulable:
    """Decide about a pod. The snapshot remembers where the search ended, and is not changed
    otherwise. Raises SchedulingError."""
    if not snapshot.nodes:
        return Unschedulable(_NO_NODES)
    nominated = _nominated_node(pod, snapshot)
    if nominated is not None:
        return _placement(pod, snapshot, nominated)
    names = required_node_names(pod)
    nodes = snapshot.nodes
    if names is not None:
        named_nodes = (snapshot.node(name) for name in sorted(names))
        nodes = [node for node in named_nodes if node is not None]
    problem = "pod affinity terms conflict" if names == frozenset() else ""
    problem = problem or claim_problem(pod, snapshot) or resource_claim_problem(pod, snapshot)
    if problem:
        return _unschedulable(pod, snapshot, {}, problem)
    fitting, rejections = _search(pod, snapshot, nodes)
    if fitting:
        return _placement(pod, snapshot, best_node(pod, snapshot, fitting))
    return _unschedulable(pod, snapshot, rejections)


def _placement(pod: PodInfo, snapshot: Snapshot, node: NodeInfo) -> Placement:
    return Placement(
        node.name, claims_to_reserve(pod, snapshot, node), claims_to_bind(pod, snapshot, node)
    )


def _nominated_node(pod: PodInfo, snapshot: Snapshot) -> NodeInfo | None:
    """Return the node whose pods made room for the pod, if the pod fits there by now."""
    node = snapshot.node(pod.nominated_node) if pod.nominated_node else None
    return node if node is not None and fits(pod, snapshot, node) else None


def _search(
    pod: PodInfo, snapshot: Snapshot, nodes: Sequence[NodeInfo]
) -> tuple[list[NodeInfo], dict[str, Rejection]]:
    """Return nodes that fit, as many as needed, and the rejections of the others that were looked
    at."""
    checks = checks_for(pod, snapshot)
    enough, count = _nodes_to_find(len(nodes)), len(nodes)
    start = snapshot.search_start % count if count else 0
    fitting: list[NodeInfo] = []
    rejections: dict[str, Rejection] = {}
    for index in range(start, start + count):
        node = nodes[index % count]
        rejection = rejection_with_nominated(pod, snapshot, node, checks)
        if rejection is not None:
            rejections[node.name] = rejection
            continue
        fitting.append(node)
        if len(fitting) == enough:
            break
    if enough < count:
        snapshot.search_start = (start + len(fitting) + len(rejections)) % count
    return fitting, rejections


def _nodes_to_find(count: int) -> int:
    if count < _MIN_NODES:
        return count
    percentage = max(50 - count // 125, _MIN_PERCENTAGE)
    return max(count * percentage // 100, _MIN_NODES)


def _unschedulable(
    pod: PodInfo,
    snapshot: Snapshot,
    rejections: dict[str, Rejection],
    problem: str = "",
) -> Unschedulable:
    """Return the message, about the nodes or about a problem that no node solves."""
    count = len(snapshot.nodes)
    if problem:
        message = f"0/{count} nodes are available: {problem}."
    else:
        reasons = Counter(
            reason for rejection in rejections.values() for reason in rejection.reasons
        )
        if count > len(rejections):
            reasons["node(s) didn't satisfy plugin(s) [NodeAffinity]"] += count - len(rejections)
        message = fit_message(count, reasons)
    claim = None if problem else claim_to_free(pod, snapshot)
    preemption = preempt(pod, snapshot, rejections)
    text = f"preemption: {preemption.text}"
    if claim is not None:
        text = f"deallocation of ResourceClaim completed, {text}"
    return Unschedulable(f"{message} {text}", preemption.nominated_node, preemption.victims, claim)
