"""Computes what each type of metric proposes: replicas, the metric's name in messages, its status.

A metric of an autoscaler has a type, and a source in the field of that type:

    type               source             is read as
    Resource           resource           usage of pods: metrics.k8s.io
    ContainerResource  containerResource  usage of one container of each pod: metrics.k8s.io
    Pods               pods               values of pods: custom.metrics.k8s.io
    Object             object             a value of an object: custom.metrics.k8s.io
    External           external           values: external.metrics.k8s.io

`propose` is pure. Mirrors computeReplicasForMetric of pkg/controller/podautoscaler/horizontal.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from kapiserver.api.label_selectors import go_label_selector
from kapiserver.api.quantity import Amount, Format, parse
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.replica_calculator import (
    MAX_INT64,
    MetricsError,
    PodMetrics,
    ScaledPods,
    average_replicas,
    utilization_replicas,
    value_per_pod_replicas,
    value_replicas,
)

Reading: TypeAlias = "PodMetrics | Sequence[int] | MetricsError"
"""What a metric reads: metrics of pods, or values in thousandths, one of an object and any number
of an external metric; or why it cannot be read."""


class Proposal(NamedTuple):
    """The replicas that one metric proposes, its name in messages, and its current value."""

    replicas: int
    name: str
    current: Tree


class Failure(NamedTuple):
    """Why a metric proposes nothing: the reason and message of its event and condition, and the
    text of the error of the reconcile."""

    reason: str
    message: str
    error: str


class _Source(NamedTuple):
    """One type of metric.

    field           the field of the source, in the spec and the status
    reason          the reason of a failure
    status_fields   fields of the source that its status repeats
    propose         returns the proposal; raises MetricsError
    context         returns the beginning of the text of an error
    """

    field: str
    reason: str
    status_fields: Sequence[str]
    propose: Callable[[str, Tree, Reading, ScaledPods], Proposal]
    context: Callable[[Tree], str]


def propose(
    namespace: str, metric: Tree, reading: Reading, scaled: ScaledPods
) -> Proposal | Failure:
    """Return what a metric of an autoscaler proposes."""
    type_ = metric.get("type") or ""
    source = SOURCES.get(type_)
    if source is None:
        text = f'unknown metric source type "{type_}"'
        return Failure("InvalidMetricSourceType", text, text)
    spec: Tree = metric.get(source.field) or {}
    try:
        return source.propose(namespace, spec, reading, scaled)
    except MetricsError as error:
        return Failure(source.reason, str(error), f"{source.context(spec)}{error}")


def metric_status(metric: Tree, outcome: Proposal | Failure) -> Tree:
    """Return the entry of a metric in `status.currentMetrics`; one that cannot be read has no
    type."""
    if isinstance(outcome, Failure):
        return {"type": ""}
    source = SOURCES[metric["type"]]
    spec = metric[source.field]
    status = {name: spec[name] for name in source.status_fields if name in spec}
    return {"type": metric["type"], source.field: status | {"current": outcome.current}}


def _milli(text: str) -> int:
    return parse(text).scaled(-3)


def _quantity(value: int, form: Format = "DecimalSI") -> str:
    return str(Amount(value, -3, form))


def _read(reading: Any, problem: str) -> Any:
    """Return a reading. Raises MetricsError if there is none."""
    if isinstance(reading, MetricsError):
        raise MetricsError(f"{problem}: {reading}")
    return reading


# Resource and ContainerResource.


def _resource(_namespace: str, spec: Tree, reading: Reading, scaled: ScaledPods) -> Proposal:
    name, container, target = spec["name"], spec.get("container") or "", spec["target"]
    is_average = target.get("averageValue") is not None
    if not is_average and target.get("averageUtilization") is None:
        raise MetricsError(
            "invalid resource metric source: neither an average utilization target nor an average "
            "value (usage) target was set"
        )
    try:
        metrics = _read(reading, f"unable to get metrics for resource {name}")
        if is_average:
            usage = average_replicas(scaled, metrics, _milli(target["averageValue"]), name)
            return Proposal(usage.replicas, f"{name} resource", _average_value(name, usage.value))
        percent = target["averageUtilization"]
        utilization = utilization_replicas(scaled, metrics, percent, name, container)
    except MetricsError as error:
        measure = "usage" if is_average else "utilization"
        raise MetricsError(f"failed to get {name} {measure}: {error}") from error
    current = {"averageUtilization": utilization.percent}
    current |= _average_value(name, utilization.average)
    kind = "container resource" if container else "resource"
    text = f"{name} {kind} utilization (percentage of request)"
    return Proposal(utilization.replicas, text, current)


def _average_value(resource: str, value: int) -> Tree:
    form: Format = "BinarySI" if resource == "memory" else "DecimalSI"
    return {"averageValue": _quantity(value, form)}


# Pods.


def _pods(_namespace: str, spec: Tree, reading: Reading, scaled: ScaledPods) -> Proposal:
    name = spec["metric"]["name"]
    metrics = _read(reading, f"unable to get metric {name}")
    usage = average_replicas(scaled, metrics, _milli(spec["target"]["averageValue"]))
    current = {"averageValue": _quantity(usage.value)}
    return Proposal(usage.replicas, f"pods metric {name}", current)


# Object and External.


def _object(namespace: str, spec: Tree, reading: Reading, scaled: ScaledPods) -> Proposal:
    described, name, target = spec["describedObject"], spec["metric"]["name"], spec["target"]
    kind = described["kind"]
    if not _has_value_or_average(target):
        raise MetricsError(
            "invalid object metric source: neither a value target nor an average value target was "
            "set"
        )
    subject = f"{kind} {namespace}/{described['name']}"
    (value,) = _read(reading, f"unable to get metric {name} on {subject}")
    text = f"{kind} metric {name}" if target.get("averageValue") is None else _external_name(spec)
    return _of_total(text, value, target, scaled)


def _external(namespace: str, spec: Tree, reading: Reading, scaled: ScaledPods) -> Proposal:
    metric, target = spec["metric"], spec["target"]
    if not _has_value_or_average(target):
        raise MetricsError(
            "invalid external metric source: neither a value target nor an average value target "
            "was set"
        )
    subject = f"{namespace}/{metric['name']}/{go_label_selector(metric.get('selector'))}"
    values = _read(reading, f"unable to get external metric {subject}")
    return _of_total(_external_name(spec), min(sum(values), MAX_INT64), target, scaled)


def _has_value_or_average(target: Tree) -> bool:
    return target.get("value") is not None or target.get("averageValue") is not None


def _of_total(name: str, value: int, target: Tree, scaled: ScaledPods) -> Proposal:
    """Return the proposal for a value that all pods share."""
    if target.get("averageValue") is not None:
        usage = value_per_pod_replicas(scaled, value, _milli(target["averageValue"]))
        return Proposal(usage.replicas, name, {"averageValue": _quantity(usage.value)})
    replicas = value_replicas(scaled, value, _milli(target["value"]))
    return Proposal(replicas, name, {"value": _quantity(value)})


def _external_name(spec: Tree) -> str:
    metric = spec["metric"]
    return f"external metric {metric['name']}({go_label_selector(metric.get('selector'))})"


# What begins the texts of errors.


def _object_context(spec: Tree) -> str:
    context = "failed to get object metric value: "
    if spec["target"].get("type") == "AverageValue":
        context += f"failed to get {spec['metric']['name']} object metric: "
    return context


def _external_context(spec: Tree) -> str:
    name, is_average = spec["metric"]["name"], spec["target"].get("averageValue") is not None
    detail = f"{name} external metric" if is_average else f"external metric {name}"
    return f"failed to get {name} external metric value: failed to get {detail}: "


SOURCES: Mapping[str, _Source] = {
    "Resource": _Source(
        "resource",
        "FailedGetResourceMetric",
        ("name",),
        _resource,
        lambda spec: f"failed to get {spec['name']} resource metric value: ",
    ),
    "ContainerResource": _Source(
        "containerResource",
        "FailedGetContainerResourceMetric",
        ("name", "container"),
        _resource,
        lambda spec: f"failed to get {spec['container']} container metric value: ",
    ),
    "Pods": _Source(
        "pods",
        "FailedGetPodsMetric",
        ("metric",),
        _pods,
        lambda _spec: "failed to get pods metric value: ",
    ),
    "Object": _Source(
        "object",
        "FailedGetObjectMetric",
        ("metric", "describedObject"),
        _object,
        _object_context,
    ),
    "External": _Source(
        "external",
        "FailedGetExternalMetric",
        ("metric",),
        _external,
        _external_context,
    ),
}
"""The types of metrics."""
