"""The limits of a rolling update: maxSurge and maxUnavailable as numbers of pods."""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.replicas import replicas_of
from kapiserver.controllers.workloads.rounding import scaled_value


def is_recreated(deployment: Tree) -> bool:
    """Report whether all old pods stop before new ones are created."""
    return bool(value_at(deployment, "spec", "strategy", "type") == "Recreate")


def max_surge(deployment: Tree) -> int:
    """Return how many pods may exist above `spec.replicas`."""
    return _limits(deployment)[0]


def max_unavailable(deployment: Tree) -> int:
    """Return how many of `spec.replicas` may be unavailable."""
    return _limits(deployment)[1]


def _limits(deployment: Tree) -> tuple[int, int]:
    strategy = value_at(deployment, "spec", "strategy") or {}
    replicas = replicas_of(deployment)
    if strategy.get("type") != "RollingUpdate":
        return 0, 0
    rolling = strategy.get("rollingUpdate") or {}
    surge = scaled_value(rolling.get("maxSurge"), replicas, round_up=True)
    unavailable = scaled_value(rolling.get("maxUnavailable"), replicas, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1  # both are rounded to 0, and the rollout must be able to go on
    return surge, min(unavailable, replicas)
