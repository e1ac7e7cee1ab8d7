"""The status of a PodDisruptionBudget, and conditions of pods that are not disrupted after all.

Every function is pure. Times are seconds since 1970. Mirrors pkg/controller/disruption and
apps/poddisruptionbudget of component-helpers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from kapiserver.api.accessors import (
    controller_of,
    generation_of,
    has_condition,
    is_terminating,
    name_of,
    value_at,
)
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.conditions import find_condition
from kapiserver.controllers.workloads.pods import is_finished, seconds_of
from kapiserver.storage.objects.lifecycle import timestamp

EVICTION_TIMEOUT_SECONDS = 120.0
"""An evicted pod that still exists after this time counts again."""
STALE_SECONDS = 120.0
"""A pod that is not being deleted loses the condition DisruptionTarget after this time."""
_ALLOWED = "DisruptionAllowed"
_TARGET = "DisruptionTarget"
_BY_KUBELET = "TerminationByKubelet"
"""The reason of a DisruptionTarget that stays, however long the pod takes to end."""


class Expectation(NamedTuple):
    """How many pods there should be, and how many of them healthy."""

    pods: int
    healthy: int


def needs_scale(budget: Tree) -> bool:
    """Report whether a budget refers to the replicas of the pods' controllers: it has
    maxUnavailable, or a percentage."""
    spec = budget.get("spec") or {}
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def expectation(budget: Tree, pod_count: int, scales: Iterable[int]) -> Expectation:
    """Return what a budget expects.

    pod_count   how many pods it selects
    scales      the replicas of their controllers, if `needs_scale`
    """
    spec = budget.get("spec") or {}
    if not needs_scale(budget):
        return Expectation(pod_count, spec.get("minAvailable") or 0)
    expected = sum(scales)
    if spec.get("maxUnavailable") is not None:
        return Expectation(expected, max(expected - _scaled(spec["maxUnavailable"], expected), 0))
    return Expectation(expected, _scaled(spec["minAvailable"], expected))


def _scaled(value: int | str, total: int) -> int:
    if isinstance(value, str):
        percent = value.removesuffix("%").lstrip("0")  # validated: at most 100, with any zeros
        return math.ceil(int(percent or "0") * total / 100)
    return value


def unmanaged(pods: Iterable[Tree]) -> list[str]:
    """Return the names of the pods that no controller controls."""
    return [name_of(pod) for pod in pods if controller_of(pod) is None]


def new_status(budget: Tree, pods: Sequence[Tree], expected: Expectation, now: float) -> Tree:
    """Return the status of a budget that selects these pods."""
    disrupted = recent_evictions(budget, pods, now)
    healthy = sum(
        has_condition(pod, "Ready")
        for pod in pods
        if not is_terminating(pod) and name_of(pod) not in disrupted
    )
    allowed = max(healthy - expected.healthy, 0) if expected.pods > 0 else 0
    condition = {
        "type": _ALLOWED,
        "status": "True" if allowed else "False",
        "observedGeneration": generation_of(budget),
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
    }
    status: Tree = {
        "observedGeneration": generation_of(budget),
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": expected.healthy,
        "expectedPods": expected.pods,
        "conditions": _conditions(budget, condition, now),
    }
    return _ordered(status | ({"disruptedPods": disrupted} if disrupted else {}))


def failed_status(budget: Tree, message: str, now: float) -> Tree:
    """Return the status of a budget whose pods cannot be counted: no disruption is allowed."""
    status: Tree = budget.get("status") or {}
    condition = {
        "type": _ALLOWED,
        "status": "False",
        "observedGeneration": status.get("observedGeneration") or 0,
        "reason": "SyncFailed",
        "message": message,
    }
    conditions = _conditions(budget, condition, now)
    return _ordered(status | {"disruptionsAllowed": 0, "conditions": conditions})


def _ordered(status: Tree) -> Tree:
    from kapiserver.api.policy.v1 import PodDisruptionBudgetStatus  # with the first budget

    reorder_keys(status, PodDisruptionBudgetStatus)
    return status


def _conditions(budget: Tree, condition: Tree, now: float) -> list[Tree]:
    """Return the conditions of a budget with one added or replaced."""
    present = value_at(budget, "status", "conditions") or ()
    old = find_condition(present, condition["type"])
    is_same = old is not None and old.get("status") == condition["status"]
    time = old["lastTransitionTime"] if old is not None and is_same else timestamp(now)
    others = [other for other in present if other.get("type") != condition["type"]]
    return [*others, condition | {"lastTransitionTime": time}]


# Pods that have been evicted, and still exist.


def recent_evictions(budget: Tree, pods: Iterable[Tree], now: float) -> Mapping[str, str]:
    """Return the times of the evictions of pods that are not yet being deleted, by name."""
    evictions = _evictions(budget, pods)
    return {name: time for name, time in evictions.items() if _end(time) > now}


def failed_evictions(budget: Tree, pods: Iterable[Tree], now: float) -> Collection[str]:
    """Return the names of the pods that should have been deleted by now."""
    return [name for name, time in _evictions(budget, pods).items() if _end(time) <= now]


def seconds_to_recheck(status: Tree, now: float) -> float | None:
    """Return the seconds until an evicted pod counts again; None if none is to be checked."""
    times = (status.get("disruptedPods") or {}).values()
    return min((_end(time) - now for time in times), default=None)


def _evictions(budget: Tree, pods: Iterable[Tree]) -> Mapping[str, str]:
    present = {name_of(pod) for pod in pods if not is_terminating(pod)}
    evictions: Mapping[str, str] = value_at(budget, "status", "disruptedPods") or {}
    return {name: time for name, time in evictions.items() if name in present}


def _end(time: str) -> float:
    return datetime.fromisoformat(time).timestamp() + EVICTION_TIMEOUT_SECONDS


# Pods that were to be disrupted, and are not.


def seconds_to_stale(pod: Tree, now: float) -> float | None:
    """Return the seconds until the condition DisruptionTarget of a pod is stale, not below 0; None
    for a pod without it, or one that is being deleted or has ended."""
    condition = find_condition(value_at(pod, "status", "conditions") or (), _TARGET) or {}
    is_true = condition.get("status") == "True" and condition.get("reason") != _BY_KUBELET
    if not is_true or is_terminating(pod) or is_finished(pod):
        return None
    since = seconds_of(condition.get("lastTransitionTime")) or 0.0
    return max(since + STALE_SECONDS - now, 0.0)


def without_disruption(pod: Tree, now: float) -> Tree:
    """Return a pod whose condition DisruptionTarget is False if it was stale."""
    if seconds_to_stale(pod, now) != 0:
        return pod
    new = {"type": _TARGET, "observedGeneration": generation_of(pod), "status": "False"}
    new["lastTransitionTime"] = timestamp(now)
    conditions = [
        new if condition.get("type") == _TARGET else condition
        for condition in pod["status"]["conditions"]
    ]
    return pod | {"status": pod["status"] | {"conditions": conditions}}
