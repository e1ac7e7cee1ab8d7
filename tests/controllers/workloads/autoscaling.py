"""Behaviors and histories of autoscalers, for the tests of their rules and plans."""

from __future__ import annotations

from kapiserver.controllers.workloads.horizontal_pod_autoscaler.scaling_rules import (
    Recommendation,
    ScaleEvent,
    ScalingHistory,
)

NOW = 1_700_000_000.0
WINDOW = 300.0
UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
DOWN = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


def history(recommendations=(), ups=(), downs=()):
    """A history of (replicas, seconds ago)."""
    return ScalingHistory(
        tuple(Recommendation(value, NOW - ago) for value, ago in recommendations),
        tuple(ScaleEvent(value, NOW - ago) for value, ago in ups),
        tuple(ScaleEvent(value, NOW - ago) for value, ago in downs),
    )
