"""Validation by allOf, anyOf, oneOf and not. Mirrors kube-openapi's schema-props validator.

If no alternative matches, the findings of the best match are reported.
"""

from __future__ import annotations

from typing import Any

from kapiserver.api.apiextensions.schema.structural import Structural
from kapiserver.api.apiextensions.schema.validation_plan import Finding, Plan, PlanOf, Step

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_DEPTH = 16
"""The maximum depth to which alternatives are compared."""


def steps(node: Structural, kind: type, plan_of: PlanOf) -> list[Step]:
    """Return the steps for a node's alternatives, for values of a Python type."""
    any_of = node.schema.get("anyOf")
    if any_of == _INT_OR_STRING and kind in (int, str):
        any_of = None  # the type decides it
    keywords = (
        (_any_of, any_of),
        (_one_of, node.schema.get("oneOf")),
        (_all_of, node.schema.get("allOf")),
    )
    result = [
        make_step(_Plans([Structural(schema) for schema in schemas], plan_of))
        for make_step, schemas in keywords
        if schemas
    ]
    excluded = node.schema.get("not")
    if excluded is not None:
        result.append(_not(_Plans([Structural(excluded)], plan_of)))
    return result


def _any_of(plans: _Plans) -> Step:
    def step(value: Any, old: Any) -> list[Finding] | None:
        failures = []
        for plan in plans.all():
            findings = plan.check_all(value, old)
            if not findings:
                return None
            failures.append(findings)
        summary = Finding("whole", "must validate at least one schema (anyOf)")
        return [summary, *_best_findings(plans, failures, value)]

    return step


def _one_of(plans: _Plans) -> Step:
    def step(value: Any, old: Any) -> list[Finding] | None:
        results = [plan.check_all(value, old) or [] for plan in plans.all()]
        valid = sum(not findings for findings in results)
        if valid == 1:
            return None
        count_text = f"Found {valid} valid alternatives" if valid else "Found none valid"
        summary = Finding("whole", f"must validate one and only one schema (oneOf). {count_text}")
        return [summary] if valid else [summary, *_best_findings(plans, results, value)]

    return step


def _all_of(plans: _Plans) -> Step:
    def step(value: Any, old: Any) -> list[Finding] | None:
        results = [plan.check_all(value, old) or [] for plan in plans.all()]
        if not any(results):
            return None
        suffix = ". None validated" if all(results) else ""
        summary = Finding("whole", f"must validate all the schemas (allOf){suffix}")
        return [finding for findings in results for finding in findings] + [summary]

    return step


def _not(plans: _Plans) -> Step:
    def step(value: Any, old: Any) -> list[Finding] | None:
        if plans.all()[0].check_all(value, old):
            return None
        return [Finding("whole", "must not validate the schema (not)")]

    return step


class _Plans:
    # Made on first use, because a schema may nest alternatives deeply.
    __slots__ = ("_plans", "nodes", "plan_of")

    def __init__(self, nodes: list[Structural], plan_of: PlanOf) -> None:
        self.nodes = nodes
        self.plan_of = plan_of
        self._plans: list[Plan] = []

    def all(self) -> list[Plan]:
        if not self._plans:
            self._plans = [self.plan_of(node) for node in self.nodes]
        return self._plans


def _best_findings(plans: _Plans, failures: list[list[Finding]], value: Any) -> list[Finding]:
    counts = [_count_matching_fields(node, value, _DEPTH) for node in plans.nodes]
    return failures[counts.index(max(counts))]


def _count_matching_fields(node: Structural, value: Any, depth: int) -> int:
    # The number of a schema's fields that a value has, valid or not.
    count = 1
    if depth and isinstance(value, dict):
        for name, child in node.properties.items():
            if name in value:
                count += _count_matching_fields(child, value[name], depth - 1)
    elif depth and isinstance(value, list) and node.items is not None:
        count += sum(_count_matching_fields(node.items, item, depth - 1) for item in value)
    return count
