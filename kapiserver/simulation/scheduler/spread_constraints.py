"""The topology spread constraints of a pod."""

from __future__ import annotations

from typing import NamedTuple

from kapiserver.api.accessors import value_at
from kapiserver.api.label_selectors import selection_of, selects_everything
from kapiserver.api.selectors import Selection
from kapiserver.api.types import Tree


class SpreadConstraint(NamedTuple):
    """A topology spread constraint.

    counts_pods             whether the selector has requirements; without one no pod is counted
    honors_node_affinity    whether nodes that the pod's node affinity excludes are left out
    honors_taints           whether nodes with untolerated taints are left out
    """

    max_skew: int
    topology_key: str
    is_required: bool
    pods: Selection | None
    counts_pods: bool
    min_domains: int
    honors_node_affinity: bool
    honors_taints: bool


def constraints_of(pod: Tree) -> list[SpreadConstraint]:
    """Parse the constraints of a pod. The API server has merged `matchLabelKeys` into selectors."""
    return [
        SpreadConstraint(
            max_skew=constraint.get("maxSkew") or 1,
            topology_key=constraint.get("topologyKey") or "",
            is_required=constraint.get("whenUnsatisfiable") != "ScheduleAnyway",
            pods=selection_of(constraint.get("labelSelector")),
            counts_pods=not selects_everything(constraint.get("labelSelector") or {}),
            min_domains=constraint.get("minDomains") or 1,
            honors_node_affinity=constraint.get("nodeAffinityPolicy") != "Ignore",
            honors_taints=constraint.get("nodeTaintsPolicy") == "Honor",
        )
        for constraint in value_at(pod, "spec", "topologySpreadConstraints") or ()
    ]
