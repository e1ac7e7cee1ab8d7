"""Conversion of autoscaling/v1, which has a CPU target and no other metric.

All other fields are stored in annotations (`v1_annotations`), which no other version shows. Mirrors
pkg/apis/autoscaling/v1/conversion.go and v2's, including the implicit target of 80 %.
"""

from __future__ import annotations

from typing import Any

from kapiserver.api.autoscaling import internal, v1, v1_annotations, v2
from kapiserver.api.conversion import Conversion, Functions
from kapiserver.api.types import Tree

DEFAULT_CPU_UTILIZATION = 80


def _set(target: Tree, /, **values: Any) -> None:
    target.update({name: value for name, value in values.items() if value is not None})


def _tree(**values: Any) -> Tree:
    return {name: value for name, value in values.items() if value is not None}


# --- metrics: v1 has the fields of v2's metric, target and current in each source


def _metric(name: str, selector: Tree | None) -> Tree:
    return _tree(name=name, selector=selector)


def _target(type_: str, value: Any = None, average: Any = None, utilization: Any = None) -> Tree:
    return _tree(type=type_, value=value, averageValue=average, averageUtilization=utilization)


def _resource_from_v1(source: Tree, target: Tree) -> None:
    utilization = source.get("targetAverageUtilization")
    type_ = "AverageValue" if utilization is None else "Utilization"
    average = source.get("targetAverageValue")
    target["target"] = _target(type_, average=average, utilization=utilization)


def _resource_to_v1(source: Tree, target: Tree) -> None:
    metric_target = source["target"]
    _set(
        target,
        targetAverageUtilization=metric_target.get("averageUtilization"),
        targetAverageValue=metric_target.get("averageValue"),
    )


def _resource_status_from_v1(source: Tree, target: Tree) -> None:
    target["current"] = _tree(
        averageValue=source["currentAverageValue"],
        averageUtilization=source.get("currentAverageUtilization"),
    )


def _resource_status_to_v1(source: Tree, target: Tree) -> None:
    current = source["current"]
    _set(
        target,
        currentAverageUtilization=current.get("averageUtilization"),
        currentAverageValue=current.get("averageValue"),
    )


def _pods_from_v1(source: Tree, target: Tree) -> None:
    target["metric"] = _metric(source["metricName"], source.get("selector"))
    target["target"] = _target("AverageValue", average=source["targetAverageValue"])


def _pods_to_v1(source: Tree, target: Tree) -> None:
    _set(
        target,
        metricName=source["metric"]["name"],
        selector=source["metric"].get("selector"),
        targetAverageValue=source["target"].get("averageValue"),
    )


def _pods_status_from_v1(source: Tree, target: Tree) -> None:
    target["metric"] = _metric(source["metricName"], source.get("selector"))
    target["current"] = {"averageValue": source["currentAverageValue"]}


def _pods_status_to_v1(source: Tree, target: Tree) -> None:
    _set(
        target,
        metricName=source["metric"]["name"],
        selector=source["metric"].get("selector"),
        currentAverageValue=source["current"].get("averageValue"),
    )


def _object_from_v1(source: Tree, target: Tree) -> None:
    average = source.get("averageValue")
    type_ = "Value" if average is None else "AverageValue"
    target["describedObject"] = source["target"]
    target["metric"] = _metric(source["metricName"], source.get("selector"))
    target["target"] = _target(type_, value=source["targetValue"], average=average)


def _object_to_v1(source: Tree, target: Tree) -> None:
    _set(
        target,
        target=source["describedObject"],
        metricName=source["metric"]["name"],
        selector=source["metric"].get("selector"),
        targetValue=source["target"].get("value"),
        averageValue=source["target"].get("averageValue"),
    )


def _object_status_from_v1(source: Tree, target: Tree) -> None:
    target["describedObject"] = source["target"]
    target["metric"] = _metric(source["metricName"], source.get("selector"))
    target["current"] = _tree(value=source["currentValue"], averageValue=source.get("averageValue"))


def _object_status_to_v1(source: Tree, target: Tree) -> None:
    _set(
        target,
        target=source["describedObject"],
        metricName=source["metric"]["name"],
        selector=source["metric"].get("selector"),
        currentValue=source["current"].get("value"),
        averageValue=source["current"].get("averageValue"),
    )


def _external_from_v1(source: Tree, target: Tree) -> None:
    value = source.get("targetValue")
    type_ = "AverageValue" if value is None else "Value"
    target["metric"] = _metric(source["metricName"], source.get("metricSelector"))
    target["target"] = _target(type_, value=value, average=source.get("targetAverageValue"))


def _external_to_v1(source: Tree, target: Tree) -> None:
    _set(
        target,
        metricName=source["metric"]["name"],
        metricSelector=source["metric"].get("selector"),
        targetValue=source["target"].get("value"),
        targetAverageValue=source["target"].get("averageValue"),
    )


def _external_status_from_v1(source: Tree, target: Tree) -> None:
    target["metric"] = _metric(source["metricName"], source.get("metricSelector"))
    target["current"] = _tree(
        value=source["currentValue"], averageValue=source.get("currentAverageValue")
    )


def _external_status_to_v1(source: Tree, target: Tree) -> None:
    _set(
        target,
        metricName=source["metric"]["name"],
        metricSelector=source["metric"].get("selector"),
        currentValue=source["current"].get("value"),
        currentAverageValue=source["current"].get("averageValue"),
    )


METRICS: Functions = {
    (v1.ResourceMetricSource, v2.ResourceMetricSource): _resource_from_v1,
    (v2.ResourceMetricSource, v1.ResourceMetricSource): _resource_to_v1,
    (v1.ResourceMetricStatus, v2.ResourceMetricStatus): _resource_status_from_v1,
    (v2.ResourceMetricStatus, v1.ResourceMetricStatus): _resource_status_to_v1,
    (v1.ContainerResourceMetricSource, v2.ContainerResourceMetricSource): _resource_from_v1,
    (v2.ContainerResourceMetricSource, v1.ContainerResourceMetricSource): _resource_to_v1,
    (v1.ContainerResourceMetricStatus, v2.ContainerResourceMetricStatus): _resource_status_from_v1,
    (v2.ContainerResourceMetricStatus, v1.ContainerResourceMetricStatus): _resource_status_to_v1,
    (v1.PodsMetricSource, v2.PodsMetricSource): _pods_from_v1,
    (v2.PodsMetricSource, v1.PodsMetricSource): _pods_to_v1,
    (v1.PodsMetricStatus, v2.PodsMetricStatus): _pods_status_from_v1,
    (v2.PodsMetricStatus, v1.PodsMetricStatus): _pods_status_to_v1,
    (v1.ObjectMetricSource, v2.ObjectMetricSource): _object_from_v1,
    (v2.ObjectMetricSource, v1.ObjectMetricSource): _object_to_v1,
    (v1.ObjectMetricStatus, v2.ObjectMetricStatus): _object_status_from_v1,
    (v2.ObjectMetricStatus, v1.ObjectMetricStatus): _object_status_to_v1,
    (v1.ExternalMetricSource, v2.ExternalMetricSource): _external_from_v1,
    (v2.ExternalMetricSource, v1.ExternalMetricSource): _external_to_v1,
    (v1.ExternalMetricStatus, v2.ExternalMetricStatus): _external_status_from_v1,
    (v2.ExternalMetricStatus, v1.ExternalMetricStatus): _external_status_to_v1,
}

# Compiled at import, so that a missing conversion is noticed at once.
_METRICS = Conversion(METRICS)
_spec_to_hub = _METRICS.converter(v1.MetricSpec, v2.MetricSpec)
_spec_from_hub = _METRICS.converter(v2.MetricSpec, v1.MetricSpec)
_status_to_hub = _METRICS.converter(v1.MetricStatus, v2.MetricStatus)
_status_from_hub = _METRICS.converter(v2.MetricStatus, v1.MetricStatus)


# --- spec and status: the CPU target and its current value


def _cpu(field: str, value: Tree) -> Tree:
    return {"type": "Resource", "resource": {"name": "cpu", field: value}}


def _is_cpu(metric: Tree) -> bool:
    resource = metric.get("resource")
    return metric["type"] == "Resource" and resource is not None and resource["name"] == "cpu"


def _utilization(metric: Tree, field: str) -> int | None:
    average_utilization: int | None = metric["resource"][field].get("averageUtilization")
    return average_utilization


def _is_cpu_target(metric: Tree) -> bool:
    return _is_cpu(metric) and _utilization(metric, "target") is not None


def _spec_from_v1(source: Tree, target: Tree) -> None:
    utilization = source.get("targetCPUUtilizationPercentage")
    if utilization is not None:
        target["metrics"] = [_cpu("target", _target("Utilization", utilization=utilization))]


def _spec_to_v1(source: Tree, target: Tree) -> None:
    cpu_metric = next(filter(_is_cpu, source.get("metrics") or ()), None)
    if cpu_metric is not None:
        _set(target, targetCPUUtilizationPercentage=_utilization(cpu_metric, "target"))


def _status_from_v1(source: Tree, target: Tree) -> None:
    current = source.get("currentCPUUtilizationPercentage")
    if current is not None:
        target["currentMetrics"] = [_cpu("current", {"averageUtilization": current})]


def _status_to_v1(source: Tree, target: Tree) -> None:
    for metric in filter(_is_cpu, source.get("currentMetrics") or ()):
        _set(target, currentCPUUtilizationPercentage=_utilization(metric, "current"))


# --- the object: annotations


def _without_reserved_annotations(metadata: Tree) -> Tree:
    annotations = metadata.get("annotations") or {}
    if not any(name in annotations for name in v1_annotations.ALL):
        return metadata
    other_annotations = {
        name: text for name, text in annotations.items() if name not in v1_annotations.ALL
    }
    return _with_annotations(metadata, other_annotations)


def _with_annotations(metadata: Tree, annotations: dict[str, str]) -> Tree:
    if annotations and "annotations" in metadata:
        return {**metadata, "annotations": dict(sorted(annotations.items()))}
    if not annotations:
        return {name: value for name, value in metadata.items() if name != "annotations"}
    # The fields keep the order of ObjectMeta, in which three come after annotations.
    later_fields = ("ownerReferences", "finalizers", "managedFields")
    first_fields = {name: value for name, value in metadata.items() if name not in later_fields}
    last_fields = {name: value for name, value in metadata.items() if name in later_fields}
    return {**first_fields, "annotations": dict(sorted(annotations.items())), **last_fields}


def _drop_annotations(source: Tree, target: Tree) -> None:
    target["metadata"] = _without_reserved_annotations(source["metadata"])


def _from_v1(source: Tree, target: Tree) -> None:
    annotations = source["metadata"].get("annotations") or {}
    spec, status = target["spec"], target["status"]
    metrics = v1_annotations.load_list(v1.MetricSpec, annotations.get(v1_annotations.METRICS, ""))
    if metrics:
        spec["metrics"] = [*map(_spec_to_hub, metrics), *spec.get("metrics", ())]
    if not spec.get("metrics"):
        cpu_target = _target("Utilization", utilization=DEFAULT_CPU_UTILIZATION)
        spec["metrics"] = [_cpu("target", cpu_target)]
    behavior = v1_annotations.load(
        v2.HorizontalPodAutoscalerBehavior, annotations.get(v1_annotations.BEHAVIOR, "")
    )
    if behavior:
        spec["behavior"] = behavior
    metric_statuses = v1_annotations.load_list(
        v1.MetricStatus, annotations.get(v1_annotations.CURRENT_METRICS, "")
    )
    if metric_statuses:
        status["currentMetrics"] = [
            _status_to_hub(metric_status) for metric_status in metric_statuses
        ]
    conditions = v1_annotations.load_list(
        v2.HorizontalPodAutoscalerCondition, annotations.get(v1_annotations.CONDITIONS, "")
    )
    if conditions:
        status["conditions"] = conditions
    target["metadata"] = _without_reserved_annotations(source["metadata"])


def _to_v1(source: Tree, target: Tree) -> None:
    spec, status = source["spec"], source["status"]
    metadata = _without_reserved_annotations(source["metadata"])
    annotations = dict(metadata.get("annotations") or {})
    metrics = [metric for metric in spec.get("metrics") or () if not _is_cpu_target(metric)]
    if metrics:
        annotations[v1_annotations.METRICS] = v1_annotations.dump(
            [_spec_from_hub(metric) for metric in metrics]
        )
    # Includes the status of the CPU metric: v1 has no field for its raw value.
    if status.get("currentMetrics"):
        metric_statuses = [_status_from_hub(metric) for metric in status["currentMetrics"]]
        annotations[v1_annotations.CURRENT_METRICS] = v1_annotations.dump(metric_statuses)
    if "behavior" in spec:
        annotations[v1_annotations.BEHAVIOR] = v1_annotations.dump_internal(
            v2.HorizontalPodAutoscalerBehavior, spec["behavior"]
        )
    if status.get("conditions"):
        annotations[v1_annotations.CONDITIONS] = v1_annotations.dump(status["conditions"])
    target["metadata"] = _with_annotations(metadata, annotations)


CONVERSIONS: Functions = {
    **METRICS,
    (v1.HorizontalPodAutoscalerSpec, v2.HorizontalPodAutoscalerSpec): _spec_from_v1,
    (v2.HorizontalPodAutoscalerSpec, v1.HorizontalPodAutoscalerSpec): _spec_to_v1,
    (v1.HorizontalPodAutoscalerStatus, v2.HorizontalPodAutoscalerStatus): _status_from_v1,
    (v2.HorizontalPodAutoscalerStatus, v1.HorizontalPodAutoscalerStatus): _status_to_v1,
    (v1.HorizontalPodAutoscaler, internal.HorizontalPodAutoscaler): _from_v1,
    (internal.HorizontalPodAutoscaler, v1.HorizontalPodAutoscaler): _to_v1,
    (v2.HorizontalPodAutoscaler, internal.HorizontalPodAutoscaler): _drop_annotations,
    (internal.HorizontalPodAutoscaler, v2.HorizontalPodAutoscaler): _drop_annotations,
}
