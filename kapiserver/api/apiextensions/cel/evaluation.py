"""Evaluation of the CEL rules of a schema for all values of an object.

Rules are compiled when a value first reaches their node. The cost of an evaluation is limited, per
expression and per object; a step of cost takes 0.1 to 0.3 microseconds. A caller can set a lower
time limit and gets OutOfTime beyond it. Knows no CEL syntax: `kapiserver.api.cel` has it. Mirrors
k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api.apiextensions.cel.field_paths import InvalidFieldPath, field_path
from kapiserver.api.apiextensions.cel.schema_types import cel_type_of
from kapiserver.api.apiextensions.schema.ratcheting import ABSENT, CorrelatedList, is_unchanged
from kapiserver.api.apiextensions.schema.structural import MAX_FINDINGS, Structural, has_rules
from kapiserver.api.cel.cel_types import CelType, optional_of
from kapiserver.api.cel.program import CompileError, Program, Result, compile_expression
from kapiserver.api.cel.values import NONE, Optional
from kapiserver.api.errors import OMITTED, ErrorType, FieldError, Path, RatchetedError, invalid
from kapiserver.api.types import Tree, Value

CALL_LIMIT = 1_000_000
"""The maximum cost of one expression."""
OBJECT_LIMIT = 10_000_000
"""The maximum cost of all rules of an object."""
_EVALUATION = 10
"""The overhead of an evaluation, in steps."""
_CHARACTER = 10
"""The time to compile a character of an expression, in steps."""
MAX_MESSAGE = 5 * 1024
"""The maximum length of a message from a messageExpression, in bytes."""
_OUT_OF_BUDGET = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
_ROOT_PATH = Path("<nil>")
_REASONS: Mapping[str, ErrorType] = {
    "FieldValueForbidden": "forbidden",
    "FieldValueRequired": "required",
    "FieldValueDuplicate": "duplicate",
}


class OutOfTime(Exception):
    """The evaluation exceeds its time limit."""


def validate(
    obj: Tree, old: Tree | None, structural: Structural, path: Path | None, steps: int | None
) -> list[FieldError]:
    """Return the errors of the rules that an object breaks. See `cel.validate`."""
    old_value = ABSENT if old is None else old
    place = _Place(path or Path(), old_value, old_value, ABSENT, ABSENT, structural)
    errors: list[FieldError] = []
    budget = _Budget(OBJECT_LIMIT, sys.maxsize if steps is None else steps)
    for error in _walk(obj, structural, place, budget, is_root=True):
        errors.append(error)
        if budget.remaining < 0 or len(errors) > MAX_FINDINGS:
            break
    return errors


class _Budget(Struct):
    """The remaining cost of an object's rules, and the remaining time in steps."""

    remaining: int
    steps: int

    def pay(self, steps: int) -> None:
        """Charge steps that are not part of a rule's cost. Raises OutOfTime."""
        self.steps -= steps
        if self.steps < 0:
            raise OutOfTime

    def evaluate(self, program: Program, variables: Mapping[str, Any]) -> Result:
        """Evaluate an expression. Raises OutOfTime."""
        self.pay(_EVALUATION)
        limit = max(min(CALL_LIMIT, self.remaining), 0)
        result = program.evaluate(variables, min(limit, self.steps))
        if result.is_exceeded and self.steps < limit:
            raise OutOfTime
        self.remaining -= result.cost
        self.steps -= result.cost
        return result


class _Place(Struct, frozen=True):
    """The path and the old values of a value.

    old                 the value of oldSelf in rules
    correlated          the old value for ratcheting
    parent_old, parent  the old and new value of the nearest ancestor that has an old value
    """

    path: Path
    old: Value
    correlated: Value
    parent_old: Value
    parent: Value
    parent_node: Structural

    def below(
        self, path: Path, old: Value, correlated: Value, value: Value, node: Structural
    ) -> _Place:
        """Return the place of a part of `value`, which is at this place."""
        if self.correlated is ABSENT:
            return replace(self, path=path, old=old)
        return _Place(path, old, correlated, self.correlated, value, node)

    def is_unchanged(self, value: Value, node: Structural) -> bool:
        """Report whether the value at this place, or the ancestor that contains it, is
        unchanged."""
        if self.correlated is not ABSENT:
            return is_unchanged(self.correlated, value, node)
        return self.parent_old is not ABSENT and is_unchanged(
            self.parent_old, self.parent, self.parent_node
        )


def _walk(
    value: Value, node: Structural, place: _Place, budget: _Budget, *, is_root: bool
) -> Iterator[FieldError]:
    if value is None:
        return
    if node.rules:
        yield from _check(value, node, place, budget, is_root=is_root)
    if isinstance(value, dict):
        old_fields = place.old if isinstance(place.old, dict) else {}
        correlated = place.correlated if isinstance(place.correlated, dict) else {}
        for name, child, child_path in _parts(value, node, place.path):
            child_place = place.below(
                child_path, old_fields.get(name, ABSENT), correlated.get(name, ABSENT), value, node
            )
            yield from _walk(value[name], child, child_place, budget, is_root=child.embedded)
    elif isinstance(value, list) and node.items is not None and has_rules(node.items):
        old_items = CorrelatedList(place.old if node.list_type == "map" else ABSENT, node)
        correlated_items = CorrelatedList(place.correlated, node)
        for index, item in enumerate(value):
            child_place = place.below(
                place.path[index],
                old_items.item(index, item),
                correlated_items.item(index, item),
                value,
                node,
            )
            yield from _walk(item, node.items, child_place, budget, is_root=node.items.embedded)


def _parts(value: Tree, node: Structural, path: Path) -> Iterator[tuple[str, Structural, Path]]:
    # The fields and entries of an object whose schema has rules.
    fields: tuple[tuple[str, Structural], ...] | None = node.compiled.get("rule fields")
    if fields is None:
        fields = tuple(
            (name, property_schema)
            for name, property_schema in node.properties.items()
            if has_rules(property_schema)
        )
        node.compiled["rule fields"] = fields
    for name, child in fields:
        if name in value:
            yield name, child, path / name
    if node.values is not None and has_rules(node.values):
        for name in value:
            if name not in node.properties:
                yield name, node.values, path[name]


class Rule(Struct, frozen=True):
    """One compiled rule. `failure` is the compile error, if there is one."""

    source: Tree
    program: Program | None
    message: Program | None
    field: Path | None
    failure: str = ""

    @property
    def display_name(self) -> str:
        """The name of the rule in messages."""
        return str(self.source.get("message") or self.source.get("rule") or "").strip()


def _rules(node: Structural, budget: _Budget, *, is_root: bool) -> tuple[Rule, ...]:
    """Return the compiled rules of a node, compiled once. Raises OutOfTime."""
    rules: tuple[Rule, ...] | None = node.compiled.get("rules")
    if rules is None:
        budget.pay(_CHARACTER * sum(map(_length, node.rules)))
        cel_type = cel_type_of(node, is_root=is_root)
        rules = tuple(_compile_rule(rule, node, cel_type) for rule in node.rules)
        node.compiled["rules"] = rules
    return rules


def _length(rule: Tree) -> int:
    return len(rule.get("rule") or "") + len(rule.get("messageExpression") or "")


def variables_of(rule: Tree, cel_type: CelType) -> dict[str, CelType]:
    """Return the variables of a rule for values of a type."""
    optional = rule.get("optionalOldSelf")
    return {"self": cel_type, "oldSelf": optional_of(cel_type) if optional else cel_type}


def _compile_rule(rule: Tree, node: Structural, cel_type: CelType | None) -> Rule:
    if cel_type is None:
        return Rule(rule, None, None, None, "the schema has no type that rules know")
    variables = variables_of(rule, cel_type)
    message, field = None, None
    try:
        program = compile_expression(rule.get("rule") or "", variables)
    except CompileError as error:
        return Rule(rule, None, None, None, f"compilation failed: {error}")
    if rule.get("messageExpression"):
        try:
            message = compile_expression(rule["messageExpression"], variables)
        except CompileError:
            message = None  # use the message instead
    if rule.get("fieldPath"):
        try:
            field = field_path(rule["fieldPath"], node)
        except InvalidFieldPath:
            field = None
    return Rule(rule, program, message, field)


def _check(
    value: Value, node: Structural, place: _Place, budget: _Budget, *, is_root: bool
) -> Iterator[FieldError]:
    path = place.path if place.path.text else _ROOT_PATH
    for rule in _rules(node, budget, is_root=is_root):
        if rule.program is None:
            if rule.failure:
                yield invalid(path, node.type, f"rule compile error: {rule.failure}")
            continue
        is_optional = bool(rule.source.get("optionalOldSelf"))
        uses_old = "oldSelf" in rule.program.free
        if uses_old and place.old is ABSENT and not is_optional:
            continue
        variables = _variables(value, place.old, is_optional=is_optional)
        result = budget.evaluate(rule.program, variables)
        if result.failure is not None:
            yield invalid(path, node.type, _failure_message(rule, result, budget))
            if result.is_exceeded:
                budget.remaining = -1
                return
            continue
        if result.value is True:
            continue
        detail = _message(rule, variables, budget)
        error_class = (
            FieldError if uses_old or not place.is_unchanged(value, node) else RatchetedError
        )
        value_shown = OMITTED if node.type in ("object", "array") else value
        yield _error(error_class, rule, place.path, value_shown, detail)


def _variables(value: Value, old: Value, *, is_optional: bool) -> dict[str, Any]:
    if is_optional:
        return {"self": value, "oldSelf": NONE if old is ABSENT else Optional(old)}
    return {"self": value} if old is ABSENT else {"self": value, "oldSelf": old}


def _failure_message(rule: Rule, result: Result, budget: _Budget) -> str:
    failure = result.failure or ""
    if result.is_exceeded:
        if budget.remaining <= 0 and result.cost <= CALL_LIMIT:
            return _OUT_OF_BUDGET
        return (
            f"'{failure}': no further validation rules will be run due to call cost exceeds limit "
            f"for rule: {rule.display_name}"
        )
    if failure.startswith("no such overload"):
        return (
            f"'{failure}': call arguments did not match a supported operator, function or macro "
            f"signature for rule: {rule.display_name}"
        )
    return f"{failure} evaluating rule: {rule.display_name}"


def _message(rule: Rule, variables: Mapping[str, Any], budget: _Budget) -> str:
    default_message = (
        str(rule.source.get("message") or "").strip() or f"failed rule: {rule.display_name}"
    )
    if rule.message is None:
        return default_message
    result = budget.evaluate(rule.message, variables)
    if result.is_exceeded:
        budget.remaining = -1
        return (
            "messageExpression evaluation failed due to running out of cost budget, no further "
            "validation rules will be run"
        )
    text = result.value.strip() if isinstance(result.value, str) else ""
    is_valid = text and "\n" not in text and len(text.encode("utf-8", "replace")) <= MAX_MESSAGE
    return text if is_valid else default_message


def _error(
    error_class: type[FieldError], rule: Rule, path: Path, value: Any, detail: str
) -> FieldError:
    if rule.field is not None and rule.field.text:
        field_path_ = rule.field.text
        suffix = field_path_ if not path.text or field_path_.startswith("[") else f".{field_path_}"
        path = Path(f"{path.text}{suffix}")
    path = path if path.text else _ROOT_PATH
    reason = _REASONS.get(rule.source.get("reason") or "", "invalid")
    return error_class(reason, path, "" if reason == "duplicate" else detail, value)
