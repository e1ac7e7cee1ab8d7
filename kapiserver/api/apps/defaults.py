"""What the apps group fills in, beside the defaults that its types declare.

Mirrors pkg/apis/apps/v1/defaults.go.
"""

from __future__ import annotations

from kapiserver.api.apps import v1
from kapiserver.api.defaulting import DefaultFunction
from kapiserver.api.order import settle
from kapiserver.api.types import Tree, Type


def _deployment(deployment: Tree) -> None:
    spec = deployment.setdefault("spec", {})
    for name, value in (
        ("replicas", 1),
        ("revisionHistoryLimit", 10),
        ("progressDeadlineSeconds", 600),
    ):
        if spec.get(name) is None:
            spec[name] = value
    strategy = spec.get("strategy") or {}
    spec["strategy"] = strategy
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        strategy["rollingUpdate"] = rolling
        for name in ("maxUnavailable", "maxSurge"):
            if rolling.get(name) is None:
                rolling[name] = "25%"
        settle(rolling, v1.RollingUpdateDeployment)
    settle(strategy, v1.DeploymentStrategy)
    settle(spec, v1.DeploymentSpec)


DEFAULTS: dict[type[Type], DefaultFunction] = {v1.Deployment: _deployment}
