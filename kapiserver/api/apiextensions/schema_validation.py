"""Whether a custom object is what its schema says, in kube-openapi's words.

Each node of a schema becomes a plan when a value first reaches it. What is unchanged is not
reported (ratcheting, KEP-4008). Knows no rules written in CEL. Mirrors
k8s.io/kube-openapi/pkg/validation/validate and k8s.io/apiextensions-apiserver/pkg/apiserver.
"""

from __future__ import annotations

import json

from kapiserver.api import formats, linear_regex
from kapiserver.api.apiextensions import (
    list_types,
    schema_alternatives,
    schema_numbers,
)
from kapiserver.api.apiextensions.ratcheting import ABSENT, CorrelatedList, is_unchanged
from kapiserver.api.apiextensions.schema_plan import Finding, Plan, Step
from kapiserver.api.apiextensions.structural import MAX_FINDINGS, Structural
from kapiserver.api.errors import ErrorType, FieldError, Path, pluralize
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
"""Findings that kube-apiserver reports of no field."""
_NOWHERE = "<nil>"

_KINDS: dict[type, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object",
}  # fmt: skip
_FORMAT_OF_KIND = {int: "int64", float: "float64"}
_SAFE_INTEGER = 1 << 53


def validate(
    obj: Tree, structural: Structural, old: Tree | None = None, path: Path | None = None
) -> list[FieldError]:
    """What the schema says against an object, `[]` where it is right.

    old  the object before the write: what is unchanged is not reported
    """
    plan = plan_of(structural)
    found = plan.check(obj, ABSENT)
    if found and old is not None:
        # Mostly nothing is wrong: what was there before is looked after only then.
        found = plan.check(obj, old)
    errors = [_error(finding, path) for finding in found or ()]
    unique = list({str(error): error for error in errors}.values())
    duplicates = list_types.check(obj, structural, path)
    if duplicates and (old is None or not list_types.check(old, structural, path)):
        unique += duplicates
    return unique


def validate_value(value: Value, node: Structural, path: Path) -> list[FieldError]:
    """What a schema says against a value that is part of an object, such as a default."""
    found = plan_of(node).check(value, ABSENT) or ()
    return list({str(error): error for error in (_error(one, path) for one in found)}.values())


def plan_of(node: Structural) -> Plan:
    """The plan of a node, made once."""
    plan: Plan | None = node.compiled.get("plan")
    if plan is None:
        steps = {kind: tuple(_steps(node, kind)) for kind in (*_KINDS, type(None))}
        plan = node.compiled["plan"] = Plan(node, steps)
    return plan


def _error(finding: Finding, path: Path | None) -> FieldError:
    name = finding.name.removeprefix(".")
    kind, form = FORMS[finding.form]
    quoted = json.dumps(name, ensure_ascii=False)
    detail = form.format(name=name, words=finding.words, quoted=quoted)
    base = path.text if path is not None else ""
    if finding.form in _WITHOUT_PATH:
        return FieldError(kind, Path(base or _NOWHERE), detail, finding.value)
    joined = f"{base}.{name}" if base and name else base or name or _NOWHERE
    return FieldError(kind, Path(joined), detail, finding.value)


def _steps(node: Structural, kind: type) -> list[Step]:
    if kind is type(None):
        return [step for step in (_null_step(node), _enum_step(node)) if step]
    steps = [_type_step(node, kind), *schema_alternatives.steps(node, kind, plan_of)]
    if kind is str:
        steps += [_length_step(node), _pattern_step(node), _format_step(node)]
    elif kind in (int, float):
        steps += schema_numbers.steps(node, format_of(node))
    elif kind is list:
        steps.append(_items_step(node))
    steps.append(_enum_step(node))
    if kind is dict:
        steps.append(_object_step(node))
    return [step for step in steps if step is not None]


def types_of(node: Structural) -> tuple[str, ...]:
    """The types whose values a node allows; none for any."""
    if node.int_or_string:
        return ("integer", "string")
    return (node.type,) if node.type else ()


def format_of(node: Structural) -> str:
    """The format of a node's values, empty where it means nothing to their type."""
    name = str(node.schema.get("format") or "")
    types = types_of(node)
    kind = types[0] if len(types) == 1 else ""
    if kind in ("", "string"):
        return name if name.replace("-", "") in formats.FORMATS else ""
    known = {"integer": ("int32", "int64"), "number": ("float", "double")}.get(kind, ())
    return name if name in known else ""


def _null_step(node: Structural) -> Step | None:
    types = types_of(node)
    if not types or node.nullable:
        return None
    return _always("type", f'must be of type {",".join(types)}: "null"', "null")


def _always(form: str, words: str, value: Value) -> Step:
    return lambda _value, _old: [Finding(form, words, value)]


def _type_step(node: Structural, kind: type) -> Step | None:
    types, name, actual = types_of(node), format_of(node), _KINDS[kind]
    if not types and not name:
        return None
    fits = actual in types or (kind is int and "number" in types)
    if name and kind not in (str, list) and not fits and not (kind is float and "integer" in types):
        shown = _FORMAT_OF_KIND.get(kind, "")
        return _always("type", f'must be of type {name}: "{shown}"', shown)
    numeric = "integer" in types or "number" in types
    if fits or (name and not numeric and kind in (str, list)):
        return None
    wrong = _always("type", f'must be of type {",".join(types)}: "{actual}"', actual)
    if kind is float and "integer" in types:
        return lambda value, old: None if _is_whole(value) else wrong(value, old)
    return wrong


def _is_whole(value: float) -> bool:
    return value.is_integer() and abs(value) < _SAFE_INTEGER


def _length_step(node: Structural) -> Step | None:
    most, least = node.schema.get("maxLength"), node.schema.get("minLength")
    if most is None and least is None:
        return None

    def step(value: str, _: Value) -> list[Finding] | None:
        if most is not None and len(value) > most:
            return [Finding("too long", f"may not be more than {pluralize(most, 'byte')}", value)]
        if least is not None and len(value) < least:
            return [Finding("invalid", f"should be at least {least} chars long", value)]
        return None

    return step


def _pattern_step(node: Structural) -> Step | None:
    pattern = node.schema.get("pattern")
    if not pattern:
        return None

    def step(value: str, _: Value) -> list[Finding] | None:
        if linear_regex.matches(pattern, value):
            return None
        return [Finding("invalid", f"should match '{pattern}'", value)]

    return step


def _format_step(node: Structural) -> Step | None:
    name = format_of(node)
    if not name or types_of(node) not in ((), ("string",), ("integer", "string")):
        return None

    def step(value: str, _: Value) -> list[Finding] | None:
        if formats.matches(name, value):
            return None
        shown = json.dumps(value, ensure_ascii=False)
        return [Finding("type", f"must be of type {name}: {shown}", value)]

    return step


def _enum_step(node: Structural) -> Step | None:
    allowed = node.schema.get("enum")
    if not allowed:
        return None
    names = {one for one in allowed if isinstance(one, str)}
    shown = [one if isinstance(one, str) else json.dumps(one) for one in allowed]
    words = "supported values: " + ", ".join(json.dumps(one, ensure_ascii=False) for one in shown)

    def step(value: Value, _: Value) -> list[Finding] | None:
        if isinstance(value, str):
            fits = value in names
        else:
            fits = value is not None and any(_equal(value, one) for one in allowed)
        return None if fits else [Finding("enum", words, value)]

    return step


def _equal(value: Value, other: Value) -> bool:
    if isinstance(value, int | float) and isinstance(other, int | float):
        return isinstance(value, bool) == isinstance(other, bool) and value == other
    return type(value) is type(other) and is_unchanged(value, other, None)


def _items_step(node: Structural) -> Step | None:
    items, schema = node.items, node.schema
    least, most = schema.get("minItems"), schema.get("maxItems")
    if items is None and least is None and most is None:
        return None
    plan: Plan | None = None

    def step(value: list[Value], old: Value) -> list[Finding] | None:
        nonlocal plan
        found: list[Finding] = []
        if items is not None and value:
            plan = plan or plan_of(items)
            steps = plan.steps
            correlated = None if old is ABSENT else CorrelatedList(old, node)
            for index, one in enumerate(value):
                if steps.get(type(one), ()):
                    was = ABSENT if correlated is None else correlated.item(index, one)
                    below = plan.check(one, was)
                    if below:
                        found += _below(f"[{index}]", below)
                        if len(found) > MAX_FINDINGS:
                            break
        if least is not None and len(value) < least:
            found.append(Finding("invalid", f"should have at least {least} items", len(value)))
        if most is not None and len(value) > most:
            found.append(
                Finding("too many", f"must have at most {pluralize(most, 'item')}", len(value))
            )
        return found

    return step


def _below(step: str, found: list[Finding] | None) -> list[Finding]:
    for finding in found or ():
        finding.name = step + finding.name
    return found or []


def _object_step(node: Structural) -> Step | None:
    schema = node.schema
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    required = tuple(schema.get("required") or ())
    closed = schema.get("additionalProperties") is False
    if not (node.properties or node.values or required or closed) and least is most is None:
        return None
    plans: dict[str, Plan] = {}

    def step(value: Tree, old: Value) -> list[Finding] | None:
        if least is not None and len(value) < least:
            return [Finding("invalid", f"should have at least {least} properties", len(value))]
        if most is not None and len(value) > most:
            return [Finding("too many", f"must have at most {pluralize(most, 'item')}", len(value))]
        found: list[Finding] | None = None
        before = old if isinstance(old, dict) else None
        for name, one in value.items():
            plan = plans.get(name) or _child_plan(node, name, plans)
            if plan is None:
                if closed:
                    found = found or []
                    found.append(Finding("invalid", "is a forbidden property", name, f".{name}"))
                continue
            steps = plan.steps.get(type(one), ())
            if not steps:
                continue
            was = ABSENT if before is None else before.get(name, ABSENT)
            if was is ABSENT and len(steps) == 1:
                below = steps[0](one, was)  # as plan.check, without two calls
            else:
                below = plan.check(one, was)
            if below:
                found = found or []
                found += _below(f".{name}", below)
                if len(found) > MAX_FINDINGS:
                    break
        for name in required:
            if name not in value:
                found = found or []
                found.append(Finding("required", "", "", f".{name}"))
        return found

    return step


def _child_plan(node: Structural, name: str, plans: dict[str, Plan]) -> Plan | None:
    # Only names of the schema are kept: those of a map's entries are its users'.
    child = node.properties.get(name)
    if child is not None:
        plan = plans[name] = plan_of(child)
        return plan
    return plan_of(node.values) if node.values is not None else None
