"""Decides whether the preemption of a pod violates a PodDisruptionBudget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kapiserver.api.accessors import namespace_of, value_at
from kapiserver.api.errors import BadObject
from kapiserver.api.label_selectors import selection_of, selects_everything
from kapiserver.api.types import Tree
from kapiserver.simulation.scheduler.pod_info import PodInfo


class _Budget:
    """A budget, and how many more of its pods may end."""

    def __init__(self, tree: Tree) -> None:
        selector = value_at(tree, "spec", "selector")
        self.namespace = namespace_of(tree)
        self.allowed: int = value_at(tree, "status", "disruptionsAllowed") or 0
        self.disrupted: Tree = value_at(tree, "status", "disruptedPods") or {}
        try:
            self.pods = None if selects_everything(selector or {}) else selection_of(selector)
        except BadObject:
            self.pods = None

    def concerns(self, pod: PodInfo) -> bool:
        """Report whether the end of a pod counts: an eviction that was allowed counts already."""
        return (
            self.pods is not None
            and self.namespace == pod.namespace
            and pod.name not in self.disrupted
            and self.pods.matches(pod.labels, {})
        )


def violating_pods(pods: Sequence[PodInfo], budgets: Iterable[Tree]) -> list[PodInfo]:
    """Return the pods whose end violates a budget if they end in this order."""
    limits = [_Budget(budget) for budget in budgets]
    return [pod for pod in pods if pod.labels and _violates(pod, limits)]


def _violates(pod: PodInfo, budgets: Sequence[_Budget]) -> bool:
    """Count the end of a pod, and report whether a budget is exceeded by it."""
    for budget in budgets:
        if budget.concerns(pod):
            budget.allowed -= 1
            if budget.allowed < 0:
                return True
    return False
