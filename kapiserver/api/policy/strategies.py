"""How writes of the policy group behave."""

from __future__ import annotations

from kapiserver.api.errors import FieldError
from kapiserver.api.policy.validation import changed_budget_status, pod_disruption_budget
from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree


class PodDisruptionBudgetStrategy(SpecStrategy):
    """Evictions count on it, so nobody overwrites one unseen."""

    allow_unconditional_update = False
    empty_status = {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    }

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(pod_disruption_budget(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return self.validate(new)


_BUDGET = PodDisruptionBudgetStrategy()

STRATEGIES: dict[str, Strategy] = {
    "poddisruptionbudgets": _BUDGET,
    "poddisruptionbudgets/status": StatusStrategy(_BUDGET, rule=changed_budget_status),
}
