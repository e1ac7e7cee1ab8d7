"""Validation of horizontal pod autoscalers, in the hub version."""

import pytest

from tests.objects import AUTOSCALER, GONE, changed, defaulted, strategy, texts, write_errors

METRIC = "spec.metrics[0]"
TARGET = {"type": "AverageValue", "averageValue": "1"}
NO_GROUP = "apiVersion must specify API group"
OBJECT = {
    "type": "Object",
    "object": {
        "describedObject": {"kind": "Service", "name": "s", "apiVersion": "v1"},
        "metric": {"name": "m"},
        "target": {"type": "Value", "value": "1"},
    },
}


TYPES = 'supported values: "ContainerResource", "External", "Object", "Pods", "Resource"'


def behavior(**rules):
    """Return an autoscaler's behavior with these fields in scaleUp."""
    policy = {"type": "Pods", "value": 1, "periodSeconds": 15}
    return {"scaleUp": {"policies": [policy], **rules}}


CASES = [
    ("", GONE, []),
    (
        "spec/maxReplicas",
        0,
        [
            "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
            "spec.maxReplicas: Required value",
        ],
    ),
    (
        "spec/minReplicas",
        -1,
        ["spec.minReplicas: Invalid value: -1: must be greater than or equal to 0"],
    ),
    (
        "spec/minReplicas",
        0,
        [
            "spec.metrics: Forbidden: must specify at least one Object or External metric to "
            "support scaling to zero replicas"
        ],
    ),
    (
        "spec",
        {**AUTOSCALER["spec"], "minReplicas": 0, "metrics": [OBJECT]},
        [],
    ),
    ("spec/scaleTargetRef/name", "", ["spec.scaleTargetRef.name: Required value"]),
    (
        "spec/scaleTargetRef/kind",
        "a/b",
        ["spec.scaleTargetRef.kind: Invalid value: \"a/b\": may not contain '/'"],
    ),
    (
        "spec/scaleTargetRef/apiVersion",
        "v1",
        [f'spec.scaleTargetRef.apiVersion: Invalid value: "v1": {NO_GROUP}'],
    ),
    (
        "spec/scaleTargetRef/apiVersion",
        "a/b/c",
        [
            'spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion '
            "string: a/b/c"
        ],
    ),
    ("spec/scaleTargetRef", {"kind": "ReplicationController", "name": "r"}, []),
    (
        "spec/metrics",
        [{"type": "Pods"}],
        [f"{METRIC}.pods: Required value: must populate information for the given metric source"],
    ),
    (
        "spec/metrics",
        [{"type": "Pods", "pods": {"metric": {"name": "a/b"}, "target": TARGET}}],
        [f"{METRIC}.pods.metric.name: Invalid value: \"a/b\": may not contain '/'"],
    ),
    (
        "spec/metrics",
        [changed(OBJECT, "object/target", {"type": "Value"})],
        [
            f"{METRIC}.object.target.averageValue: Required value: must set either a target value "
            "or averageValue"
        ],
    ),
    (
        "spec/metrics",
        [changed(OBJECT, "object/describedObject/apiVersion", "a/b/c")],
        [
            f'{METRIC}.object.describedObject.apiVersion: Invalid value: "a/b/c": unexpected '
            "GroupVersion string: a/b/c"
        ],
    ),
    (
        "spec/maxReplicas",
        -1,
        [
            "spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
            "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1",
        ],
    ),
    (
        "spec/metrics",
        [{}],
        [
            f"{METRIC}.type: Required value: must specify a metric source type",
            f'{METRIC}.type: Unsupported value: "": {TYPES}',
            f'{METRIC}.type: Unsupported value: "": {TYPES}',
        ],
    ),
    (
        "spec/metrics",
        [{**OBJECT, "type": "Pods"}],
        [f"{METRIC}.pods: Required value: must populate information for the given metric source"],
    ),
    (
        "spec/metrics",
        [{**OBJECT, "type": "Resource", "resource": {"name": "cpu", "target": {"type": "Odd"}}}],
        [f"{METRIC}.object: Forbidden: must populate the given metric source only"],
    ),
    (
        "spec/metrics",
        [{"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 1}}}],
        [
            f"{METRIC}.resource.target.type: Required value: must specify a metric target type",
            f'{METRIC}.resource.target.type: Invalid value: "": must be either Utilization, Value, '
            "or AverageValue",
        ],
    ),
    (
        "spec/metrics",
        [
            {
                "type": "ContainerResource",
                "containerResource": {"name": "gold", "container": "a.b", "target": TARGET},
            }
        ],
        [
            f'{METRIC}.containerResource.name: Invalid value: "gold": must be a standard resource '
            "type or fully qualified",
            f'{METRIC}.containerResource.name: Invalid value: "gold": must be a standard resource '
            "for containers",
            f'{METRIC}.containerResource.container: Invalid value: "a.b": must not contain dots',
        ],
    ),
    (
        "spec/behavior",
        behavior(stabilizationWindowSeconds=-1, tolerance="-1"),
        [
            "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: -1: must be greater "
            "than or equal to zero",
            'spec.behavior.scaleUp.tolerance: Invalid value: "-1": must be greater than or equal '
            "to 0",
        ],
    ),
    (
        "spec/behavior",
        behavior(stabilizationWindowSeconds=3601, selectPolicy="Odd"),
        [
            "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less "
            "than or equal to 3600",
            'spec.behavior.scaleUp.selectPolicy: Unsupported value: "Odd": supported values: '
            '"Disabled", "Max", "Min"',
        ],
    ),
]


@pytest.mark.parametrize(("path", "value", "messages"), CASES)
def test_rules(path, value, messages):
    """Each invalid field gives exactly its messages."""
    obj = defaulted(changed(AUTOSCALER, path, value))
    assert write_errors("horizontalpodautoscalers", obj) == messages


def test_observed_generation():
    """Observed generations cannot be negative."""
    old = defaulted(AUTOSCALER)
    condition = {"type": "a", "status": "True", "observedGeneration": -1}
    new = changed(old, "status/conditions", [condition])
    new["status"]["desiredReplicas"] = -1
    errors = strategy("horizontalpodautoscalers/status").validate_update(new, old)
    assert [str(error.path) for error in errors] == [
        "status.conditions[0].observedGeneration",
        "status.desiredReplicas",
    ]


def test_old_targets():
    """A target without a group may stay if it had none before."""
    old = defaulted(changed(AUTOSCALER, "spec/scaleTargetRef/apiVersion", GONE))
    new = changed(old, "spec/maxReplicas", 7)
    kind_strategy = strategy("horizontalpodautoscalers")
    assert texts(kind_strategy.validate_update(new, old)) == []
    assert len(kind_strategy.validate_update(new, defaulted(AUTOSCALER))) == 1
