"""Affinity and anti-affinity between pods.

A term names pods by labels and namespaces, and a key: nodes with the same value of this label are
one topology domain. Anti-affinity is symmetric: a pod is also kept away by the terms of pods that
run already. Mirrors the plugin interpodaffinity of pkg/scheduler/framework/plugins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from kapiserver.simulation.scheduler.affinity_terms import AffinityTerm, WeightedTerm
from kapiserver.simulation.scheduler.plugins.normalize import MAX_SCORE
from kapiserver.simulation.scheduler.plugins.rejection import Check, Rejection
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot

_NO_AFFINITY = Rejection(("node(s) didn't match pod affinity rules",), resolvable=False)
_ANTI_AFFINITY = Rejection(("node(s) didn't match pod anti-affinity rules",), resolvable=True)
_EXISTING = Rejection(
    ("node(s) didn't satisfy existing pods anti-affinity rules",), resolvable=True
)
_HARD_AFFINITY_WEIGHT = 1
"""The weight by which a required term of a running pod attracts the pods that it names."""

_Domain: TypeAlias = tuple[str, str]
"""The key and the value of a label of nodes."""


def pod_affinity_filter(pod: PodInfo, snapshot: Snapshot) -> Check | None:
    """Reject nodes by required affinity and anti-affinity (InterPodAffinity)."""
    required = pod.affinity.required if pod.affinity is not None else ()
    forbidden = pod.affinity.forbidden if pod.affinity is not None else ()
    repelled = _domains_that_repel(pod, snapshot)
    if not required and not forbidden and not repelled:
        return None
    attracting = _domains(
        (term.topology_key, node)
        for node, other in _running_pods(snapshot, bool(required))
        if all(_names(term, other, snapshot) for term in required)
        for term in required
    )
    conflicting = _domains(
        (term.topology_key, node)
        for node, other in _running_pods(snapshot, bool(forbidden))
        for term in forbidden
        if _names(term, other, snapshot)
    )
    # The first pod of a group that has affinity to itself may run anywhere.
    is_first = not attracting and all(_names(term, pod, snapshot) for term in required)

    def check(node: NodeInfo) -> Rejection | None:
        labels = node.labels
        for term in required:
            if term.topology_key not in labels:
                return _NO_AFFINITY
            if not is_first and (term.topology_key, labels[term.topology_key]) not in attracting:
                return _NO_AFFINITY
        if any(_domain(term, labels) in conflicting for term in forbidden):
            return _ANTI_AFFINITY
        if repelled and any(domain in repelled for domain in labels.items()):
            return _EXISTING
        return None

    return check


def _domains_that_repel(pod: PodInfo, snapshot: Snapshot) -> Mapping[_Domain, int]:
    """Return the domains with pods whose required anti-affinity names the pod."""
    return _domains(
        (term.topology_key, node)
        for node, other in _pods_with_affinity(snapshot)
        if other.affinity is not None
        for term in other.affinity.forbidden
        if _names(term, pod, snapshot)
    )


def _running_pods(snapshot: Snapshot, is_needed: bool) -> Iterator[tuple[NodeInfo, PodInfo]]:
    if is_needed:
        yield from ((node, pod) for node in snapshot.nodes for pod in node.pods.values())


def _pods_with_affinity(snapshot: Snapshot) -> Iterator[tuple[NodeInfo, PodInfo]]:
    for pod in snapshot.with_affinity.values():
        node = snapshot.node(pod.node_name)
        if node is not None:
            yield node, pod


def _domains(keyed_nodes: Iterable[tuple[str, NodeInfo]]) -> Counter[_Domain]:
    return Counter((key, node.labels[key]) for key, node in keyed_nodes if key in node.labels)


def _names(term: AffinityTerm, pod: PodInfo, snapshot: Snapshot) -> bool:
    """Report whether a term names a pod."""
    if term.pods is None or not term.pods.matches(pod.labels, {}):
        return False
    if pod.namespace in term.namespaces:
        return True
    labels = snapshot.namespaces.get(pod.namespace, {})
    return term.selected_namespaces is not None and term.selected_namespaces.matches(labels, {})


def _domain(term: AffinityTerm, labels: Mapping[str, str]) -> _Domain | None:
    value = labels.get(term.topology_key)
    return None if value is None else (term.topology_key, value)


def pod_affinity_scores(
    pod: PodInfo, snapshot: Snapshot, nodes: Sequence[NodeInfo]
) -> list[int] | None:
    """Return the weights of the preferred terms in each node's domains, from 0 to 100: those of the
    pod, and those of running pods that name the pod."""
    preferred = pod.affinity.preferred if pod.affinity is not None else ()
    weights: Counter[_Domain] = Counter()
    for node, other in _running_pods(snapshot, bool(preferred)):
        _add_weights(weights, node, preferred, other, snapshot)
    for node, other in _pods_with_affinity(snapshot):
        assert other.affinity is not None
        attracted = [WeightedTerm(_HARD_AFFINITY_WEIGHT, term) for term in other.affinity.required]
        _add_weights(weights, node, (*attracted, *other.affinity.preferred), pod, snapshot)
    if not weights:
        return None
    keys = {key for key, _ in weights}
    sums = [sum(weights[key, node.labels.get(key, "")] for key in keys) for node in nodes]
    lowest, highest = min(sums), max(sums)
    if lowest == highest:
        return [0] * len(sums)
    return [MAX_SCORE * (total - lowest) // (highest - lowest) for total in sums]


def _add_weights(
    weights: Counter[_Domain],
    node: NodeInfo,
    terms: Iterable[WeightedTerm],
    pod: PodInfo,
    snapshot: Snapshot,
) -> None:
    for weight, term in terms:
        if term.topology_key in node.labels and _names(term, pod, snapshot):
            weights[term.topology_key, node.labels[term.topology_key]] += weight
