"""Decides whether a node has room for a pod that asks for other resources.

Mirrors AdmitPod of pkg/kubelet/lifecycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree
from kapiserver.simulation.pod_resize import with_present_resources
from kapiserver.simulation.scheduler.requests import quantities_of, requests_of


def refusal(pod: Tree, others: Iterable[Tree], node: Tree) -> str:
    """Return why a node has no room for what a pod requests beside other pods, "" if it has."""
    capacity, used = quantities_of(value_at(node, "status", "allocatable")), Counter[str]()
    for other in others:
        used.update(requests_of(with_present_resources(other)))
    for name, requested in requests_of(pod).items():
        if requested > capacity.get(name, 0) - used[name]:
            return (
                f"Node didn't have enough resource: {name}, requested: {requested}, "
                f"used: {used[name]}, capacity: {capacity.get(name, 0)}"
            )
    return ""
