"""The values of templates: their truth, equality and text.

Objects come as JSON that Go decodes with UseNumber: their numbers are texts of digits, which
functions for numbers convert. Mirrors text/template/funcs.go and exec.go.
"""

from __future__ import annotations

from typing import Any

from kapiserver.api.go_format import format_float, go_value
from kapiserver.simulation.templates.errors import TemplateError


class Number(str):
    """A number of an object, as the text of its digits (json.Number)."""

    __slots__ = ()


def from_json(value: Any) -> Any:
    """Return a JSON value as templates see it."""
    if isinstance(value, dict):
        return {name: from_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if isinstance(value, float):
        return Number(format_float(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return Number(value)
    return value


def to_json(value: Any) -> Any:
    """Return a value of a template as a JSON value."""
    if isinstance(value, dict):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [to_json(item) for item in value]
    return to_number(value) if isinstance(value, Number) else value


def to_number(value: str) -> int | float:
    """Return the number that a text is. Raises ValueError."""
    try:
        return int(value)
    except ValueError:
        return float(value)


def is_true(value: Any) -> bool:
    """Report whether a value is true: not false, zero, nil or empty."""
    return bool(value)


def written(value: Any) -> str:
    """Return the text that an action writes for a value."""
    return "<no value>" if value is None else go_value(value)


def type_name(value: Any) -> str:
    """Return the name of a value's type in Go."""
    for kind, name in _TYPE_NAMES:
        if isinstance(value, kind):
            return name
    return "<nil>"


def kind_name(value: Any) -> str:
    """Return the name of the kind of a value's type in Go."""
    return _KIND_NAMES.get(type_name(value), type_name(value))


_TYPE_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (int, "int"),
    (float, "float64"),
    (Number, "json.Number"),
    (str, "string"),
    (list, "[]interface {}"),
    (dict, "map[string]interface {}"),
)
_KIND_NAMES = {
    "json.Number": "string",
    "[]interface {}": "slice",
    "map[string]interface {}": "map",
    "<nil>": "invalid",
}


def equals(value: Any, other: Any) -> bool:
    """Compare as `eq` does. Raises TemplateError for values of different kinds."""
    if value is None or other is None:
        return value is other
    kind = kind_name(value)
    if kind != kind_name(other):
        raise TemplateError("incompatible types for comparison")
    if kind in ("slice", "map"):
        raise TemplateError(f"non-comparable type {type_name(value)}")
    return bool(value == other)


def is_less(value: Any, other: Any) -> bool:
    """Compare as `lt` does. Raises TemplateError for values that have no order."""
    kind = kind_name(value)
    if kind not in ("int", "float64", "string"):
        raise TemplateError("invalid type for comparison")
    if kind != kind_name(other):
        raise TemplateError("incompatible types for comparison")
    return bool(value < other)
