"""Table columns of the autoscaling group, which read the hub version.

Mirrors printHorizontalPodAutoscaler of pkg/printers/internalversion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kapiserver.api.accessors import value_at
from kapiserver.api.columns import AGE, NAME, NONE, UNKNOWN, UNSET, Cell, Column, Columns, number
from kapiserver.api.types import Tree

_METRICS_SHOWN = 2
_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}


def _reference(autoscaler: Tree) -> str:
    target = value_at(autoscaler, "spec", "scaleTargetRef") or {}
    return f"{target.get('kind') or ''}/{target.get('name') or ''}"


def _min_pods(autoscaler: Tree) -> Cell:
    min_replicas = value_at(autoscaler, "spec", "minReplicas")
    return UNSET if min_replicas is None else str(min_replicas)


def _targets(autoscaler: Tree) -> str:
    metrics: Sequence[Tree] = value_at(autoscaler, "spec", "metrics") or ()
    if not metrics:
        return NONE
    states: Sequence[Tree] = value_at(autoscaler, "status", "currentMetrics") or ()
    texts = [
        _metric(metric, states[index] if index < len(states) else {})
        for index, metric in enumerate(metrics[:_METRICS_SHOWN])
    ]
    suffix = f" + {len(metrics) - _METRICS_SHOWN} more..." if len(metrics) > _METRICS_SHOWN else ""
    return ", ".join(texts) + suffix


def _metric(metric: Tree, state: Tree) -> str:
    type_ = metric.get("type") or ""
    source = _SOURCES.get(type_)
    if source is None:
        return "<unknown type>"
    target: Tree = value_at(metric, source, "target") or {}
    current: Tree = value_at(state, source, "current") or {}
    average = target.get("averageValue")
    if type_ == "Pods":
        return f"{_or_unknown(current.get('averageValue'))}/{average or 0}"
    if type_ in ("Object", "External"):
        if average is not None:
            return f"{_or_unknown(current.get('averageValue'))}/{average} (avg)"
        return f"{_or_unknown(current.get('value'))}/{target.get('value') or 0}"
    name = value_at(metric, source, "name") or ""
    if average is not None:
        return f"{name}: {_or_unknown(current.get('averageValue'))}/{average}"
    utilization = target.get("averageUtilization")
    target_text = "<auto>" if utilization is None else f"{utilization}%"
    current_utilization = current.get("averageUtilization")
    current_text = UNKNOWN if current_utilization is None else f"{current_utilization}%"
    return f"{name}: {current_text}/{target_text}"


def _or_unknown(value: Any) -> str:
    return UNKNOWN if value is None else str(value)


COLUMNS: dict[str, Columns] = {
    "HorizontalPodAutoscaler": Columns(
        (
            NAME,
            Column("Reference", _reference, "Kind and name of the object that is scaled."),
            Column("Targets", _targets, "Current and target value of each metric."),
            Column("MinPods", _min_pods, "Smallest number of pods that the autoscaler may set."),
            Column(
                "MaxPods",
                number("spec", "maxReplicas"),
                "Largest number of pods that the autoscaler may set.",
            ),
            Column(
                "Replicas",
                number("status", "currentReplicas"),
                "Number of pods that the autoscaler last observed.",
            ),
            AGE,
        )
    ),
    "Scale": Columns(
        (
            Column("Name", NAME.cell, NAME.description),
            Column(
                "Desired", number("spec", "replicas"), "Number of desired pods.", type="integer"
            ),
            Column(
                "Available",
                number("status", "replicas"),
                "Number of existing pods.",
                type="integer",
            ),
            AGE,
        )
    ),
}
