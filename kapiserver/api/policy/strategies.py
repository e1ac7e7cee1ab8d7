"""Strategies of the policy group."""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api import names
from kapiserver.api.errors import FieldError
from kapiserver.api.metadata_validation import any_finalizers
from kapiserver.api.policy.validation import (
    validate_budget_status_update,
    validate_pod_disruption_budget,
)
from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree


class PodDisruptionBudgetStrategy(SpecStrategy):
    """The strategy of pod disruption budgets. Updates must name a resourceVersion, because
    evictions count on the status. Any path segment is a valid name."""

    allow_unconditional_update = False
    empty_status = {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    }

    def check_name(self, name: str) -> list[str]:
        return names.path_segment(name)

    def check_finalizers(self, finalizers: Sequence[str]) -> list[FieldError]:
        return any_finalizers(finalizers)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_pod_disruption_budget(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_pod_disruption_budget(new, old))


_BUDGET = PodDisruptionBudgetStrategy()

STRATEGIES: dict[str, Strategy] = {
    "poddisruptionbudgets": _BUDGET,
    "poddisruptionbudgets/status": StatusStrategy(
        _BUDGET, validate_status=validate_budget_status_update
    ),
}
