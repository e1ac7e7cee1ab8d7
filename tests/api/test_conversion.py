"""Conversion: derived from types, completed by functions, and between the versions of
autoscaling."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.conversion import Conversion
from kapiserver.api.errors import ConversionFailed, NotRegistered
from kapiserver.api.group import HUB, GroupVersion
from kapiserver.api.groups import GROUPS
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree, Type, field, int32, int64

V1, V2 = GroupVersion("autoscaling", "v1"), GroupVersion("autoscaling", "v2")
INTERNAL = GroupVersion("autoscaling", HUB)
ALPHA = "autoscaling.alpha.kubernetes.io"


@pytest.mark.parametrize("group", [group.name for group in GROUPS])
def test_every_version_converts(group: str) -> None:
    """All versions of each group convert to the hub and back."""
    assert isinstance(Scheme().conversion(group), Conversion)


def test_same_version() -> None:
    """An object in the target version is returned itself."""
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {}}
    assert Scheme().convert(pod, Scheme().hub_version("", "Pod")) is pod


def test_kinds_of_meta() -> None:
    """Conversion of an options kind of meta/v1 changes its apiVersion only."""
    options = {"kind": "DeleteOptions", "apiVersion": "autoscaling/v1", "dryRun": ["All"]}
    assert Scheme().convert(options, V2) == {**options, "apiVersion": "autoscaling/v2"}


UNSERVED = [
    ({"kind": "Deployment", "apiVersion": "apps/v1beta1"}, GroupVersion("apps", "v1")),
    ({"kind": "Deployment", "apiVersion": "apps/v1"}, GroupVersion("apps", "v1beta2")),
    ({"kind": "Scale", "apiVersion": "apps/v1beta1"}, GroupVersion("extensions", "v1beta1")),
]


@pytest.mark.parametrize(("obj", "version"), UNSERVED)
def test_unserved_versions_do_not_convert(obj: Tree, version: GroupVersion) -> None:
    """Objects of unserved versions are decoded and encoded without conversion."""
    with pytest.raises(ConversionFailed, match="does not convert to"):
        Scheme().convert(obj, version)


def test_defaults_of_unserved_kinds() -> None:
    """Defaulting an object of an unserved version sets the defaults of core types only."""
    spec: Tree = {"schedule": "", "jobTemplate": {"spec": {"template": {}}}}
    Scheme().default(
        {"kind": "CronJob", "apiVersion": "batch/v1beta1", "metadata": {}, "spec": spec}
    )
    assert spec.keys() == {"schedule", "jobTemplate"}
    assert spec["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst"


def test_unknown_kinds() -> None:
    """A kind that the target version does not have raises NotRegistered."""
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1"}
    with pytest.raises(NotRegistered):
        Scheme().convert(scale, V2)


class Old:
    """A version."""

    class Thing(Type):
        """A kind in the old version."""

        count: int64 = field(1)
        gone: str = field(2)


class New:
    """Another version."""

    class Thing(Type):
        """A kind in the new version."""

        count: int32 = field(1)
        added: str = field(2, always=True)


def test_missing_conversion_function() -> None:
    """Compiling a conversion raises an error that names each field that differs and has no
    conversion function."""
    with pytest.raises(TypeError, match="added, gone"):
        Conversion({}).converter(Old.Thing, New.Thing)


def test_conversion_function() -> None:
    """A conversion function gets the source and the derived fields; key order and zero values are
    Go's."""

    def rename(source: Tree, target: Tree) -> None:
        assert target == {"count": 3}
        if "gone" in source:
            target["added"] = source["gone"]

    convert = Conversion({(Old.Thing, New.Thing): rename}).converter(Old.Thing, New.Thing)
    assert convert({"count": 3, "gone": "x"}) == {"count": 3, "added": "x"}
    assert convert({"count": 3}) == {"count": 3, "added": ""}


def test_number_out_of_range() -> None:
    """An int64 beyond int32 raises ConversionFailed."""
    functions = {(Old.Thing, New.Thing): lambda source, target: None}
    convert = Conversion(functions).converter(Old.Thing, New.Thing)
    with pytest.raises(ConversionFailed, match="4294967296"):
        convert({"count": 2**32})


# --- autoscaling

TARGET = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
SELECTOR = {"matchLabels": {"verb": "GET"}}


def hpa(version: GroupVersion, spec: Tree, status: Tree, **metadata: Any) -> Tree:
    """Return a canonical autoscaler."""
    zero = {"desiredReplicas": 0, "currentMetrics": None}
    replicas = {name: spec[name] for name in ("minReplicas",) if name in spec} | {"maxReplicas": 5}
    if version == V1:
        zero = {"currentReplicas": 0, "desiredReplicas": 0}
    return {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": str(version),
        "metadata": {"name": "web", **metadata},
        "spec": {"scaleTargetRef": TARGET} | replicas | spec,
        "status": zero | status,
    }


def cpu(percent: int) -> Tree:
    """Return a CPU utilization target."""
    return {
        "type": "Resource",
        "resource": {
            "name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": percent},
        },
    }


# (v2 metric, v1 metric as the annotation has it)
METRICS = [
    (
        {
            "type": "Pods",
            "pods": {
                "metric": {"name": "qps", "selector": SELECTOR},
                "target": {"type": "AverageValue", "averageValue": "100"},
            },
        },
        {
            "type": "Pods",
            "pods": {"metricName": "qps", "targetAverageValue": "100", "selector": SELECTOR},
        },
    ),
    (
        {
            "type": "Object",
            "object": {
                "describedObject": TARGET,
                "target": {"type": "Value", "value": "2k"},
                "metric": {"name": "hits"},
            },
        },
        {"type": "Object", "object": {"target": TARGET, "metricName": "hits", "targetValue": "2k"}},
    ),
    (
        {
            "type": "External",
            "external": {
                "metric": {"name": "queue", "selector": SELECTOR},
                "target": {"type": "AverageValue", "averageValue": "30"},
            },
        },
        {
            "type": "External",
            "external": {
                "metricName": "queue",
                "metricSelector": SELECTOR,
                "targetAverageValue": "30",
            },
        },
    ),
    (
        {
            "type": "Resource",
            "resource": {
                "name": "memory",
                "target": {"type": "AverageValue", "averageValue": "1Gi"},
            },
        },
        {"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}},
    ),
    (
        {
            "type": "ContainerResource",
            "containerResource": {
                "name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 60},
                "container": "main",
            },
        },
        {
            "type": "ContainerResource",
            "containerResource": {
                "name": "cpu",
                "targetAverageUtilization": 60,
                "container": "main",
            },
        },
    ),
]

READINGS = [
    (
        {
            "type": "Resource",
            "resource": {
                "name": "cpu",
                "current": {"averageValue": "250m", "averageUtilization": 42},
            },
        },
        {
            "type": "Resource",
            "resource": {
                "name": "cpu",
                "currentAverageUtilization": 42,
                "currentAverageValue": "250m",
            },
        },
    ),
    (
        {
            "type": "Pods",
            "pods": {"metric": {"name": "qps"}, "current": {"averageValue": "90"}},
        },
        {"type": "Pods", "pods": {"metricName": "qps", "currentAverageValue": "90"}},
    ),
    (
        {
            "type": "Object",
            "object": {
                "metric": {"name": "hits"},
                "current": {"value": "1k", "averageValue": "10"},
                "describedObject": TARGET,
            },
        },
        {
            "type": "Object",
            "object": {
                "target": TARGET,
                "metricName": "hits",
                "currentValue": "1k",
                "averageValue": "10",
            },
        },
    ),
    (
        {"type": "External", "external": {"metric": {"name": "q"}, "current": {"value": "7"}}},
        {"type": "External", "external": {"metricName": "q", "currentValue": "7"}},
    ),
    (
        {
            "type": "ContainerResource",
            "containerResource": {
                "name": "memory",
                "current": {"averageValue": "1Gi"},
                "container": "main",
            },
        },
        {
            "type": "ContainerResource",
            "containerResource": {
                "name": "memory",
                "currentAverageValue": "1Gi",
                "container": "main",
            },
        },
    ),
]

CONDITION = {
    "type": "AbleToScale",
    "status": "True",
    "lastTransitionTime": "2024-01-02T03:04:05Z",
    "reason": "Ready<now>",
}
RULES = {
    "stabilizationWindowSeconds": 0,
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}],
    "tolerance": "100m",
}
GO_RULES = (
    '{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":null,'
    '"Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":"100m"},'
    '"ScaleDown":null}'
)

V2_OBJECTS = [
    hpa(V2, {"metrics": [cpu(80)]}, {}),
    hpa(V2, {"minReplicas": 2, "metrics": [*(metric for metric, _ in METRICS), cpu(50)]}, {}),
    *(hpa(V2, {"metrics": [metric]}, {}) for metric, _ in METRICS),
    hpa(V2, {"metrics": [cpu(1)]}, {"currentMetrics": [metric for metric, _ in READINGS]}),
    *(hpa(V2, {"metrics": [cpu(1)]}, {"currentMetrics": [metric]}) for metric, _ in READINGS),
    hpa(V2, {"metrics": [cpu(9)], "behavior": {"scaleUp": RULES}}, {"conditions": [CONDITION]}),
    hpa(V2, {"metrics": [cpu(9)]}, {}, annotations={"mine": "1"}, finalizers=["x/y"]),
]


@pytest.mark.parametrize("obj", V2_OBJECTS)
@pytest.mark.parametrize("versions", [(INTERNAL, V2), (INTERNAL, V1, INTERNAL, V2), (V1, V2)])
def test_v2_round_trips(obj: Tree, versions: tuple[GroupVersion, ...]) -> None:
    """v2 survives v1 byte for byte, and no conversion changes its argument."""
    old_copy = copy.deepcopy(obj)
    converted = obj
    for version in versions:
        converted = Scheme().convert(converted, version)
    assert json.dumps(converted) == json.dumps(old_copy)
    assert obj == old_copy


@settings(max_examples=100)
@given(
    other_metrics=st.lists(st.sampled_from([metric for metric, _ in METRICS])),
    percent=st.none() | st.integers(0, 2**31 - 1),
    metric_statuses=st.lists(st.sampled_from([metric for metric, _ in READINGS])),
    behavior=st.fixed_dictionaries(
        {}, optional={name: st.just(RULES) | st.just({}) for name in ("scaleUp", "scaleDown")}
    ),
    conditions=st.lists(st.just(CONDITION), max_size=3),
)
def test_any_v2_round_trips_through_v1(
    other_metrics: list[Tree],
    percent: int | None,
    metric_statuses: list[Tree],
    behavior: Tree,
    conditions: list[Tree],
) -> None:
    """Any v2 object survives v1, except that the CPU target moves to the end."""
    metrics = other_metrics + ([cpu(percent)] if percent is not None else [])
    ordered = dict(sorted(behavior.items(), reverse=True))  # scaleUp is declared first
    spec = {"metrics": metrics or [cpu(80)]} | ({"behavior": ordered} if ordered else {})
    status = {"currentMetrics": metric_statuses or None}
    obj = hpa(V2, spec, status | ({"conditions": conditions} if conditions else {}))
    v1_object = Scheme().convert(obj, V1)
    assert json.dumps(Scheme().convert(v1_object, V2)) == json.dumps(obj)


V1_OBJECTS = [
    hpa(V1, {"targetCPUUtilizationPercentage": 30}, {}),
    hpa(V1, {"minReplicas": 1, "targetCPUUtilizationPercentage": 30}, {"currentReplicas": 3}),
    hpa(V1, {"targetCPUUtilizationPercentage": 80}, {}, annotations={"mine": "1"}),
]


@pytest.mark.parametrize("obj", V1_OBJECTS)
def test_v1_round_trips_through_the_hub(obj: Tree) -> None:
    """v1 survives the hub."""
    hub_object = Scheme().convert(obj, INTERNAL)
    assert json.dumps(Scheme().convert(hub_object, V1)) == json.dumps(obj)


def _annotations(obj: Tree) -> dict[str, str]:
    annotations: dict[str, str] = Scheme().convert(obj, V1)["metadata"]["annotations"]
    return annotations


@pytest.mark.parametrize(("v2_metric", "v1_metric"), METRICS)
def test_metrics_are_v1_annotations(v2_metric: Tree, v1_metric: Tree) -> None:
    """A metric without a field in v1 is stored as JSON in an annotation."""
    annotation = _annotations(hpa(V2, {"metrics": [v2_metric, cpu(50)]}, {}))
    assert annotation == {f"{ALPHA}/metrics": json.dumps([v1_metric], separators=(",", ":"))}


@pytest.mark.parametrize(("v2_metric", "v1_metric"), READINGS)
def test_current_metrics_are_v1_annotations(v2_metric: Tree, v1_metric: Tree) -> None:
    """Every current metric is stored in an annotation, including that of the CPU."""
    annotation = _annotations(hpa(V2, {"metrics": [cpu(50)]}, {"currentMetrics": [v2_metric]}))
    assert annotation == {
        f"{ALPHA}/current-metrics": json.dumps([v1_metric], separators=(",", ":"))
    }


def test_behavior_and_conditions_are_v1_annotations() -> None:
    """The annotations have the names of Go's internal structs, with HTML escaped in conditions."""
    annotations = _annotations(V2_OBJECTS[-2])
    assert annotations[f"{ALPHA}/behavior"] == GO_RULES
    assert "Ready\\u003cnow\\u003e" in annotations[f"{ALPHA}/conditions"]
    assert list(annotations) == sorted(annotations)


def test_current_cpu_is_a_field_of_v1() -> None:
    """v1 has a field for the current CPU utilization."""
    obj = hpa(V2, {"metrics": [cpu(50)]}, {"currentMetrics": [READINGS[0][0]]})
    assert Scheme().convert(obj, V1)["status"]["currentCPUUtilizationPercentage"] == 42


def test_no_target_means_80_percent_of_cpu() -> None:
    """v1 without a target gets the default that controllers used."""
    hub_object = Scheme().convert(hpa(V1, {}, {}), INTERNAL)
    assert hub_object["spec"]["metrics"] == [cpu(80)]
    assert list(hub_object["spec"]) == ["scaleTargetRef", "maxReplicas", "metrics"]


BROKEN = [
    "",
    "null",
    "{",
    "[1]",
    '[{"type":1}]',
    "7",
    '{"a":1}',
    '[{"type":"Pods","pods":[],"status":1}]',
]


@pytest.mark.parametrize("text", BROKEN)
@pytest.mark.parametrize("name", ["metrics", "current-metrics", "conditions", "behavior"])
def test_malformed_annotations_are_ignored(name: str, text: str) -> None:
    """A malformed conversion annotation from a client is ignored."""
    obj = hpa(V1, {"targetCPUUtilizationPercentage": 7}, {}, annotations={f"{ALPHA}/{name}": text})
    converted = Scheme().convert(obj, V2)
    assert converted == hpa(V2, {"metrics": [cpu(7)]}, {})


def test_annotations_are_dropped_in_v2() -> None:
    """The conversion annotations are dropped in v2, which has fields for them."""
    obj = hpa(V2, {"metrics": [cpu(7)]}, {}, annotations={f"{ALPHA}/behavior": "{}", "x": "y"})
    assert Scheme().convert(obj, INTERNAL)["metadata"]["annotations"] == {"x": "y"}


def test_lists_convert_item_by_item() -> None:
    """A list converts item by item."""
    items = [{k: v for k, v in name.items() if k != "apiVersion"} for name in V1_OBJECTS]
    list_ = {
        "kind": "HorizontalPodAutoscalerList",
        "apiVersion": "autoscaling/v1",
        "metadata": {"resourceVersion": "7"},
        "items": items,
    }
    converted = Scheme().convert(list_, V2)
    assert converted["metadata"] == {"resourceVersion": "7"}
    assert [item["spec"]["metrics"] for item in converted["items"]] == [
        [cpu(30)],
        [cpu(30)],
        [cpu(80)],
    ]
