"""How writes of the autoscaling group behave."""

from __future__ import annotations

from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy


class HorizontalPodAutoscalerStrategy(SpecStrategy):
    """Spec and status apart; generations count the changes of the spec."""

    empty_status = {"desiredReplicas": 0, "currentMetrics": None}


_HPA = HorizontalPodAutoscalerStrategy()

STRATEGIES: dict[str, Strategy] = {
    "horizontalpodautoscalers": _HPA,
    "horizontalpodautoscalers/status": StatusStrategy(_HPA),
}
