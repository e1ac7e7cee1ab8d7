"""The standard library of CEL: operators, conversions, times, lists, and optional values.

Mirrors github.com/google/cel-go/common/stdlib and cel/library.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from kapiserver.api import linear_regex
from kapiserver.api.cel import functions as f
from kapiserver.api.cel import values as v
from kapiserver.api.cel.functions import Row, Table
from kapiserver.api.cel.qualifiers import KEYS, qualify, qualify_if_present
from kapiserver.api.cel.values import (
    NONE,
    Duration,
    EvaluationError,
    Optional,
    Timestamp,
    TypeValue,
    UInt,
)

_SECOND = 1_000_000_000
_NUMBERS = ("int", "uint", "double")


def _divide(dividend: int, divisor: int) -> int:
    if divisor == 0:
        raise EvaluationError("division by zero")
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _modulus(dividend: int, divisor: int) -> int:
    if divisor == 0:
        raise EvaluationError("modulus by zero")
    return int(math.copysign(1, dividend)) * (abs(dividend) % abs(divisor))


def _float_divide(dividend: float, divisor: float) -> float:
    try:
        return dividend / divisor
    except ZeroDivisionError:
        negative = math.copysign(1, dividend) * math.copysign(1, divisor) < 0
        return (
            math.nan
            if dividend == 0 or dividend != dividend
            else (-math.inf if negative else math.inf)
        )


_MAX_DIGITS = 100
"""Digits of a number in a text, leading zeros included."""


def _to_int(value: Any) -> int:
    if isinstance(value, str):
        digits = value[1:] if value[:1] in ("-", "+") else value
        if not (digits.isascii() and digits.isdigit()) or len(digits) > _MAX_DIGITS:
            raise v.unconvertible("int")
        if not -(2**63) <= int(value) < 2**63:
            raise v.unconvertible("int")
        return int(value)
    if isinstance(value, float) and not -(2.0**63) < value < 2.0**63:
        raise EvaluationError("integer overflow")
    return v.int_of(int(value))


def _to_uint(value: Any) -> UInt:
    if isinstance(value, str):
        if not (value.isascii() and value.isdigit()) or len(value) > _MAX_DIGITS:
            raise v.unconvertible("uint")
        if int(value) >= 2**64:
            raise v.unconvertible("uint")
        return v.uint_of(int(value))
    if isinstance(value, float) and not 0 <= value < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return v.uint_of(int(value))


def _to_double(value: str) -> float:
    try:
        if "_" in value or value != value.strip():
            raise ValueError
        return float(value)
    except ValueError:
        raise v.unconvertible("double") from None


def _to_bool(value: str) -> bool:
    if value in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if value in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise v.unconvertible("bool")


def _to_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _matches(charge: v.Charge, text: str, pattern: str) -> bool:
    """Report whether a pattern occurs in a text."""
    try:
        matcher = linear_regex.compile_pattern(pattern)
        f.charge_regex(charge, text, pattern, matcher.size)
        return matcher.search(text) is not None
    except (linear_regex.InvalidPattern, UnicodeError) as error:
        raise EvaluationError(str(error)) from None


def _getter(name: str) -> Callable[..., int]:
    get = _PARTS[name]
    return lambda time, zone="UTC": get(v.local(time, zone), time.ns)


_PARTS: dict[str, Callable[[Any, int], int]] = {
    "getFullYear": lambda at, _: at.year,
    "getMonth": lambda at, _: at.month - 1,
    "getDate": lambda at, _: at.day,
    "getDayOfMonth": lambda at, _: at.day - 1,
    "getDayOfWeek": lambda at, _: at.isoweekday() % 7,
    "getDayOfYear": lambda at, _: at.timetuple().tm_yday - 1,
    "getHours": lambda at, _: at.hour,
    "getMinutes": lambda at, _: at.minute,
    "getSeconds": lambda at, _: at.second,
    "getMilliseconds": lambda _, ns: ns % _SECOND // 1_000_000,
}
_DURATION_PARTS = {
    "getHours": 3600 * _SECOND, "getMinutes": 60 * _SECOND, "getSeconds": _SECOND,
}  # fmt: skip


def _time_getters(name: str) -> list[Row]:
    rows: list[Row] = [
        ("timestamp.() int", _getter(name)),
        ("timestamp.(string) int", _getter(name)),
    ]
    if name in _DURATION_PARTS:
        unit = _DURATION_PARTS[name]
        rows.append(("duration.() int", lambda value: _divide(value.ns, unit)))
    elif name == "getMilliseconds":
        rows.append(("duration.() int", lambda value: _divide(value.ns, 1_000_000)))
    return rows


def _relation(holds: Callable[[int], bool]) -> list[Row]:
    def run(left: Any, right: Any) -> bool:
        return holds(v.compare(left, right))

    rows: list[Row] = [
        (f"({kind}, {kind}) bool", run) for kind in ("bool", "timestamp", "duration")
    ]
    rows += [(f"({left}, {right}) bool", run) for left in _NUMBERS for right in _NUMBERS]
    rows += [(f"({kind}, {kind}) bool", run, f.cost_smaller) for kind in ("string", "bytes")]
    return rows


def _arithmetic(
    run: Callable[[Any, Any], Any], real: Callable[[Any, Any], Any] | None
) -> list[Row]:
    rows: list[Row] = [
        ("(int, int) int", lambda value, other: v.int_of(run(value, other))),
        ("(uint, uint) uint", lambda value, other: v.uint_of(run(int(value), int(other)))),
    ]
    return [*rows, ("(double, double) double", real)] if real else rows


def _contains(charge: v.Charge, value: Any, values: list[Any]) -> bool:
    return any(v.equal(value, item, charge) for item in values)


def _equal(charge: v.Charge, left: Any, right: Any) -> bool:
    return v.equal(left, right, charge)


def _unequal(charge: v.Charge, left: Any, right: Any) -> bool:
    return not v.equal(left, right, charge)


def _is_zero(value: Any) -> bool:
    if isinstance(value, Timestamp | Duration):
        return value.ns == 0
    return value is None or (
        isinstance(value, int | float | str | bytes | list | dict) and not value
    )


def _optional_value(optional: Optional) -> Any:
    if not optional.has_value:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _unwrap(items: list[Any]) -> list[Any]:
    """Return the values of the optionals that have one."""
    for item in items:
        if not isinstance(item, Optional):
            raise EvaluationError("a value of the list is not optional")
    return [item.value for item in items if item.has_value]


_SIZE: list[Row] = [
    row
    for kind in ("string", "bytes", "list(A)", "map(A, B)")
    for row in ((f"({kind}) int", len), (f"{kind}.() int", len))
]
FUNCTIONS: Table = {
    "!_": [("(bool) bool", lambda value: not value)],
    "-_": [
        ("(int) int", lambda value: v.int_of(-value)),
        ("(double) double", lambda value: -value),
        ("(duration) duration", lambda value: v.duration_of(-value.ns)),
    ],
    "_==_": [("(A, A) bool", v.metered(_equal), f.cost_smaller)],
    "_!=_": [("(A, A) bool", v.metered(_unequal), f.cost_smaller)],
    "_<_": _relation(lambda order: order < 0),
    "_<=_": _relation(lambda order: order <= 0),
    "_>_": _relation(lambda order: order > 0),
    "_>=_": _relation(lambda order: order >= 0),
    "_+_": [
        *_arithmetic(lambda value, other: value + other, lambda value, other: value + other),
        ("(string, string) string", lambda value, other: value + other, f.cost_both, f.size_sum),
        ("(bytes, bytes) bytes", lambda value, other: value + other, f.cost_both, f.size_sum),
        ("(list(A), list(A)) list(A)", lambda value, other: value + other, f.size_sum, f.size_sum),
        (
            "(timestamp, duration) timestamp",
            lambda value, other: v.timestamp_of(value.ns + other.ns),
        ),
        (
            "(duration, timestamp) timestamp",
            lambda value, other: v.timestamp_of(value.ns + other.ns),
        ),
        ("(duration, duration) duration", lambda value, other: v.duration_of(value.ns + other.ns)),
    ],
    "_-_": [
        *_arithmetic(lambda value, other: value - other, lambda value, other: value - other),
        (
            "(timestamp, timestamp) duration",
            lambda value, other: v.duration_of(value.ns - other.ns),
        ),
        (
            "(timestamp, duration) timestamp",
            lambda value, other: v.timestamp_of(value.ns - other.ns),
        ),
        ("(duration, duration) duration", lambda value, other: v.duration_of(value.ns - other.ns)),
    ],
    "_*_": _arithmetic(lambda value, other: value * other, lambda value, other: value * other),
    "_/_": _arithmetic(_divide, _float_divide),
    "_%_": _arithmetic(_modulus, None),
    "@in": [
        ("(A, list(A)) bool", v.metered(_contains), lambda sizes: sizes[1]),
        ("(A, map(A, B)) bool", lambda key, values: isinstance(key, KEYS) and key in values),
    ],
    "_[_]": [
        ("(list(A), int) A", qualify),
        ("(map(A, B), A) B", qualify),
        ("(optional(list(A)), int) optional(A)", qualify),
        ("(optional(map(A, B)), A) optional(B)", qualify),
    ],
    "_[?_]": [
        ("(list(A), int) optional(A)", qualify_if_present),
        ("(map(A, B), A) optional(B)", qualify_if_present),
        ("(optional(list(A)), int) optional(A)", qualify_if_present),
        ("(optional(map(A, B)), A) optional(B)", qualify_if_present),
    ],
    "size": _SIZE,
    "type": [("(A) type(A)", lambda value: TypeValue(v.type_name(value)))],
    "dyn": [("(A) dyn", lambda value: value, f.cost_constant, f.size_first)],
    "int": [
        *((f"({kind}) int", _to_int) for kind in ("int", "uint", "double", "string")),
        ("(timestamp) int", lambda value: value.ns // _SECOND),
        ("(duration) int", lambda value: value.ns),
    ],
    "uint": [(f"({kind}) uint", _to_uint) for kind in ("uint", "int", "double", "string")],
    "double": [
        *((f"({kind}) double", float) for kind in ("double", "int", "uint")),
        ("(string) double", _to_double),
    ],
    "bool": [("(bool) bool", lambda value: value), ("(string) bool", _to_bool)],
    "string": [
        ("(string) string", lambda value: value, f.cost_constant, f.size_first),
        ("(int) string", str, f.cost_constant, lambda _: 20),
        ("(uint) string", lambda value: str(int(value)), f.cost_constant, lambda _: 20),
        ("(double) string", v.double_text, f.cost_constant, lambda _: 32),
        ("(bool) string", lambda value: "true" if value else "false", f.cost_constant, lambda _: 5),
        ("(bytes) string", _to_text, f.cost_first, f.size_first),
        ("(timestamp) string", v.time_text, f.cost_constant, lambda _: 35),
        ("(duration) string", v.duration_text, f.cost_constant, lambda _: 32),
    ],
    "bytes": [
        ("(bytes) bytes", lambda value: value, f.cost_constant, f.size_first),
        (
            "(string) bytes",
            lambda value: value.encode("utf-8", "surrogatepass"),
            f.cost_first,
            f.size_first,
        ),
    ],
    "timestamp": [
        ("(timestamp) timestamp", lambda value: value),
        ("(string) timestamp", v.parse_time),
        ("(int) timestamp", lambda value: v.timestamp_of(value * _SECOND)),
    ],
    "duration": [
        ("(duration) duration", lambda value: value),
        ("(string) duration", v.parse_duration),
        ("(int) duration", lambda value: v.duration_of(value * _SECOND)),
    ],
    "startsWith": [("string.(string) bool", str.startswith, f.cost_second)],
    "endsWith": [("string.(string) bool", str.endswith, f.cost_second)],
    "contains": [
        (
            "string.(string) bool",
            lambda value, other: other in value,
            lambda sizes: f.traversal_cost(sizes[0]) * max(1, f.traversal_cost(sizes[1])),
        )
    ],
    "matches": [
        ("string.(string) bool", v.metered(_matches), f.cost_pattern),
        ("(string, string) bool", v.metered(_matches), f.cost_pattern),
    ],
    **{name: _time_getters(name) for name in _PARTS},
    "optional.of": [("(A) optional(A)", Optional, f.cost_constant, f.size_first)],
    "optional.ofNonZeroValue": [
        (
            "(A) optional(A)",
            lambda value: NONE if _is_zero(value) else Optional(value),
            f.cost_constant,
            f.size_first,
        )
    ],
    "optional.none": [("() optional(A)", lambda: NONE)],
    "optional.unwrap": [("(list(optional(A))) list(A)", _unwrap, f.cost_items, f.size_first)],
    "unwrapOpt": [("list(optional(A)).() list(A)", _unwrap, f.cost_items, f.size_first)],
    "first": [("list(A).() optional(A)", lambda items: Optional(items[0]) if items else NONE)],
    "last": [("list(A).() optional(A)", lambda items: Optional(items[-1]) if items else NONE)],
    "hasValue": [("optional(A).() bool", lambda value: value.has_value)],
    "value": [("optional(A).() A", _optional_value, f.cost_constant, f.size_first)],
    "orValue": [
        (
            "optional(A).(A) A",
            lambda value, other: value.value if value.has_value else other,
            f.cost_constant,
            max,
        )
    ],
    "or": [
        (
            "optional(A).(optional(A)) optional(A)",
            lambda value, other: value if value.has_value else other,
            f.cost_constant,
            max,
        )
    ],
}
