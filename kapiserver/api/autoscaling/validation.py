"""Validation of horizontal pod autoscalers, on the hub version.

Mirrors pkg/apis/autoscaling/validation.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.core.validation.common import validate_format, validate_nonnegative_field
from kapiserver.api.core.validation.resources import (
    NEGATIVE,
    amount,
    validate_container_resource_name,
)
from kapiserver.api.errors import (
    FieldError,
    NamedString,
    Path,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_SOURCES = {  # in the order of their validation
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_TARGETS = {"Utilization": "averageUtilization", "Value": "value", "AverageValue": "averageValue"}
_WINDOW_MAX = 3600
_PERIOD_MAX = 1800


def validate_horizontal_pod_autoscaler(obj: Tree, old: Tree | None = None) -> Iterator[FieldError]:
    """Validate a new or updated autoscaler. An invalid API version of its target may stay."""
    spec = obj.get("spec") or {}
    min_replicas, max_replicas = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    yield from validate_nonnegative_field(spec, "minReplicas", _SPEC)
    if not max_replicas:
        yield required(_SPEC / "maxReplicas", "must be set and greater than 0")
    elif max_replicas < 0:
        yield invalid(_SPEC / "maxReplicas", max_replicas, "must be greater than or equal to 1")
    if min_replicas is not None and max_replicas < min_replicas:
        detail = "must be greater than or equal to `minReplicas`"
        yield invalid(_SPEC / "maxReplicas", max_replicas, detail)
    yield from _validate_target_reference(
        spec, (old or {}).get("spec") or {}, _SPEC / "scaleTargetRef"
    )
    metrics = spec.get("metrics") or ()
    for index, metric in enumerate(metrics):
        yield from _validate_metric(metric, (_SPEC / "metrics")[index])
    if min_replicas == 0 and not any(
        metric.get("type") in ("External", "Object") for metric in metrics
    ):
        detail = (
            "must specify at least one Object or External metric to support scaling to zero "
            "replicas"
        )
        yield forbidden(_SPEC / "metrics", detail)
    behavior = spec.get("behavior") or {}
    for name in ("scaleUp", "scaleDown"):
        if behavior.get(name) is not None:
            yield from _validate_scaling_rules(behavior[name], _SPEC / "behavior" / name)


def _validate_target_reference(spec: Tree, old_spec: Tree, path: Path) -> Iterator[FieldError]:
    target, old_target = spec.get("scaleTargetRef") or {}, old_spec.get("scaleTargetRef")
    yield from _validate_reference(target, path)
    message = _version_message(target)
    if message and (old_target is None or not _version_message(old_target)):
        yield invalid(path / "apiVersion", target.get("apiVersion") or "", message)


def _version_message(reference: Tree) -> str:
    version = reference.get("apiVersion") or ""
    if version.count("/") > 1:
        return f"unexpected GroupVersion string: {version}"
    # ReplicationController is the only kind of the core group with a scale subresource.
    if not version.rpartition("/")[0] and reference.get("kind") != "ReplicationController":
        return "apiVersion must specify API group"
    return ""


def _validate_reference(reference: Tree, path: Path) -> Iterator[FieldError]:
    for name in ("kind", "name"):
        value = reference.get(name) or ""
        if not value:
            yield required(path / name)
        yield from validate_format(names.path_segment, value, path / name)


def _validate_metric(metric: Tree, path: Path) -> Iterator[FieldError]:
    type_ = metric.get("type") or ""
    source_field = _SOURCES.get(type_)
    if not type_:
        yield required(path / "type", "must specify a metric source type")
    if source_field is None:
        yield not_supported(path / "type", type_, tuple(_SOURCES))
    members = [name for name in _SOURCES.values() if metric.get(name) is not None]
    for name in members[:1]:
        yield from _validate_source(name, metric[name], path / name)
    if source_field is None:  # reported twice, as in kube-apiserver
        yield not_supported(path / "type", type_, tuple(_SOURCES))
    elif metric.get(source_field) is None:
        yield required(path / source_field, "must populate information for the given metric source")
    if len(members) > 1:
        for name in sorted(set(members) - {source_field}):
            yield forbidden(path / name, "must populate the given metric source only")


def _validate_source(kind: str, source: Tree, path: Path) -> Iterator[FieldError]:
    target, target_path = source.get("target") or {}, path / "target"
    if kind == "object":
        described_object = source.get("describedObject") or {}
        described_object_path = path / "describedObject"
        yield from _validate_reference(described_object, described_object_path)
        version = described_object.get("apiVersion") or ""
        if version.count("/") > 1:
            message = f"unexpected GroupVersion string: {version}"
            yield invalid(described_object_path / "apiVersion", version, message)
    if kind in ("resource", "containerResource"):
        name = source.get("name")
        if not name:
            yield required(path / "name", "must specify a resource name")
        elif kind == "containerResource":
            yield from validate_container_resource_name(name, path / "name")
        if kind == "containerResource":
            yield from _validate_container(source.get("container") or "", path / "container")
    else:
        name = (source.get("metric") or {}).get("name") or ""
        if not name:
            yield required(path / "metric" / "name", "must specify a metric name")
        yield from validate_format(names.path_segment, name, path / "metric" / "name")
    yield from _validate_target(target, target_path)
    yield from _validate_target_fields(kind, target, target_path)


def _validate_container(name: str, path: Path) -> Iterator[FieldError]:
    if name:
        yield from validate_format(names.dns1123_label, name, path)
    else:
        yield required(path, "must specify a container")


def _validate_target_fields(kind: str, target: Tree, path: Path) -> Iterator[FieldError]:
    is_set = {name: target.get(name) is not None for name in _TARGETS.values()}
    if kind == "pods":
        if not is_set["averageValue"]:
            yield required(path / "averageValue", "must specify a positive target averageValue")
    elif kind in ("resource", "containerResource"):
        if not is_set["averageUtilization"] and not is_set["averageValue"]:
            detail = "must set either a target raw value or a target utilization"
            yield required(path / "averageUtilization", detail)
        if is_set["averageUtilization"] and is_set["averageValue"]:
            detail = "may not set both a target raw value and a target utilization"
            yield forbidden(path / "averageValue", detail)
    else:
        if not is_set["value"] and not is_set["averageValue"]:
            detail = "must set either a target value or averageValue"
            if kind == "external":
                detail = "must set either a target value for metric or a per-pod target"
            yield required(path / "averageValue", detail)
        if kind == "external" and is_set["value"] and is_set["averageValue"]:
            detail = "may not set both a target value for metric and a per-pod target"
            yield forbidden(path / "value", detail)


def _validate_target(target: Tree, path: Path) -> Iterator[FieldError]:
    type_ = target.get("type") or ""
    if not type_:
        yield required(path / "type", "must specify a metric target type")
    if type_ not in _TARGETS:
        detail = "must be either Utilization, Value, or AverageValue"
        yield invalid(path / "type", NamedString(type_), detail)
    for name in ("value", "averageValue"):
        if target.get(name) is not None and amount(target[name]) <= 0:
            yield invalid(path / name, target[name], "must be positive")
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        yield invalid(path / "averageUtilization", utilization, "must be greater than 0")


def _validate_scaling_rules(rules: Tree, path: Path) -> Iterator[FieldError]:
    window = rules.get("stabilizationWindowSeconds") or 0
    if window < 0:
        detail = "must be greater than or equal to zero"
        yield invalid(path / "stabilizationWindowSeconds", window, detail)
    if window > _WINDOW_MAX:
        detail = f"must be less than or equal to {_WINDOW_MAX}"
        yield invalid(path / "stabilizationWindowSeconds", window, detail)
    if rules.get("selectPolicy") is not None:
        choices = ("Disabled", "Max", "Min")
        if rules["selectPolicy"] not in choices:
            yield not_supported(path / "selectPolicy", rules["selectPolicy"], choices)
    policies = rules.get("policies") or ()
    if not policies:
        yield required(path / "policies", "must specify at least one Policy")
    for index, policy in enumerate(policies):
        yield from _validate_policy(policy, (path / "policies")[index])
    tolerance = rules.get("tolerance")
    if tolerance is not None and amount(tolerance) < 0:
        yield invalid(path / "tolerance", tolerance, NEGATIVE)


def _validate_policy(policy: Tree, path: Path) -> Iterator[FieldError]:
    if policy.get("type") not in ("Percent", "Pods"):
        yield not_supported(path / "type", policy.get("type") or "", ("Percent", "Pods"))
    value, period = policy.get("value") or 0, policy.get("periodSeconds") or 0
    if value <= 0:
        yield invalid(path / "value", value, "must be greater than zero")
    if period <= 0:
        yield invalid(path / "periodSeconds", period, "must be greater than zero")
    if period > _PERIOD_MAX:
        detail = f"must be less than or equal to {_PERIOD_MAX}"
        yield invalid(path / "periodSeconds", period, detail)


def validate_autoscaler_status_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """Validate the status of an autoscaler."""
    status = new.get("status") or {}
    for index, condition in enumerate(status.get("conditions") or ()):
        yield from validate_nonnegative_field(
            condition, "observedGeneration", (Path("status") / "conditions")[index]
        )
    for name in ("currentReplicas", "desiredReplicas"):
        yield from validate_nonnegative_field(status, name, Path("status"))
