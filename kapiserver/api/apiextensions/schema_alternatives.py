"""allOf, anyOf, oneOf and not of a schema. Mirrors kube-openapi's schema-props validator.

Where no alternative holds, the findings of the one that got furthest are told.
"""

from __future__ import annotations

from typing import Any

from kapiserver.api.apiextensions.schema_plan import Finding, Plan, PlanOf, Step
from kapiserver.api.apiextensions.structural import Structural

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_DEPTH = 16
"""How deep alternatives are compared."""


def steps(node: Structural, kind: type, plan_of: PlanOf) -> list[Step]:
    """The steps for a node's alternatives, for values of a Python type."""
    any_of = node.schema.get("anyOf")
    if any_of == _INT_OR_STRING and kind in (int, str):
        any_of = None  # an alternative is met by its type
    made = (
        (_any_of, any_of),
        (_one_of, node.schema.get("oneOf")),
        (_all_of, node.schema.get("allOf")),
    )
    found = [
        make(_Plans([Structural(one) for one in schemas], plan_of))
        for make, schemas in made
        if schemas
    ]
    excluded = node.schema.get("not")
    if excluded is not None:
        found.append(_not(_Plans([Structural(excluded)], plan_of)))
    return found


def _any_of(plans: _Plans) -> Step:
    def step(value: Any, old: Any) -> list[Finding] | None:
        failures = []
        for plan in plans.all():
            found = plan.check_all(value, old)
            if not found:
                return None
            failures.append(found)
        told = Finding("whole", "must validate at least one schema (anyOf)")
        return [told, *_best(plans, failures, value)]

    return step


def _one_of(plans: _Plans) -> Step:
    def step(value: Any, old: Any) -> list[Finding] | None:
        results = [plan.check_all(value, old) or [] for plan in plans.all()]
        right = sum(not found for found in results)
        if right == 1:
            return None
        how = f"Found {right} valid alternatives" if right else "Found none valid"
        told = Finding("whole", f"must validate one and only one schema (oneOf). {how}")
        return [told] if right else [told, *_best(plans, results, value)]

    return step


def _all_of(plans: _Plans) -> Step:
    def step(value: Any, old: Any) -> list[Finding] | None:
        results = [plan.check_all(value, old) or [] for plan in plans.all()]
        if not any(results):
            return None
        none = ". None validated" if all(results) else ""
        told = Finding("whole", f"must validate all the schemas (allOf){none}")
        return [one for found in results for one in found] + [told]

    return step


def _not(plans: _Plans) -> Step:
    def step(value: Any, old: Any) -> list[Finding] | None:
        if plans.all()[0].check_all(value, old):
            return None
        return [Finding("whole", "must not validate the schema (not)")]

    return step


class _Plans:
    # Made when a value first comes: a schema may nest alternatives deeply.
    __slots__ = ("made", "nodes", "plan_of")

    def __init__(self, nodes: list[Structural], plan_of: PlanOf) -> None:
        self.nodes = nodes
        self.plan_of = plan_of
        self.made: list[Plan] = []

    def all(self) -> list[Plan]:
        if not self.made:
            self.made = [self.plan_of(node) for node in self.nodes]
        return self.made


def _best(plans: _Plans, failures: list[list[Finding]], value: Any) -> list[Finding]:
    counts = [_matches(node, value, _DEPTH) for node in plans.nodes]
    return failures[counts.index(max(counts))]


def _matches(node: Structural, value: Any, depth: int) -> int:
    # How many of a schema's parts a value has, right or wrong.
    count = 1
    if depth and isinstance(value, dict):
        for name, child in node.properties.items():
            if name in value:
                count += _matches(child, value[name], depth - 1)
    elif depth and isinstance(value, list) and node.items is not None:
        count += sum(_matches(node.items, one, depth - 1) for one in value)
    return count
