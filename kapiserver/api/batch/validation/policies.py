"""Validation of a job's pod failure policy, success policy and pod replacement policy."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from kapiserver.api import names
from kapiserver.api.batch.indexes import parse_intervals
from kapiserver.api.core.validation.common import validate_format, validate_nonnegative_field
from kapiserver.api.errors import (
    OMITTED,
    FieldError,
    Path,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from kapiserver.api.types import Tree

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_RULES_MAX = 20
_PATTERNS_MAX = 20
_VALUES_MAX = 255
_INDEXES_MAX = 64 * 1024


def validate_pod_failure_policy(spec: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the pod failure policy of a job."""
    rules, rules_path = spec["podFailurePolicy"].get("rules") or (), path / "rules"
    if len(rules) > _RULES_MAX:
        yield too_many(rules_path, len(rules), _RULES_MAX)
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = {
        container.get("name") or ""
        for kind in ("containers", "initContainers")
        for container in pod.get(kind) or ()
    }
    by_index = spec.get("backoffLimitPerIndex") is not None
    for index, rule in enumerate(rules):
        yield from _validate_action(
            rule.get("action") or "", rules_path[index] / "action", by_index=by_index
        )
        yield from _validate_rule(rule, rules_path[index], containers)


def _validate_action(action: str, path: Path, *, by_index: bool) -> Iterator[FieldError]:
    if action == "FailIndex" and not by_index:
        yield invalid(path, action, "requires the backoffLimitPerIndex to be set")
    yield from _validate_required_enum(action, _ACTIONS, path)


def _validate_required_enum(value: str, allowed: Sequence[str], path: Path) -> Iterator[FieldError]:
    if not value:
        quoted_values = " ".join(f'"{choice}"' for choice in allowed)
        yield required(path, f"valid values: [{quoted_values}]")
    elif value not in allowed:
        yield not_supported(path, value, allowed)


def _validate_rule(rule: Tree, path: Path, containers: Collection[str]) -> Iterator[FieldError]:
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
    if codes is not None:
        yield from _validate_exit_codes(codes, path / "onExitCodes", containers)
    if conditions:
        yield from _validate_conditions(conditions, path / "onPodConditions")
    if codes is not None and conditions:
        detail = "specifying both OnExitCodes and OnPodConditions is not supported"
        yield invalid(path, OMITTED, detail)
    if codes is None and not conditions:
        detail = "specifying one of OnExitCodes and OnPodConditions is required"
        yield invalid(path, OMITTED, detail)


def _validate_conditions(patterns: Sequence[Tree], path: Path) -> Iterator[FieldError]:
    if len(patterns) > _PATTERNS_MAX:
        yield too_many(path, len(patterns), _PATTERNS_MAX)
    for index, pattern in enumerate(patterns):
        pattern_path = path[index]
        yield from validate_format(
            names.qualified_name, pattern.get("type") or "", pattern_path / "type"
        )
        yield from _validate_required_enum(
            pattern.get("status") or "", _STATUSES, pattern_path / "status"
        )


def _validate_exit_codes(
    codes: Tree, path: Path, containers: Collection[str]
) -> Iterator[FieldError]:
    operator, container = codes.get("operator") or "", codes.get("containerName")
    yield from _validate_required_enum(operator, _OPERATORS, path / "operator")
    if container is not None and container not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        yield invalid(path / "containerName", container, detail)
    values, values_path = codes.get("values") or [], path / "values"
    if not values:
        yield invalid(values_path, codes.get("values"), "at least one value is required")
    elif len(values) > _VALUES_MAX:
        yield too_many(values_path, len(values), _VALUES_MAX)
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and not value:
            yield invalid(values_path[index], value, "must not be 0 for the In operator")
        if value in seen:
            yield duplicate(values_path[index], value)
        seen.add(value)
    if values != sorted(values):
        yield invalid(values_path, values, "must be ordered")


def validate_success_policy(spec: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the success policy of an indexed job."""
    rules, rules_path = spec["successPolicy"].get("rules") or (), path / "rules"
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        yield required(rules_path, detail)
    if len(rules) > _RULES_MAX:
        yield too_many(rules_path, len(rules), _RULES_MAX)
    for index, rule in enumerate(rules):
        yield from _validate_success_rule(rule, rules_path[index], spec.get("completions") or 0)


def _validate_success_rule(rule: Tree, path: Path, completions: int) -> Iterator[FieldError]:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        detail = "at least one of succeededCount or succeededIndexes must be specified"
        yield required(path, detail)
    total = 0
    if indexes is not None:
        field_path = path / "succeededIndexes"
        if len(indexes) > _INDEXES_MAX:
            yield too_long(field_path, _INDEXES_MAX)
        try:
            total = sum(last - first + 1 for first, last in parse_intervals(indexes, completions))
        except ValueError as error:
            yield invalid(field_path, indexes, f"error parsing succeededIndexes: {error}")
    if count is None:
        return
    field_path = path / "succeededCount"
    yield from validate_nonnegative_field(rule, "succeededCount", path)
    if count > completions:
        detail = (
            f"must be less than or equal to {completions} (the number of specified completions)"
        )
        yield invalid(field_path, count, detail)
    if indexes is not None and count > total:
        detail = (
            f"must be less than or equal to {total} (the number of indexes in the specified "
            "succeededIndexes field)"
        )
        yield invalid(field_path, count, detail)


def validate_pod_replacement_policy(spec: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the pod replacement policy of a job."""
    policy = spec.get("podReplacementPolicy")
    has_failure_policy = spec.get("podFailurePolicy") is not None
    allowed = ("Failed",) if has_failure_policy else ("Failed", "TerminatingOrFailed")
    if policy is not None and policy not in allowed:
        yield not_supported(path, policy, allowed)
