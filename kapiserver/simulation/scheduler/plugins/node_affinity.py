"""Node names, node selectors and node affinity.

Mirrors the plugins nodename and nodeaffinity of pkg/scheduler/framework/plugins, and
component-helpers/scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.accessors import value_at
from kapiserver.api.core.pods.node_affinity import REQUIRED, required_affinity, term_matches
from kapiserver.simulation.scheduler.plugins.normalize import normalized
from kapiserver.simulation.scheduler.plugins.rejection import Check, Rejection
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot

_NO_MATCH = Rejection(("node(s) didn't match Pod's node affinity/selector",), resolvable=False)
_OTHER_NAME = Rejection(("node(s) didn't match the requested node name",), resolvable=False)
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node_name_filter(pod: PodInfo, _snapshot: Snapshot) -> Check | None:
    """Reject nodes other than the one that the pod names (NodeName)."""
    name = pod.spec.get("nodeName")
    return (lambda node: None if node.name == name else _OTHER_NAME) if name else None


def node_affinity_filter(pod: PodInfo, _snapshot: Snapshot) -> Check | None:
    """Reject nodes that node selector or required affinity do not select (NodeAffinity)."""
    matches = required_affinity(pod.spec)
    return (lambda node: None if matches(node) else _NO_MATCH) if matches else None


def required_node_names(pod: PodInfo) -> frozenset[str] | None:
    """Return the names of the only nodes that required affinity allows by `metadata.name`, as the
    pods of a DaemonSet have it; None if other nodes are allowed too."""
    required = value_at(pod.spec, "affinity", "nodeAffinity", REQUIRED)
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
    weights = [(term.get("preference") or {}, term.get("weight") or 0) for term in preferred]
    return normalized(
        [sum(weight for term, weight in weights if term_matches(term, node)) for node in nodes]
    )
