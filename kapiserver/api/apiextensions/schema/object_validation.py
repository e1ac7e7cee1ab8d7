"""Validation of custom objects by their schema, with kube-openapi's messages.

Each node of a schema becomes a plan when a value first reaches it. Errors of unchanged values are
not reported (ratcheting, KEP-4008). Knows no CEL rules. Mirrors
k8s.io/kube-openapi/pkg/validation/validate and k8s.io/apiextensions-apiserver/pkg/apiserver.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from kapiserver.api import formats, linear_regex
from kapiserver.api.apiextensions.schema import alternatives, number_validation
from kapiserver.api.apiextensions.schema.ratcheting import ABSENT, CorrelatedList, is_unchanged
from kapiserver.api.apiextensions.schema.structural import MAX_FINDINGS, Structural
from kapiserver.api.apiextensions.schema.validation_plan import Finding, Plan, Step
from kapiserver.api.errors import ErrorType, FieldError, Path, pluralize
from kapiserver.api.go_format import go_map, json_text, quote
from kapiserver.api.types import Tree, Value

FORMS: dict[str, tuple[ErrorType, str]] = {
    "type": ("type invalid", "{name} in body {words}"),
    "invalid": ("invalid", "{name} in body {words}"),
    "required": ("required", ""),
    "enum": ("not supported", "{words}"),
    "too long": ("too long", "{words}"),
    "too many": ("too many", "{words}"),
    "whole": ("invalid", "{quoted} {words}"),
    "range": ("invalid", "{words} in {name}"),
}
_WITHOUT_PATH = ("whole", "range")
"""Findings that kube-apiserver reports without a field."""
_ROOT_PATH = "<nil>"

_TYPE_NAMES: dict[type, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object",
}  # fmt: skip
_DEFAULT_FORMATS = {int: "int64", float: "float64"}
_SAFE_INTEGER = 1 << 53


def validate(
    value: Value, structural: Structural, old: Value = ABSENT, path: Path | None = None
) -> list[FieldError]:
    """Return the errors of an object, or of its status, by its schema; empty if it is valid.

    old   the value before the write: errors of unchanged values are not reported
    path  the path of the value; details name fields relative to it
    """
    plan = plan_of(structural)
    findings = plan.check(value, ABSENT)
    if findings and old is not ABSENT:
        # Most objects are valid; old values matter only for those that are not.
        findings = plan.check(value, old)
    return _unique_errors(findings, path)


def validate_value(value: Value, node: Structural, path: Path) -> list[FieldError]:
    """Return the errors of a value that is part of an object, such as a default."""
    return _unique_errors(plan_of(node).check(value, ABSENT), path)


def _unique_errors(findings: Sequence[Finding] | None, path: Path | None) -> list[FieldError]:
    errors = (_error(finding, path) for finding in findings or ())
    return list({str(error): error for error in errors}.values())


def plan_of(node: Structural) -> Plan:
    """Return the plan of a node, made once."""
    plan: Plan | None = node.compiled.get("plan")
    if plan is None:
        steps = {kind: tuple(_steps(node, kind)) for kind in (*_TYPE_NAMES, type(None))}
        plan = node.compiled["plan"] = Plan(weakref.ref(node), steps)
    return plan


def _error(finding: Finding, path: Path | None) -> FieldError:
    name = finding.name.removeprefix(".")
    error_type, template = FORMS[finding.form]
    detail = template.format(name=name, words=finding.words, quoted=quote(name))
    base, value = path.text if path is not None else "", go_map(finding.value)
    if finding.form in _WITHOUT_PATH:
        return FieldError(error_type, Path(base or _ROOT_PATH), detail, value)
    full_name = f"{base}.{name}" if base and name else base or name or _ROOT_PATH
    return FieldError(error_type, Path(full_name), detail, value)


def _steps(node: Structural, kind: type) -> list[Step]:
    if kind is type(None):
        return [step for step in (_null_step(node), _enum_step(node)) if step]
    steps = [_type_step(node, kind), *alternatives.steps(node, kind, plan_of)]
    if kind is str:
        steps += [_text_step(node), _format_step(node)]
    elif kind in (int, float):
        steps += number_validation.steps(node, format_of(node))
    elif kind is list:
        steps.append(_items_step(node))
    steps.append(_enum_step(node))
    if kind is dict:
        steps.append(_object_step(node))
    return [step for step in steps if step is not None]


def types_of(node: Structural) -> tuple[str, ...]:
    """Return the types that a node allows; empty for any."""
    if node.int_or_string:
        return ("integer", "string")
    return (node.type,) if node.type else ()


def format_of(node: Structural) -> str:
    """Return the format of a node's values; empty if it does not apply to their type."""
    name = str(node.schema.get("format") or "")
    types = types_of(node)
    kind = types[0] if len(types) == 1 else ""
    if kind in ("", "string"):
        return name if name.replace("-", "") in formats.FORMATS else ""
    number_formats = {"integer": ("int32", "int64"), "number": ("float", "double")}.get(kind, ())
    return name if name in number_formats else ""


def _null_step(node: Structural) -> Step | None:
    types = types_of(node)
    if not types or node.nullable:
        return None
    return _constant_step("type", f'must be of type {",".join(types)}: "null"', "null")


def _constant_step(form: str, words: str, value: Value) -> Step:
    return lambda _value, _old: [Finding(form, words, value)]


def _type_step(node: Structural, kind: type) -> Step | None:
    types, name, actual = types_of(node), format_of(node), _TYPE_NAMES[kind]
    if not types and not name:
        return None
    is_valid = actual in types or (kind is int and "number" in types)
    format_shown = _DEFAULT_FORMATS.get(kind, "")
    format_error = _constant_step("type", f'must be of type {name}: "{format_shown}"', format_shown)
    type_error = _constant_step("type", f'must be of type {",".join(types)}: "{actual}"', actual)
    if kind is float and "integer" in types:
        error = format_error if name else type_error
        return lambda value, old: None if _is_whole(value) else error(value, old)
    if name and kind not in (str, list) and not is_valid:
        return format_error
    numeric = "integer" in types or "number" in types
    if is_valid or (name and not numeric and kind in (str, list)):
        return None
    return type_error


def _is_whole(value: float) -> bool:
    return value.is_integer() and abs(value) < _SAFE_INTEGER


def _text_step(node: Structural) -> Step | None:
    """Return the step for length and pattern, which finds one fault only."""
    max_length, min_length = node.schema.get("maxLength"), node.schema.get("minLength")
    pattern = node.schema.get("pattern")
    if max_length is None and min_length is None and not pattern:
        return None

    def step(value: str, _: Value) -> list[Finding] | None:
        if max_length is not None and len(value) > max_length:
            return [
                Finding("too long", f"may not be more than {pluralize(max_length, 'byte')}", value)
            ]
        if min_length is not None and len(value) < min_length:
            return [Finding("invalid", f"should be at least {min_length} chars long", value)]
        if pattern and not linear_regex.matches(pattern, value):
            return [Finding("invalid", f"should match '{pattern}'", value)]
        return None

    return step


def _format_step(node: Structural) -> Step | None:
    name = format_of(node)
    if not name or types_of(node) not in ((), ("string",), ("integer", "string")):
        return None

    def step(value: str, _: Value) -> list[Finding] | None:
        if formats.has_format(name, value):
            return None
        return [Finding("type", f"must be of type {name}: {quote(value)}", value)]

    return step


def _enum_step(node: Structural) -> Step | None:
    allowed = node.schema.get("enum")
    if not allowed:
        return None
    names = {option for option in allowed if isinstance(option, str)}
    options = [
        option if isinstance(option, str) else json_text(go_map(option)) for option in allowed
    ]
    message = f"supported values: {', '.join(map(quote, options))}"

    def step(value: Value, _: Value) -> list[Finding] | None:
        if isinstance(value, str):
            is_valid = value in names
        else:
            is_valid = value is not None and any(_equal(value, option) for option in allowed)
        return None if is_valid else [Finding("enum", message, value)]

    return step


def _equal(value: Value, other: Value) -> bool:
    if isinstance(value, int | float) and isinstance(other, int | float):
        return isinstance(value, bool) == isinstance(other, bool) and value == other
    return type(value) is type(other) and is_unchanged(value, other, None)


def _items_step(node: Structural) -> Step | None:
    items, schema = node.items, node.schema
    min_items, max_items = schema.get("minItems"), schema.get("maxItems")
    if items is None and min_items is None and max_items is None:
        return None
    plan: Plan | None = None
    weak_node = weakref.ref(node)

    def step(value: list[Value], old: Value) -> list[Finding] | None:
        nonlocal plan
        findings: list[Finding] = []
        if items is not None and value:
            plan = plan or plan_of(items)
            steps = plan.steps
            list_node = weak_node()
            correlated = None
            if old is not ABSENT and list_node is not None:
                correlated = CorrelatedList(old, list_node)
            for index, item in enumerate(value):
                if steps.get(type(item), ()):
                    old_item = ABSENT if correlated is None else correlated.item(index, item)
                    item_findings = plan.check(item, old_item)
                    if item_findings:
                        findings += _with_prefix(f"[{index}]", item_findings)
                        if len(findings) > MAX_FINDINGS:
                            break
        if min_items is not None and len(value) < min_items:
            findings.append(
                Finding("invalid", f"should have at least {min_items} items", len(value))
            )
        if max_items is not None and len(value) > max_items:
            findings.append(
                Finding("too many", f"must have at most {pluralize(max_items, 'item')}", len(value))
            )
        return findings

    return step


def _with_prefix(step: str, findings: list[Finding] | None) -> list[Finding]:
    for finding in findings or ():
        finding.name = step + finding.name
    return findings or []


def _object_step(node: Structural) -> Step | None:
    schema, properties, values = node.schema, node.properties, node.values
    min_properties, max_properties = schema.get("minProperties"), schema.get("maxProperties")
    required = tuple(schema.get("required") or ())
    is_closed = schema.get("additionalProperties") is False
    if (
        not (properties or values or required or is_closed)
        and min_properties is max_properties is None
    ):
        return None
    plans: dict[str, Plan] = {}

    def step(value: Tree, old: Value) -> list[Finding] | None:
        if min_properties is not None and len(value) < min_properties:
            return [
                Finding("invalid", f"should have at least {min_properties} properties", len(value))
            ]
        if max_properties is not None and len(value) > max_properties:
            return [
                Finding(
                    "too many", f"must have at most {pluralize(max_properties, 'item')}", len(value)
                )
            ]
        findings: list[Finding] | None = None
        old_fields = old if isinstance(old, dict) else None
        for name, field_value in value.items():
            plan = plans.get(name) or _child_plan(properties, values, name, plans)
            if plan is None:
                if is_closed:
                    findings = findings or []
                    findings.append(Finding("invalid", "is a forbidden property", name, f".{name}"))
                continue
            steps = plan.steps.get(type(field_value), ())
            if not steps:
                continue
            old_value = ABSENT if old_fields is None else old_fields.get(name, ABSENT)
            if old_value is ABSENT and len(steps) == 1:
                field_findings = steps[0](field_value, old_value)  # plan.check inlined
            else:
                field_findings = plan.check(field_value, old_value)
            if field_findings:
                findings = findings or []
                findings += _with_prefix(f".{name}", field_findings)
                if len(findings) > MAX_FINDINGS:
                    break
        for name in required:
            if name not in value:
                findings = findings or []
                findings.append(Finding("required", "", "", f".{name}"))
        return findings

    return step


def _child_plan(
    properties: dict[str, Structural], values: Structural | None, name: str, plans: dict[str, Plan]
) -> Plan | None:
    # Caches the plans of declared fields only: clients choose the keys of maps.
    child = properties.get(name)
    if child is not None:
        plan = plans[name] = plan_of(child)
        return plan
    return plan_of(values) if values is not None else None
