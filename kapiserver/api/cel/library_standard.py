"""Operators, conversions, times and lists of standard CEL, and optional values.

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
from kapiserver.api.cel.values import NONE, Duration, Failed, Optional, Timestamp, TypeValue, UInt

_SECOND = 1_000_000_000
_NUMBERS = ("int", "uint", "double")


def _divide(one: int, other: int) -> int:
    if other == 0:
        raise Failed("division by zero")
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


def _modulus(one: int, other: int) -> int:
    if other == 0:
        raise Failed("modulus by zero")
    return int(math.copysign(1, one)) * (abs(one) % abs(other))


def _float_divide(one: float, other: float) -> float:
    try:
        return one / other
    except ZeroDivisionError:
        negative = math.copysign(1, one) * math.copysign(1, other) < 0
        return math.nan if one == 0 or one != one else (-math.inf if negative else math.inf)


def _index(value: list[Any], index: Any) -> Any:
    if not 0 <= index < len(value) or index != int(index):
        raise Failed(f"index out of bounds: {index}")
    return value[int(index)]


def _entry(value: dict[Any, Any], key: Any) -> Any:
    try:
        return value[key]
    except (KeyError, TypeError):
        raise Failed(f"no such key: {key}") from None


def _optional(get: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Optional]:
    def run(value: Any, key: Any) -> Optional:
        try:
            return Optional(get(value, key))
        except Failed:
            return NONE

    return run


def _of_optional(get: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Optional]:
    return lambda value, key: _optional(get)(value.value, key) if value.is_there else NONE


def _to_int(value: Any) -> int:
    if isinstance(value, str):
        digits = value[1:] if value[:1] in ("-", "+") else value
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:
            raise Failed(f'strconv.ParseInt: parsing "{value}": invalid syntax')
        return v.int_of(int(value))
    if isinstance(value, float) and not -(2.0**63) < value < 2.0**63:
        raise Failed("integer overflow")
    return v.int_of(int(value))


def _to_uint(value: Any) -> UInt:
    if isinstance(value, str):
        if not (value.isascii() and value.isdigit()) or len(value) > 20:
            raise Failed(f'strconv.ParseUint: parsing "{value}": invalid syntax')
        return v.uint_of(int(value))
    if isinstance(value, float) and not 0 <= value < 2.0**64:
        raise Failed("unsigned integer overflow")
    return v.uint_of(int(value))


def _to_double(value: str) -> float:
    try:
        if "_" in value or value != value.strip():
            raise ValueError
        return float(value)
    except ValueError:
        raise Failed(f'strconv.ParseFloat: parsing "{value}": invalid syntax') from None


def _to_bool(value: str) -> bool:
    if value in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if value in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise Failed(f'strconv.ParseBool: parsing "{value}": invalid syntax')


def _to_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Failed("invalid UTF-8 in bytes, cannot convert to string") from None


def matches(text: str, pattern: str) -> bool:
    """Whether a pattern is anywhere in a text."""
    try:
        return linear_regex.compile_pattern(pattern).search(text) is not None
    except (linear_regex.InvalidPattern, UnicodeError) as error:
        raise Failed(str(error)) from None


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


def _times(name: str) -> list[Row]:
    rows: list[Row] = [
        ("timestamp.() int", _getter(name)),
        ("timestamp.(string) int", _getter(name)),
    ]
    if name in _DURATION_PARTS:
        unit = _DURATION_PARTS[name]
        rows.append(("duration.() int", lambda one: _divide(one.ns, unit)))
    elif name == "getMilliseconds":
        rows.append(("duration.() int", lambda one: _divide(one.ns, 1_000_000)))
    return rows


def _relation(holds: Callable[[int], bool]) -> list[Row]:
    def run(one: Any, other: Any) -> bool:
        return holds(v.compare(one, other))

    rows: list[Row] = [
        (f"({kind}, {kind}) bool", run) for kind in ("bool", "timestamp", "duration")
    ]
    rows += [(f"({one}, {other}) bool", run) for one in _NUMBERS for other in _NUMBERS]
    rows += [(f"({kind}, {kind}) bool", run, f.smaller) for kind in ("string", "bytes")]
    return rows


def _arithmetic(
    run: Callable[[Any, Any], Any], real: Callable[[Any, Any], Any] | None
) -> list[Row]:
    rows: list[Row] = [
        ("(int, int) int", lambda one, other: v.int_of(run(one, other))),
        ("(uint, uint) uint", lambda one, other: v.uint_of(run(int(one), int(other)))),
    ]
    return [*rows, ("(double, double) double", real)] if real else rows


def _contained(charge: v.Charge, value: Any, values: list[Any]) -> bool:
    return any(v.equal(value, one, charge) for one in values)


def _equal(charge: v.Charge, one: Any, other: Any) -> bool:
    return v.equal(one, other, charge)


def _unequal(charge: v.Charge, one: Any, other: Any) -> bool:
    return not v.equal(one, other, charge)


def _is_zero(value: Any) -> bool:
    if isinstance(value, Timestamp | Duration):
        return value.ns == 0
    return value is None or (
        isinstance(value, int | float | str | bytes | list | dict) and not value
    )


def _optional_value(one: Optional) -> Any:
    if not one.is_there:
        raise Failed("optional.none() dereference")
    return one.value


_SIZE: list[Row] = [
    row
    for kind in ("string", "bytes", "list(A)", "map(A, B)")
    for row in ((f"({kind}) int", len), (f"{kind}.() int", len))
]
FUNCTIONS: Table = {
    "!_": [("(bool) bool", lambda one: not one)],
    "-_": [
        ("(int) int", lambda one: v.int_of(-one)),
        ("(double) double", lambda one: -one),
        ("(duration) duration", lambda one: v.duration_of(-one.ns)),
    ],
    "_==_": [("(A, A) bool", v.metered(_equal), f.smaller)],
    "_!=_": [("(A, A) bool", v.metered(_unequal), f.smaller)],
    "_<_": _relation(lambda order: order < 0),
    "_<=_": _relation(lambda order: order <= 0),
    "_>_": _relation(lambda order: order > 0),
    "_>=_": _relation(lambda order: order >= 0),
    "_+_": [
        *_arithmetic(lambda one, other: one + other, lambda one, other: one + other),
        ("(string, string) string", lambda one, other: one + other, f.both, f.size_sum),
        ("(bytes, bytes) bytes", lambda one, other: one + other, f.both, f.size_sum),
        ("(list(A), list(A)) list(A)", lambda one, other: one + other, f.size_sum, f.size_sum),
        ("(timestamp, duration) timestamp", lambda one, other: v.timestamp_of(one.ns + other.ns)),
        ("(duration, timestamp) timestamp", lambda one, other: v.timestamp_of(one.ns + other.ns)),
        ("(duration, duration) duration", lambda one, other: v.duration_of(one.ns + other.ns)),
    ],
    "_-_": [
        *_arithmetic(lambda one, other: one - other, lambda one, other: one - other),
        ("(timestamp, timestamp) duration", lambda one, other: v.duration_of(one.ns - other.ns)),
        ("(timestamp, duration) timestamp", lambda one, other: v.timestamp_of(one.ns - other.ns)),
        ("(duration, duration) duration", lambda one, other: v.duration_of(one.ns - other.ns)),
    ],
    "_*_": _arithmetic(lambda one, other: one * other, lambda one, other: one * other),
    "_/_": _arithmetic(_divide, _float_divide),
    "_%_": _arithmetic(_modulus, None),
    "@in": [
        ("(A, list(A)) bool", v.metered(_contained), lambda sizes: sizes[1]),
        ("(A, map(A, B)) bool", lambda key, values: _optional(_entry)(values, key).is_there),
    ],
    "_[_]": [
        *((f"(list(A), {kind}) A", _index) for kind in _NUMBERS),
        ("(map(A, B), A) B", _entry),
        ("(optional(list(A)), int) optional(A)", _of_optional(_index)),
        ("(optional(map(A, B)), A) optional(B)", _of_optional(_entry)),
    ],
    "_[?_]": [
        ("(list(A), int) optional(A)", _optional(_index)),
        ("(map(A, B), A) optional(B)", _optional(_entry)),
        ("(optional(list(A)), int) optional(A)", _of_optional(_index)),
        ("(optional(map(A, B)), A) optional(B)", _of_optional(_entry)),
    ],
    "size": _SIZE,
    "type": [("(A) type(A)", lambda one: TypeValue(v.type_name(one)))],
    "dyn": [("(A) dyn", lambda one: one, f.flat, f.size_first)],
    "int": [
        *((f"({kind}) int", _to_int) for kind in ("int", "uint", "double", "string")),
        ("(timestamp) int", lambda one: one.ns // _SECOND),
        ("(duration) int", lambda one: one.ns),
    ],
    "uint": [(f"({kind}) uint", _to_uint) for kind in ("uint", "int", "double", "string")],
    "double": [
        *((f"({kind}) double", float) for kind in ("double", "int", "uint")),
        ("(string) double", _to_double),
    ],
    "bool": [("(bool) bool", lambda one: one), ("(string) bool", _to_bool)],
    "string": [
        ("(string) string", lambda one: one, f.flat, f.size_first),
        ("(int) string", str, f.flat, lambda _: 20),
        ("(uint) string", lambda one: str(int(one)), f.flat, lambda _: 20),
        ("(double) string", v.double_text, f.flat, lambda _: 32),
        ("(bool) string", lambda one: "true" if one else "false", f.flat, lambda _: 5),
        ("(bytes) string", _to_text, f.first, f.size_first),
        ("(timestamp) string", v.time_text, f.flat, lambda _: 35),
        ("(duration) string", v.duration_text, f.flat, lambda _: 32),
    ],
    "bytes": [
        ("(bytes) bytes", lambda one: one, f.flat, f.size_first),
        ("(string) bytes", lambda one: one.encode("utf-8", "surrogatepass"), f.first, f.size_first),
    ],
    "timestamp": [
        ("(timestamp) timestamp", lambda one: one),
        ("(string) timestamp", v.parse_time),
        ("(int) timestamp", lambda one: v.timestamp_of(one * _SECOND)),
    ],
    "duration": [
        ("(duration) duration", lambda one: one),
        ("(string) duration", v.parse_duration),
        ("(int) duration", lambda one: v.duration_of(one * _SECOND)),
    ],
    "startsWith": [("string.(string) bool", str.startswith, f.second)],
    "endsWith": [("string.(string) bool", str.endswith, f.second)],
    "contains": [
        (
            "string.(string) bool",
            lambda one, other: other in one,
            lambda sizes: f.tenth(sizes[0]) * max(1, f.tenth(sizes[1])),
        )
    ],
    "matches": [
        ("string.(string) bool", matches, f.pattern),
        ("(string, string) bool", matches, f.pattern),
    ],
    **{name: _times(name) for name in _PARTS},
    "optional.of": [("(A) optional(A)", Optional, f.flat, f.size_first)],
    "optional.ofNonZeroValue": [
        (
            "(A) optional(A)",
            lambda one: NONE if _is_zero(one) else Optional(one),
            f.flat,
            f.size_first,
        )
    ],
    "optional.none": [("() optional(A)", lambda: NONE)],
    "hasValue": [("optional(A).() bool", lambda one: one.is_there)],
    "value": [("optional(A).() A", _optional_value, f.flat, f.size_first)],
    "orValue": [
        ("optional(A).(A) A", lambda one, other: one.value if one.is_there else other, f.flat, max)
    ],
    "or": [
        (
            "optional(A).(optional(A)) optional(A)",
            lambda one, other: one if one.is_there else other,
            f.flat,
            max,
        )
    ],
}
