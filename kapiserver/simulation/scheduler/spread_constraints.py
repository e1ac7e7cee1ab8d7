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
            max_skew=each.get("maxSkew") or 1,
            topology_key=each.get("topologyKey") or "",
            is_required=each.get("whenUnsatisfiable") != "ScheduleAnyway",
            pods=selection_of(each.get("labelSelector")),
            counts_pods=not selects_everything(each.get("labelSelector") or {}),
            min_domains=each.get("minDomains") or 1,
            honors_node_affinity=each.get("nodeAffinityPolicy") != "Ignore",
            honors_taints=each.get("nodeTaintsPolicy") == "Honor",
        )
        for each in value_at(pod, "spec", "topologySpreadConstraints") or ()
    ]
