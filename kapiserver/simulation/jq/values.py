"""The values of jq: their types, order and arithmetic."""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kapiserver.simulation.jq.errors import JqError

_MAX_TEXT = 1 << 20
_TYPES = ("null", "boolean", "number", "string", "array", "object")


def type_of(value: Any) -> str:
    """Return the name of a value's type."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str | list):
        return "string" if isinstance(value, str) else "array"
    return "object"


def is_true(value: Any) -> bool:
    """Report whether a value is neither null nor false."""
    return value is not None and value is not False


def compare(left: Any, right: Any) -> int:
    """Return a negative number, 0 or a positive number, by jq's order: null, false, true, numbers,
    strings, arrays, objects."""
    ranks = _TYPES.index(type_of(left)), _TYPES.index(type_of(right))
    if ranks[0] != ranks[1]:
        return ranks[0] - ranks[1]
    if isinstance(left, list):
        for one, other in zip(left, right, strict=False):
            order = compare(one, other)
            if order:
                return order
        return len(left) - len(right)
    if isinstance(left, dict):
        names = compare(sorted(left), sorted(right))
        return names or compare(_sorted_values(left), _sorted_values(right))

    return 0 if left is None else _compare_scalars(left, right)


def _compare_scalars(left: Any, right: Any) -> int:
    """Compare two values of one type. What is not a number is less than each number, and itself."""
    if left == right:
        return 0
    return -1 if left < right or left != left else 1


def _sorted_values(value: Any) -> list[Any]:
    return [value[name] for name in sorted(value)]


sort_key = functools.cmp_to_key(compare)
"""The key of a value in a sort."""


def _add(left: Any, right: Any) -> Any:
    if left is None or right is None:
        return right if left is None else left
    kind = _common_type(left, right, "add")
    if kind == "object":
        return {**left, **right}
    if kind not in ("number", "string", "array"):
        raise _mismatch("add", left, right)
    if kind == "string" and len(left) + len(right) > _MAX_TEXT:
        raise JqError("a string is too long")
    return left + right


def _subtract(left: Any, right: Any) -> Any:
    kind = _common_type(left, right, "subtract")
    if kind == "array":
        removed = sorted(map(sort_key, right))
        return [element for element in left if not _is_among(removed, element)]
    if kind != "number":
        raise _mismatch("subtract", left, right)
    return left - right


def _is_among(ordered: Sequence[Any], value: Any) -> bool:
    """Report whether a value is among keys of values in their order."""
    key = sort_key(value)
    at = bisect.bisect_left(ordered, key)
    return at < len(ordered) and not key < ordered[at]


def _multiply(left: Any, right: Any) -> Any:
    kinds = {type_of(left), type_of(right)}
    if kinds == {"string", "number"}:
        return _repeat(left, right) if isinstance(left, str) else _repeat(right, left)
    if kinds == {"object"}:
        return _merge(left, right)
    if _common_type(left, right, "multiply") != "number":
        raise _mismatch("multiply", left, right)
    return _finite(float(left) * right) if abs(left) > 1e9 or abs(right) > 1e9 else left * right


def _repeat(text: str, times: float) -> str | None:
    if times < 0 or times != times:
        return None
    if len(text) * times > _MAX_TEXT:
        raise JqError("a string is too long")
    return text * int(times)


def _merge(left: Any, right: Any) -> Any:
    merged = dict(left)
    for name, value in right.items():
        are_objects = isinstance(merged.get(name), dict) and isinstance(value, dict)
        merged[name] = _merge(merged[name], value) if are_objects else value
    return merged


def _divide(left: Any, right: Any) -> Any:
    kind = _common_type(left, right, "divide")
    if kind == "string":
        return left.split(right) if right else list(left)
    if kind != "number" or not right:
        raise _mismatch("divide", left, right)
    quotient = left / right
    return int(quotient) if quotient == math.floor(quotient) else quotient


def _modulo(left: Any, right: Any) -> Any:
    if _common_type(left, right, "modulo") != "number" or not int(right):
        raise _mismatch("modulo", left, right)
    return int(math.fmod(int(left), int(right)))


def _common_type(left: Any, right: Any, verb: str) -> str:
    if type_of(left) != type_of(right):
        raise _mismatch(verb, left, right)
    return type_of(left)


def _mismatch(verb: str, left: Any, right: Any) -> JqError:
    return JqError(f"cannot {verb}: {type_of(left)} and {type_of(right)}")


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.copysign(1.7976931348623157e308, value)


ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _modulo,
}
