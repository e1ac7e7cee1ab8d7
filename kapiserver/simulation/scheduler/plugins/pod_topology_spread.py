"""Topology spread: how evenly the pods of a selector are spread over the domains of a label.

`replica_spread` has the default constraints. Mirrors the plugin podtopologyspread of
pkg/scheduler/framework/plugins.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from kapiserver.api.core.pods.node_affinity import required_affinity
from kapiserver.simulation.scheduler.plugins.normalize import inverted
from kapiserver.simulation.scheduler.plugins.rejection import Check, Rejection
from kapiserver.simulation.scheduler.plugins.taint_toleration import has_untolerated_taint
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot
from kapiserver.simulation.scheduler.spread_constraints import SpreadConstraint

_TOO_UNEVEN = Rejection(("node(s) didn't match pod topology spread constraints",), resolvable=True)
_NO_LABEL = Rejection(
    ("node(s) didn't match pod topology spread constraints (missing required label)",),
    resolvable=False,
)


def spread_filter(pod: PodInfo, snapshot: Snapshot) -> Check | None:
    """Reject nodes whose domain would get too many pods (PodTopologySpread, DoNotSchedule)."""
    constraints = [
        spread_constraint
        for spread_constraint in pod.spread_constraints
        if spread_constraint.is_required
    ]
    if not constraints:
        return None
    counts = _counts(pod, constraints, snapshot.nodes)
    allowed = []
    for constraint, domains in zip(constraints, counts, strict=True):
        lowest = min(domains.values(), default=0)
        if len(domains) < constraint.min_domains:
            lowest = 0
        allowed.append(constraint.max_skew + lowest - _names(constraint, pod))

    def check(node: NodeInfo) -> Rejection | None:
        for constraint, domains, most in zip(constraints, counts, allowed, strict=True):
            value = node.labels.get(constraint.topology_key)
            if value is None:
                return _NO_LABEL
            if domains.get(value, 0) > most:
                return _TOO_UNEVEN
        return None

    return check


def _counts(
    pod: PodInfo, constraints: Sequence[SpreadConstraint], nodes: Sequence[NodeInfo]
) -> list[Counter[str]]:
    """Return the number of pods in each domain, for each constraint. Only nodes with all keys
    count."""
    counts: list[Counter[str]] = [Counter() for _ in constraints]
    is_included = _inclusion(pod)
    for node in nodes:
        if any(constraint.topology_key not in node.labels for constraint in constraints):
            continue
        for constraint, domains in zip(constraints, counts, strict=True):
            if is_included(constraint, node):
                value = node.labels[constraint.topology_key]
                domains[value] += _count(constraint, node, pod.namespace)
    return counts


def _count(constraint: SpreadConstraint, node: NodeInfo, namespace: str) -> int:
    """Count the pods on a node that are spread."""
    if not constraint.counts_pods:
        return 0
    return sum(
        pod.namespace == namespace and not pod.is_terminating and _names(constraint, pod)
        for pod in node.pods.values()
    )


def _names(constraint: SpreadConstraint, pod: PodInfo) -> bool:
    """Report whether the selector names a pod, in whatever namespace."""
    return constraint.pods is not None and constraint.pods.matches(pod.labels, {})


def _inclusion(pod: PodInfo) -> Callable[[SpreadConstraint, NodeInfo], bool]:
    selects = required_affinity(pod.spec)

    def is_included(constraint: SpreadConstraint, node: NodeInfo) -> bool:
        if constraint.honors_node_affinity and selects is not None and not selects(node):
            return False
        return not (constraint.honors_taints and has_untolerated_taint(pod, node))

    return is_included


def spread_scores(pod: PodInfo, snapshot: Snapshot, nodes: Sequence[NodeInfo]) -> list[int] | None:
    """Return a higher score for a node whose domains have fewer pods (ScheduleAnyway)."""
    constraints = [
        spread_constraint
        for spread_constraint in pod.spread_constraints
        if not spread_constraint.is_required
    ]
    if not constraints:
        return None
    counts = _counts(pod, constraints, snapshot.nodes)
    candidates = [
        node
        for node in nodes
        if all(constraint.topology_key in node.labels for constraint in constraints)
    ]
    weights = [
        math.log(len({node.labels[constraint.topology_key] for node in candidates}) + 2)
        for constraint in constraints
    ]
    unevenness = {
        node.name: round(
            sum(
                domains[node.labels[constraint.topology_key]] * weight + constraint.max_skew - 1
                for constraint, domains, weight in zip(constraints, counts, weights, strict=True)
            )
        )
        for node in candidates
    }
    return inverted(unevenness, nodes)
