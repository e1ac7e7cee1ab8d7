"""Strategies of the autoscaling group."""

from __future__ import annotations

from kapiserver.api.autoscaling.declarative_rules import HORIZONTAL_POD_AUTOSCALER
from kapiserver.api.autoscaling.validation import (
    validate_autoscaler_status_update,
    validate_horizontal_pod_autoscaler,
)
from kapiserver.api.errors import FieldError
from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree


class HorizontalPodAutoscalerStrategy(SpecStrategy):
    """The strategy of horizontal pod autoscalers."""

    empty_status = {"desiredReplicas": 0, "currentMetrics": None}
    declarative_rules = HORIZONTAL_POD_AUTOSCALER

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_horizontal_pod_autoscaler(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_horizontal_pod_autoscaler(new, old))


_HPA = HorizontalPodAutoscalerStrategy()

STRATEGIES: dict[str, Strategy] = {
    "horizontalpodautoscalers": _HPA,
    "horizontalpodautoscalers/status": StatusStrategy(
        _HPA, validate_status=validate_autoscaler_status_update
    ),
}
