"""Bounds of numbers in a schema. Mirrors kube-openapi's number validator."""

from __future__ import annotations

import math
from typing import Any

from kapiserver.api.apiextensions.schema_plan import Finding, Step
from kapiserver.api.apiextensions.structural import Structural

_RANGES = {"int32": (-(2**31), 2**31 - 1)}
_INT64 = (-(2**63), 2**63 - 1)
_FLOAT32_MAX = 3.4028235677973366e38
_SAFE_INTEGER = 1 << 53


def steps(node: Structural, form: str) -> list[Step]:
    """The steps for the numbers of a node of a format: their range and what it allows of it."""
    schema, kind = node.schema, node.type
    bounds = [
        (name, schema[name]) for name in ("multipleOf", "maximum", "minimum") if name in schema
    ]
    bounds = [(name, bound) for name, bound in bounds if bound is not None]
    if kind not in ("integer", "number") and not bounds:
        return []
    words = f"of type {kind} with format {form}" if form else f"of type {kind} (default format)"

    def step(value: Any, _: Any) -> list[Finding] | None:
        found = []
        if not _fits(value, kind, form):
            found.append(Finding("range", f"Checked value must be {words}"))
        for name, bound in bounds:
            exact = _fits(bound, kind, form)
            if not exact:
                found.append(Finding("range", f"{_TITLES[name]} value must be {words}"))
            whole = exact and isinstance(value, int)
            told = _CHECKS[name](value, int(bound) if whole else float(bound), schema)
            if told:
                found.append(Finding("invalid", told, value))
        return found

    return [step]


_TITLES = {
    "multipleOf": "MultipleOf",
    "maximum": "Maximum boundary",
    "minimum": "Minimum boundary",
}


def _fits(value: Any, kind: str, form: str) -> bool:
    if kind == "integer":
        low, high = _RANGES.get(form, _INT64)
        return value == int(value) and bool(low <= value <= high)
    if form == "float":
        return bool(abs(value) <= _FLOAT32_MAX)
    return True


def _maximum(value: Any, bound: Any, schema: Any) -> str:
    if schema.get("exclusiveMaximum"):
        return f"should be less than {go_number(bound)}" if value >= bound else ""
    return f"should be less than or equal to {go_number(bound)}" if value > bound else ""


def _minimum(value: Any, bound: Any, schema: Any) -> str:
    if schema.get("exclusiveMinimum"):
        return f"should be greater than {go_number(bound)}" if value <= bound else ""
    return f"should be greater than or equal to {go_number(bound)}" if value < bound else ""


def _multiple(value: Any, factor: Any, _: Any) -> str:
    told = f"should be a multiple of {go_number(factor)}"
    if factor == 0:
        return told
    if isinstance(factor, int):
        return told if value % factor else ""
    quotient = 1 / factor * value if factor < 1 else value / factor
    if math.isinf(quotient) or math.isnan(quotient):
        return told
    nearest = round(quotient)
    near = abs(quotient - nearest) < 1e-9 * max(1.0, abs(quotient))
    return "" if near and abs(nearest) < _SAFE_INTEGER else told


_CHECKS = {"multipleOf": _multiple, "maximum": _maximum, "minimum": _minimum}


def go_number(value: Any) -> str:
    """A number as Go's `%v` prints it."""
    if isinstance(value, int):
        return str(value)
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value)
