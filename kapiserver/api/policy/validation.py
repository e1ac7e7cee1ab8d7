"""Validation of pod disruption budgets. Mirrors pkg/apis/policy/validation."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import value_at
from kapiserver.api.core.validation.conditions import validate_conditions
from kapiserver.api.core.validation.controllers import (
    validate_int_or_percent,
    validate_nonnegative_counts,
    validate_percent_at_most_100,
)
from kapiserver.api.errors import FieldError, Path, invalid, not_supported
from kapiserver.api.label_selectors import validate_label_selector
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_AMOUNTS = ("minAvailable", "maxUnavailable")
_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def validate_pod_disruption_budget(obj: Tree, old: Tree | None = None) -> Iterator[FieldError]:
    """Validate a new or updated budget. Labels of the old selector need not be valid."""
    spec, old_selector = obj.get("spec") or {}, value_at(old or {}, "spec", "selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if all(spec.get(name) is not None for name in _AMOUNTS):
        # The internal Go struct, whose JSON form has the names of Go's fields.
        value = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": policy,
        }
        yield invalid(_SPEC, value, "minAvailable and maxUnavailable cannot be both set")
    for name in _AMOUNTS:
        if spec.get(name) is not None:
            yield from validate_int_or_percent(spec[name], _SPEC / name)
            yield from validate_percent_at_most_100(spec[name], _SPEC / name)
    yield from validate_label_selector(
        spec.get("selector"), _SPEC / "selector", before=old_selector
    )
    if policy is not None and policy not in _EVICTION_POLICIES:
        yield not_supported(_SPEC / "unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES)


def validate_budget_status_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """Validate the status of a budget."""
    status = new.get("status") or {}
    yield from validate_conditions(status.get("conditions"), Path("status") / "conditions")
    yield from validate_nonnegative_counts(status, _COUNTS)
