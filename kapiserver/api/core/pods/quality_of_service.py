"""The quality of service class of a pod, which determines the order of eviction from a node.

Mirrors ComputePodQOS of pkg/apis/core/v1/helper/qos.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from kapiserver.api.accessors import value_at
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree

QualityOfService: TypeAlias = Literal["BestEffort", "Burstable", "Guaranteed"]

_RESOURCES = ("cpu", "memory")


def quality_of_service(pod: Tree) -> QualityOfService:
    """Return the class of a defaulted pod."""
    spec = pod.get("spec") or {}
    if spec.get("resources"):
        requirements = [spec["resources"]]
    else:
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        requirements = [container.get("resources") or {} for container in containers]
    requests = [_amounts(value_at(requirement, "requests")) for requirement in requirements]
    limits = [_amounts(value_at(requirement, "limits")) for requirement in requirements]
    if not any(requests) and not any(limits):
        return "BestEffort"
    guaranteed = all(
        len(limit) == len(_RESOURCES) and request == limit
        for request, limit in zip(requests, limits, strict=True)
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _amounts(quantities: Any) -> dict[str, Any]:
    amounts = {}
    for name in _RESOURCES:
        try:
            amount = parse((quantities or {}).get(name) or "0").decimal
        except ValueError:  # validation reports it
            continue
        if amount > 0:
            amounts[name] = amount
    return amounts
