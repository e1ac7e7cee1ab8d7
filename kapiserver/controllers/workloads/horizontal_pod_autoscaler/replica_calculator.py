"""Computes replicas for a metric: the ratio of usage to target, times the pods that count.

All functions are pure. Usage and targets are integers: thousandths of the unit of the metric (0.001
CPUs, 0.001 bytes). Times are seconds since 1970.

| pods | count as |
| --- | --- |
| being deleted or failed | nothing |
| pending, or not ready yet (CPU only) | nothing; as 0 if the metric asks for more replicas |
| without a metric | 0 if the metric asks for more replicas, as the target if it asks for fewer |

Mirrors pkg/controller/podautoscaler/replica_calculator.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kapiserver.api.accessors import is_terminating, name_of, value_at
from kapiserver.api.core.pods.requests import is_pod_level, pod_resources
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.conditions import find_condition
from kapiserver.controllers.workloads.pods import is_ready, phase_of, seconds_of

MAX_INT32, MAX_INT64 = 2**31 - 1, 2**63 - 1
_NO_PODS = "no pods returned by selector while calculating replica count"
_NO_METRICS = "did not receive metrics for targeted pods (pods might be unready)"


class MetricsError(Exception):
    """A metric cannot be read, or no number of replicas follows from it."""


class PodMetric(NamedTuple):
    """A metric of one pod: its value in thousandths, when it was measured, and for how many
    seconds."""

    value: int
    timestamp: float
    window: float


PodMetrics: TypeAlias = Mapping[str, PodMetric]
"""The metrics of pods, by the name of the pod."""


class Tolerances(NamedTuple):
    """How far the ratio of usage to target may be below and above 1 without a change."""

    scale_down: float
    scale_up: float

    def cover(self, ratio: float) -> bool:
        """Report whether a ratio is so close to 1 that nothing changes."""
        return 1.0 - self.scale_down <= ratio <= 1.0 + self.scale_up


@dataclass(frozen=True, kw_only=True)
class ScaledPods:
    """The pods that an autoscaler scales, and how their metrics count.

    spec_replicas               the replicas that the target asks for
    status_replicas             the replicas that the target has
    cpu_initialization_seconds  how long after its start the CPU usage of a pod may be ignored
    initial_readiness_seconds   how long after its start a pod that becomes unready has never been
                                ready
    """

    pods: Sequence[Tree]
    spec_replicas: int
    status_replicas: int
    tolerances: Tolerances
    cpu_initialization_seconds: float
    initial_readiness_seconds: float
    now: float


@dataclass
class PodGroups:
    """The pods by what their metrics count for."""

    ready_count: int = 0
    unready: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    ignored: set[str] = field(default_factory=set)


class Utilization(NamedTuple):
    """The replicas that a target in percent asks for, the current percentage of the requests, and
    the current average usage."""

    replicas: int
    percent: int
    average: int


class Usage(NamedTuple):
    """The replicas that a target value asks for, and the current usage."""

    replicas: int
    value: int


def utilization_replicas(
    scaled: ScaledPods, metrics: PodMetrics, target: int, resource: str, container: str = ""
) -> Utilization:
    """Return the replicas for an average usage of `target` percent of what pods request, or of what
    one of their containers requests. Raises MetricsError."""
    groups, values = _counted(scaled, metrics, resource)
    requests = {name_of(pod): _request(pod, container, resource) for pod in scaled.pods}
    percent, average = _utilization(values, requests)

    def ratio(values: Mapping[str, int]) -> float:
        return _utilization(values, requests)[0] / target

    def fallback(name: str) -> int:
        return requests[name] * max(100, target) // 100

    return Utilization(_replicas(scaled, groups, values, ratio, fallback), percent, average)


def average_replicas(
    scaled: ScaledPods, metrics: PodMetrics, target: int, resource: str = ""
) -> Usage:
    """Return the replicas for an average usage of `target` by each pod. Raises MetricsError."""
    groups, values = _counted(scaled, metrics, resource)

    def ratio(values: Mapping[str, int]) -> float:
        return _average(values) / target

    return Usage(_replicas(scaled, groups, values, ratio, lambda _name: target), _average(values))


def value_replicas(scaled: ScaledPods, usage: int, target: int) -> int:
    """Return the replicas for a usage of `target` by all pods together. Without replicas the ratio
    alone decides. Raises MetricsError."""
    ratio = usage / target
    if not scaled.spec_replicas:
        return _rounded_up(ratio)
    if scaled.tolerances.cover(ratio):
        return scaled.spec_replicas
    if not scaled.pods:
        raise MetricsError(f"unable to calculate ready pods: {_NO_PODS}")
    ready = sum(phase_of(pod) == "Running" and is_ready(pod) for pod in scaled.pods)
    return _rounded_up(ratio * ready)


def value_per_pod_replicas(scaled: ScaledPods, usage: int, target: int) -> Usage:
    """Return the replicas for a usage of `target` by each pod, from the usage of all pods, and the
    usage of each pod now."""
    replicas = scaled.status_replicas
    if not replicas:
        return Usage(_rounded_up(usage / target), usage)
    average = usage if usage >= MAX_INT64 else math.ceil(usage / replicas)
    if scaled.tolerances.cover(usage / (target * replicas)):
        return Usage(replicas, average)
    return Usage(_rounded_up(usage / target), average)


def _rounded_up(replicas: float) -> int:
    return min(math.ceil(replicas), MAX_INT32)


def _counted(
    scaled: ScaledPods, metrics: PodMetrics, resource: str
) -> tuple[PodGroups, dict[str, int]]:
    """Return the groups of the pods, and the values that count. Raises MetricsError."""
    if not scaled.pods:
        raise MetricsError(_NO_PODS)
    groups = group_pods(scaled, metrics, resource)
    left_out = groups.ignored | groups.unready
    values = {name: metric.value for name, metric in metrics.items() if name not in left_out}
    if not values:
        raise MetricsError(_NO_METRICS)
    return groups, values


def group_pods(scaled: ScaledPods, metrics: PodMetrics, resource: str) -> PodGroups:
    """Return the groups of the pods. Readiness decides only about CPU: a pod that starts needs more
    of it than one that serves."""
    groups = PodGroups()
    for pod in scaled.pods:
        name, phase = name_of(pod), phase_of(pod)
        if is_terminating(pod) or phase == "Failed":
            groups.ignored.add(name)
        elif phase == "Pending":
            groups.unready.add(name)
        elif name not in metrics:
            groups.missing.add(name)
        elif resource == "cpu" and _is_starting(scaled, pod, metrics[name]):
            groups.unready.add(name)
        else:
            groups.ready_count += 1
    return groups


def _is_starting(scaled: ScaledPods, pod: Tree, metric: PodMetric) -> bool:
    """Report whether the CPU usage of a pod may be that of its start."""
    condition = find_condition(value_at(pod, "status", "conditions") or (), "Ready")
    start = seconds_of(value_at(pod, "status", "startTime"))
    if condition is None or start is None:
        return True
    is_unready = condition.get("status") == "False"
    changed = seconds_of(condition.get("lastTransitionTime")) or 0.0
    if start + scaled.cpu_initialization_seconds > scaled.now:
        return is_unready or metric.timestamp < changed + metric.window
    return is_unready and start + scaled.initial_readiness_seconds > changed


def _replicas(
    scaled: ScaledPods,
    groups: PodGroups,
    values: Mapping[str, int],
    ratio_of: Callable[[Mapping[str, int]], float],
    fallback: Callable[[str], int],
) -> int:
    """Return the replicas that the values of pods ask for. Pods without a value get one that damps
    the change, and must not turn its direction.

    ratio_of  returns the ratio of usage to target
    fallback  returns the value of a pod without a metric, by its name, if fewer replicas are needed
    """
    ratio = ratio_of(values)
    adds_unready = bool(groups.unready) and ratio > 1.0
    if not adds_unready and not groups.missing:
        if scaled.tolerances.cover(ratio):
            return scaled.spec_replicas
        return _rounded_up(ratio * groups.ready_count)
    completed = dict(values)
    if ratio < 1.0:
        completed |= {name: fallback(name) for name in groups.missing}
    elif ratio > 1.0:
        completed |= dict.fromkeys(groups.missing, 0)
    if adds_unready:
        completed |= dict.fromkeys(groups.unready, 0)
    new_ratio = ratio_of(completed)
    turns = ratio < 1.0 < new_ratio or new_ratio < 1.0 < ratio
    if turns or scaled.tolerances.cover(new_ratio):
        return scaled.spec_replicas
    replicas = _rounded_up(new_ratio * len(completed))
    if (replicas > scaled.spec_replicas) == (new_ratio < 1.0):
        return scaled.spec_replicas
    return replicas


def _average(values: Mapping[str, int]) -> int:
    return sum(values.values()) // len(values)


def _utilization(values: Mapping[str, int], requests: Mapping[str, int]) -> tuple[int, int]:
    """Return the usage in percent of the requests, and the average usage. Raises MetricsError."""
    known = [name for name in values if name in requests]
    usage, requested = (sum(amounts[name] for name in known) for amounts in (values, requests))
    if not requested:
        raise MetricsError("no metrics returned matched known pods")
    return usage * 100 // requested, usage // len(known)


def _request(pod: Tree, container: str, resource: str) -> int:
    """Return what a pod, or one of its containers, requests of a resource. Raises MetricsError."""
    pod_level = value_at(pod, "spec", "resources", "requests") or {}
    if not container and any(map(is_pod_level, pod_level)):
        amount = pod_resources(pod, "requests").get(resource)
        if amount is None:
            raise MetricsError(f"missing pod-level request for {resource} in Pod {name_of(pod)}")
        return amount.scaled(-3)
    counted = [
        lasting_container
        for lasting_container in _lasting_containers(pod)
        if container in ("", lasting_container.get("name"))
    ]
    if container and not counted:
        raise MetricsError(f"container {container} not found in Pod {name_of(pod)}")
    return sum(
        _container_request(pod, counted_container, resource) for counted_container in counted
    )


def _lasting_containers(pod: Tree) -> list[Tree]:
    """Return the containers and sidecars of a pod."""
    spec = pod.get("spec") or {}
    sidecars = (
        container
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    )
    return [*(spec.get("containers") or ()), *sidecars]


def _container_request(pod: Tree, container: Tree, resource: str) -> int:
    text = (value_at(container, "resources", "requests") or {}).get(resource)
    if text is None:
        raise MetricsError(
            f"missing request for {resource} in container {container.get('name')} "
            f"of Pod {name_of(pod)}"
        )
    return parse(text).scaled(-3)
