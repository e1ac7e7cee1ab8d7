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

from kapiserver.api.accessors import name_of, namespace_of
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree
from kapiserver.simulation.kwok.expressions import (
    ExpressionError,
    Surroundings,
    evaluate,
    number_of,
)
from kapiserver.simulation.kwok.pod_rules import find_entry

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
        name = container.get("name") or ""
        of_pod = self.of_pods.get((namespace_of(pod), name_of(pod)))
        entry = find_entry(of_pod, self.of_cluster, "usages", pod, name)
        if entry is None:
            return None
        variables = {"node": node, "pod": pod, "container": container}
        return {
            resource: self._amount(amount, variables)
            for resource, amount in (entry.get("usage") or {}).items()
        }

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
