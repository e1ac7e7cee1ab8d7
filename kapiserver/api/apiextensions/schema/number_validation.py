"""Validation of numbers by a schema. Mirrors kube-openapi's number validator."""

from __future__ import annotations

import math
from typing import Any

from kapiserver.api.apiextensions.schema.structural import Structural
from kapiserver.api.apiextensions.schema.validation_plan import Finding, Step

_RANGES = {"int32": (-(2**31), 2**31 - 1)}
_INT64 = (-(2**63), 2**63 - 1)
_FLOAT32_MAX = 3.4028235677973366e38
_SAFE_INTEGER = 1 << 53


def steps(node: Structural, format_name: str) -> list[Step]:
    """Return the steps for a node's numbers: the range of their format, and the limits of the
    schema."""
    schema, type_ = node.schema, node.type
    bounds = [
        (name, schema[name]) for name in ("multipleOf", "minimum", "maximum") if name in schema
    ]
    bounds = [(name, bound) for name, bound in bounds if bound is not None]
    if type_ not in ("integer", "number") and not bounds:
        return []
    description = (
        f"of type {type_} with format {format_name}"
        if format_name
        else f"of type {type_} (default format)"
    )

    def step(value: Any, _: Any) -> list[Finding] | None:
        findings = []
        if not _fits(value, type_, format_name):
            findings.append(Finding("range", f"Checked value must be {description}"))
        for name, bound in bounds:
            is_exact = _fits(bound, type_, format_name)
            if not is_exact:
                findings.append(Finding("range", f"{_TITLES[name]} value must be {description}"))
            is_whole = is_exact and isinstance(value, int)
            message = _CHECKS[name](value, int(bound) if is_whole else float(bound), schema)
            if message:
                findings.append(Finding("invalid", message, value))
        return findings

    return [step]


_TITLES = {
    "multipleOf": "MultipleOf",
    "maximum": "Maximum boundary",
    "minimum": "Minimum boundary",
}


def _fits(value: Any, type_: str, format_name: str) -> bool:
    if type_ == "integer":
        low, high = _RANGES.get(format_name, _INT64)
        return value == int(value) and bool(low <= value <= high)
    if format_name == "float":
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
    message = f"should be a multiple of {go_number(factor)}"
    if factor == 0:
        return message
    if isinstance(factor, int):
        return message if value % factor else ""
    quotient = 1 / factor * value if factor < 1 else value / factor
    if math.isinf(quotient) or math.isnan(quotient):
        return message
    nearest = round(quotient)
    is_near = abs(quotient - nearest) < 1e-9 * max(1.0, abs(quotient))
    return "" if is_near and abs(nearest) < _SAFE_INTEGER else message


_CHECKS = {"multipleOf": _multiple, "maximum": _maximum, "minimum": _minimum}


def go_number(value: Any) -> str:
    """Format a number as Go's `%v` does."""
    if isinstance(value, int):
        return str(value)
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value)
