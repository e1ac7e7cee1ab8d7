"""Defaulting of the autoscaling group.

Mirrors pkg/apis/autoscaling/v1 and v2/defaults.go.
"""

from __future__ import annotations

import copy

from kapiserver.api.autoscaling import v1, v2
from kapiserver.api.defaulting import DefaultFunction
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree, Type

_CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
_SCALE_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


def _default_min_replicas(spec: Tree) -> None:
    if spec.get("minReplicas") is None:
        spec["minReplicas"] = 1


def _default_metrics(spec: Tree) -> None:
    _default_min_replicas(spec)
    if not spec.get("metrics"):
        spec["metrics"] = [copy.deepcopy(_CPU)]


def _default_behavior(behavior: Tree) -> None:
    for name, defaults in (("scaleUp", _SCALE_UP), ("scaleDown", _SCALE_DOWN)):
        rules = behavior.get(name) or {}
        behavior[name] = rules
        for key, value in defaults.items():
            if rules.get(key) is None:
                rules[key] = copy.deepcopy(value)
        reorder_keys(rules, v2.HPAScalingRules)


DEFAULTS: dict[type[Type], DefaultFunction] = {
    v1.HorizontalPodAutoscalerSpec: _default_min_replicas,
    v2.HorizontalPodAutoscalerSpec: _default_metrics,
    v2.HorizontalPodAutoscalerBehavior: _default_behavior,
}
