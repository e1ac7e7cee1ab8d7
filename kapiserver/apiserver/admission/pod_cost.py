"""What a step of admission costs for a pod, so that a thread does the expensive ones."""

from __future__ import annotations

from kapiserver.api.types import Tree

_COST_OF_CONTAINER = 10


def pod_cost(spec: Tree) -> int:
    """Return the cost of one step of admission for a pod (`codecs/cost.py`)."""
    containers = sum(len(spec.get(kind) or ()) for kind in ("containers", "initContainers"))
    return _COST_OF_CONTAINER * containers
