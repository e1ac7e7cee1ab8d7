"""Validation of the CEL rules of a schema: they compile, and their worst-case cost is limited.

Mirrors the part of ValidateCustomResourceDefinitionOpenAPISchema for x-kubernetes-validations, in
k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from msgspec import Struct, field

from kapiserver.api.apiextensions.cel.evaluation import variables_of
from kapiserver.api.apiextensions.cel.field_paths import InvalidFieldPath, field_path
from kapiserver.api.apiextensions.cel.schema_types import MAX_REQUEST, cel_type_of
from kapiserver.api.apiextensions.schema.structural import Structural, has_rules
from kapiserver.api.cel.cel_types import CelType
from kapiserver.api.cel.program import CompileError, compile_expression
from kapiserver.api.cel.sizes import MAX_COST
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, required
from kapiserver.api.types import Tree

EXPRESSION_LIMIT = 10_000_000
"""The maximum cost of one expression times the number of its evaluations."""
SCHEMA_LIMIT = 100_000_000
"""The maximum cost of all expressions of a schema."""
_MOST_EXPENSIVE = 4
_REASONS = (
    "FieldValueRequired", "FieldValueForbidden", "FieldValueInvalid", "FieldValueDuplicate",
)  # fmt: skip


class _Costs(Struct):
    total: int = 0
    by_path: list[tuple[int, str]] = field(default_factory=list)

    def add(self, path: Path, cost: int) -> None:
        """Record the cost of an expression."""
        self.total = min(self.total + cost, MAX_COST)
        self.by_path.append((cost, path.text))


class _Place(Struct, frozen=True):
    """The position of a node in the schema.

    cardinality   the maximum number of its values in an object; None if only requests limit it
    uncorrelated  the outermost list whose items have no old values; None outside of such lists
    """

    path: Path
    cardinality: int | None
    uncorrelated: Path | None
    is_root: bool


def check(structural: Structural, path: Path) -> list[FieldError]:
    """Return the errors of the rules of a schema."""
    costs = _Costs()
    errors = list(_check(structural, _Place(path, 1, None, True), costs))
    if costs.total > SCHEMA_LIMIT:
        for _, rule_path in heapq.nlargest(_MOST_EXPENSIVE, costs.by_path):
            detail = "contributed to estimated rule cost total exceeding cost "
            errors.append(forbidden(Path(rule_path), f"{detail}limit for entire OpenAPIv3 schema"))
        description = "x-kubernetes-validations estimated rule cost total for entire "
        errors.append(
            forbidden(
                path, _too_costly(f"{description}OpenAPIv3 schema", costs.total, SCHEMA_LIMIT)
            )
        )
    return errors


def _check(node: Structural, place: _Place, costs: _Costs) -> Iterator[FieldError]:
    if not has_rules(node):
        return
    path = place.path
    if node.values is not None:
        count = _multiply(place.cardinality, node.schema.get("maxProperties"))
        child_path = path / "additionalProperties"
        child_place = _Place(child_path, count, place.uncorrelated, node.values.embedded)
        yield from _check(node.values, child_place, costs)
    for name, child in node.properties.items():
        child_path = (path / "properties")[name]
        child_place = _Place(child_path, place.cardinality, place.uncorrelated, child.embedded)
        yield from _check(child, child_place, costs)
    if node.items is not None:
        count = _multiply(place.cardinality, node.schema.get("maxItems"))
        uncorrelated = place.uncorrelated or (path if node.list_type != "map" else None)
        yield from _check(
            node.items, _Place(path / "items", count, uncorrelated, node.items.embedded), costs
        )
    if node.rules:
        yield from _check_node(node, place, costs)


def _multiply(cardinality: int | None, max_items: int | None) -> int | None:
    return None if cardinality is None or max_items is None else cardinality * max(max_items, 0)


def _check_node(node: Structural, place: _Place, costs: _Costs) -> Iterator[FieldError]:
    cel_type = cel_type_of(node, is_root=place.is_root)
    if cel_type is None:
        detail = "internal error: failed to retrieve type information for x-kubernetes-validations"
        yield FieldError("internal", place.path / "x-kubernetes-validations", detail)
    for index, rule in enumerate(node.rules):
        rule_path = (place.path / "x-kubernetes-validations")[index]
        errors = list(_check_fields(rule, node, rule_path))
        yield from errors
        if cel_type is not None and not errors:
            yield from _check_expressions(rule, cel_type, place, rule_path, costs)


def _check_fields(rule: Tree, node: Structural, path: Path) -> Iterator[FieldError]:
    text, message = rule.get("rule") or "", rule.get("message") or ""
    if not text.strip():
        yield required(path / "rule", "rule is not specified")
    if message and not message.strip():
        yield invalid(path / "message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield invalid(path / "message", message, "must not contain line breaks")
    elif "\n" in text.strip() and not message.strip():
        yield required(path / "message", "message must be specified if rule contains line breaks")
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        detail = "messageExpression must be non-empty if specified"
        yield required(path / "messageExpression", detail)
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        names = ", ".join(f'"{reason}"' for reason in sorted(_REASONS))
        detail = f"supported values: {names}"
        yield FieldError("not supported", path / "reason", detail, rule["reason"])
    yield from _check_field_path(rule.get("fieldPath") or "", node, path / "fieldPath")


def _check_field_path(text: str, node: Structural, path: Path) -> Iterator[FieldError]:
    if not text:
        return
    if not text.strip():
        yield invalid(path, text, "must be non-empty if specified")
    if "\n" in text:
        yield invalid(path, text, "must not contain line breaks")
    try:
        field_path(text, node)
    except InvalidFieldPath:
        yield invalid(path, text, "must be a valid path")


def _check_expressions(
    rule: Tree, cel_type: CelType, place: _Place, path: Path, costs: _Costs
) -> Iterator[FieldError]:
    variables, expression_path = variables_of(rule, cel_type), path / "rule"
    try:
        program = compile_expression(rule["rule"], variables)
    except CompileError as error:
        yield _expression_error(rule, expression_path, f"compilation failed: {error}")
        return
    if program.cel_type.name != "bool":
        yield _expression_error(rule, expression_path, "cel expression must evaluate to a bool")
        return
    uses_old = "oldSelf" in program.free
    evaluations = place.cardinality
    if evaluations is None:
        evaluations = MAX_REQUEST // (cel_type.min_size + 1)
    cost = min(program.max_cost * evaluations, MAX_COST)
    if cost > EXPRESSION_LIMIT:
        yield forbidden(expression_path, _too_costly("estimated rule cost", cost, EXPRESSION_LIMIT))
    costs.add(expression_path, cost)
    if (rule.get("messageExpression") or "").strip():
        yield from _check_message(rule, variables, path / "messageExpression", costs)
    if uses_old and place.uncorrelated is not None:
        detail = "oldSelf cannot be used on the uncorrelatable portion of the schema within "
        yield invalid(expression_path, rule["rule"], f"{detail}{place.uncorrelated}")
    elif not uses_old and rule.get("optionalOldSelf") is not None:
        detail = "may not be set if oldSelf is not used in rule"
        yield invalid(path / "optionalOldSelf", rule["optionalOldSelf"], detail)


def _check_message(
    rule: Tree, variables: dict[str, CelType], path: Path, costs: _Costs
) -> Iterator[FieldError]:
    try:
        program = compile_expression(rule["messageExpression"], variables)
    except CompileError as error:
        yield _expression_error(rule, path, f"messageExpression compilation failed: {error}")
        return
    if program.cel_type.name != "string":
        yield _expression_error(rule, path, "messageExpression must evaluate to a string")
        return
    if program.max_cost > EXPRESSION_LIMIT:
        name = "estimated messageExpression cost"
        yield forbidden(path, _too_costly(name, program.max_cost, EXPRESSION_LIMIT))
    costs.add(path, program.max_cost)


def _too_costly(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    if factor > 100:
        factor_text = "more than 100x"
    else:
        factor_text = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{name} exceeds budget by factor of {factor_text} (try simplifying the rule, or adding "
        "maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


def _expression_error(rule: Tree, path: Path, detail: str) -> FieldError:
    # The message shows all members of the internal type, which has no JSON names.
    rule_struct = {go_name: rule.get(name, default) for name, go_name, default in _RULE_MEMBERS}
    return invalid(path, rule_struct, detail)


_RULE_MEMBERS = (
    ("rule", "Rule", ""),
    ("message", "Message", ""),
    ("messageExpression", "MessageExpression", ""),
    ("reason", "Reason", None),
    ("fieldPath", "FieldPath", ""),
    ("optionalOldSelf", "OptionalOldSelf", None),
)
"""The name, the name in Go and the zero value of each member of ValidationRule, in order."""
