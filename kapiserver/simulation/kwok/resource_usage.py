"""What kwok's ResourceUsages and ClusterResourceUsages say that containers use.

A ResourceUsage counts for the pod of its name, a ClusterResourceUsage for the pods that it selects:
the first one in the order of names that has an entry for the container. Mirrors
pkg/kwok/server/metrics_resource_usage.go of kwok.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kapiserver.api.accessors import name_of, namespace_of, value_at
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree
from kapiserver.simulation.kwok.expressions import (
    ExpressionError,
    Surroundings,
    evaluate,
    number_of,
)

_MOST = 1e15
"""The most CPUs or bytes that a container uses."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResourceUsages:
    """The objects of both kinds, those of pods by namespace and name, and what their expressions
    know."""

    of_pods: Mapping[tuple[str, str], Tree]
    of_cluster: Sequence[Tree]
    surroundings: Surroundings

    def amounts(self, node: Tree, pod: Tree, container: Tree) -> Mapping[str, float] | None:
        """Return what a container uses, by resource, from 0 to 1e15; None if no object says it.
        What cannot be evaluated counts as 0, and is logged."""
        entry = self._entry(pod, container.get("name") or "")
        if entry is None:
            return None
        variables = {"node": node, "pod": pod, "container": container}
        return {
            resource: self._amount(amount, variables)
            for resource, amount in (entry.get("usage") or {}).items()
        }

    def _entry(self, pod: Tree, container: str) -> Tree | None:
        name, namespace = name_of(pod), namespace_of(pod)
        of_pod = self.of_pods.get((namespace, name))
        if of_pod is not None:
            return _entry_of(of_pod, container)
        for each in self.of_cluster:
            selector = value_at(each, "spec", "selector") or {}
            if _selects(selector.get("matchNames"), name) and _selects(
                selector.get("matchNamespaces"), namespace
            ):
                entry = _entry_of(each, container)
                if entry is not None:
                    return entry
        return None

    def _amount(self, amount: Tree, variables: Mapping[str, Tree]) -> float:
        try:
            if amount.get("value") is not None:
                return _limited(float(parse(str(amount["value"])).decimal))
            if amount.get("expression"):
                value = evaluate(amount["expression"], variables, self.surroundings)
                return _limited(number_of(value))
        except (ArithmeticError, ValueError, ExpressionError) as error:
            _warn_once(name_of(variables["pod"]), str(error))
        return 0.0


@functools.lru_cache(maxsize=1024)
def _warn_once(pod: str, problem: str) -> None:
    """Log a problem, which each read would find again."""
    _log.warning("the usage of pod %s: %s", pod, problem)


def _limited(amount: float) -> float:
    """Return an amount of CPUs or bytes within limits."""
    return min(max(amount, 0.0), _MOST)


def _selects(values: Sequence[str] | None, value: str) -> bool:
    return not values or value in values


def _entry_of(obj: Tree, container: str) -> Tree | None:
    """Return the entry for a container: one that names it, or else the first one without names."""
    entries: Sequence[Tree] = value_at(obj, "spec", "usages") or ()
    for entry in entries:
        if container in (entry.get("containers") or ()):
            return entry
    return next((entry for entry in entries if not entry.get("containers")), None)
