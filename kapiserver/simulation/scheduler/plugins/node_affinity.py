"""Node names, node selectors and node affinity.

Mirrors the plugins nodename and nodeaffinity of pkg/scheduler/framework/plugins, and
component-helpers/scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree
from kapiserver.simulation.scheduler.plugins.normalize import normalized
from kapiserver.simulation.scheduler.plugins.rejection import Check, Rejection
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot

_NO_MATCH = Rejection(("node(s) didn't match Pod's node affinity/selector",), resolvable=False)
_OTHER_NAME = Rejection(("node(s) didn't match the requested node name",), resolvable=False)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_INTEGER = re.compile(r"[+-]?[0-9]+")


def node_name_filter(pod: PodInfo, _snapshot: Snapshot) -> Check | None:
    """Reject nodes other than the one that the pod names (NodeName)."""
    name = pod.spec.get("nodeName")
    return (lambda node: None if node.name == name else _OTHER_NAME) if name else None


def node_affinity_filter(pod: PodInfo, _snapshot: Snapshot) -> Check | None:
    """Reject nodes that node selector or required affinity do not select (NodeAffinity)."""
    matches = required_affinity(pod)
    return (lambda node: None if matches(node) else _NO_MATCH) if matches else None


def required_affinity(pod: PodInfo) -> Callable[[NodeInfo], bool] | None:
    """Return a function that reports whether node selector and required affinity of a pod select a
    node; None if the pod has neither."""
    labels = pod.spec.get("nodeSelector") or {}
    required = value_at(pod.spec, "affinity", "nodeAffinity", _REQUIRED)
    if not labels and required is None:
        return None
    terms = (required or {}).get("nodeSelectorTerms") or ()

    def matches(node: NodeInfo) -> bool:
        if any(node.labels.get(name) != value for name, value in labels.items()):
            return False
        return required is None or any(term_matches(term, node) for term in terms)

    return matches


def required_node_names(pod: PodInfo) -> frozenset[str] | None:
    """Return the names of the only nodes that required affinity allows by `metadata.name`, as the
    pods of a DaemonSet have it; None if other nodes are allowed too."""
    required = value_at(pod.spec, "affinity", "nodeAffinity", _REQUIRED)
    names: frozenset[str] = frozenset()
    terms = (required or {}).get("nodeSelectorTerms") or ()
    for term in terms:
        allowed = [
            frozenset(field.get("values") or ())
            for field in term.get("matchFields") or ()
            if field.get("key") == "metadata.name" and field.get("operator") == "In"
        ]
        if not allowed:
            return None
        names |= frozenset.intersection(*allowed)
    return names if terms else None


def node_affinity_scores(
    pod: PodInfo, _snapshot: Snapshot, nodes: Sequence[NodeInfo]
) -> list[int] | None:
    """Return the weights of the preferred terms that select a node, normalized."""
    preferred = value_at(pod.spec, "affinity", "nodeAffinity", _PREFERRED)
    if not preferred:
        return None
    weights = [(each.get("preference") or {}, each.get("weight") or 0) for each in preferred]
    return normalized(
        [sum(weight for term, weight in weights if term_matches(term, node)) for node in nodes]
    )


def term_matches(term: Tree, node: NodeInfo) -> bool:
    """Report whether a NodeSelectorTerm selects a node; an empty term selects none."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    names = {"metadata.name": node.name}
    return all(_holds(each, node.labels) for each in expressions) and all(
        _holds(each, names) for each in fields
    )


def _holds(requirement: Tree, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.get("key") or "")
    values: Sequence[str] = requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _is_greater(value, values[0])
        case "Lt":
            return _is_greater(values[0], value)
    return False


def _is_greater(one: str | None, other: str | None) -> bool:
    if not one or not other or not _INTEGER.fullmatch(one) or not _INTEGER.fullmatch(other):
        return False
    return int(one) > int(other)
