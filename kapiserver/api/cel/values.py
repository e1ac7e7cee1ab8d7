"""CEL values, besides Python's own bool, int, float, str, bytes, None, list and dict.

Equality, order, times and their formats are CEL's. Errors are exceptions; `&&` and `||` catch them.
Knows no types of the checker. Mirrors github.com/google/cel-go/common/types.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, TypeAlias

from msgspec import Struct

_SECOND = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_RANGE = (-62135596800 * _SECOND, 253402300800 * _SECOND - 1)
_INT = (-(2**63), 2**63 - 1)
_UINT_MAX = 2**64 - 1


class EvaluationError(Exception):
    """An expression has no value; the message is cel-go's."""


class CostExceeded(Exception):
    """An evaluation exceeds its cost limit."""


class UInt(int):
    """An unsigned integer."""


class Timestamp(Struct, frozen=True, order=True):
    """Nanoseconds since 1970."""

    ns: int


class Duration(Struct, frozen=True, order=True):
    """A duration in nanoseconds."""

    ns: int


class Optional(Struct, frozen=True):
    """An optional value."""

    value: Any = None
    has_value: bool = True


NONE = Optional(has_value=False)


class StructValue(dict[str, Any]):
    """A value that `Name{field: value}` constructs."""

    __slots__ = ("type_name",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.type_name = name


class TypeValue(Struct, frozen=True):
    """A type as a value."""

    name: str


_TYPES: dict[type, str] = {
    bool: "bool", int: "int", UInt: "uint", float: "double", str: "string", bytes: "bytes",
    type(None): "null_type", list: "list", dict: "map", Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration", Optional: "optional_type", TypeValue: "type",
}  # fmt: skip


def type_name(value: Any) -> str:
    """Return the CEL name of a value's type."""
    return _TYPES.get(type(value)) or str(getattr(value, "type_name", "dyn"))


def is_number(value: Any) -> bool:
    """Report whether it is an int, uint or double."""
    return isinstance(value, int | float) and not isinstance(value, bool)


Charge: TypeAlias = Callable[[int], None]
"""Called with a cost before the work is done. Raises CostExceeded."""


_ITEM_COST = 3
"""The cost of comparing two items, in steps."""


def equal(left: Any, right: Any, charge: Charge) -> bool:
    """Report whether two values are equal; values of different types are not, except numbers."""
    if isinstance(left, list):
        if not isinstance(right, list) or len(left) != len(right):
            return False
        charge(_ITEM_COST * len(left))
        return all(equal(a, b, charge) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict):
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        if isinstance(left, StructValue) and type_name(left) != type_name(right):
            return False
        charge(_ITEM_COST * len(left))
        return all(key in right and equal(value, right[key], charge) for key, value in left.items())
    if isinstance(left, Optional) and isinstance(right, Optional):
        return left.has_value == right.has_value and equal(left.value, right.value, charge)
    if type(left) is type(right) or (is_number(left) and is_number(right)):
        if isinstance(left, str | bytes):
            charge(len(left) // 10)
        return bool(left == right)
    return False


class MeteredFunction(Struct, frozen=True):
    """A function that takes a Charge before its arguments."""

    run: Callable[..., Any]


def metered(run: Callable[..., Any]) -> MeteredFunction:
    """Mark a function that charges for its work while it runs."""
    return MeteredFunction(run)


def compare(left: Any, right: Any) -> int:
    """Return a negative number, zero or a positive number. Raises EvaluationError if there is no
    order."""
    if is_number(left) and is_number(right):
        if left != left or right != right:
            raise EvaluationError("NaN values cannot be ordered")
    elif type(left) is not type(right) or not isinstance(left, _ORDERED):
        raise EvaluationError("no such overload")
    return int(left > right) - int(left < right)


_ORDERED = (bool, str, bytes, Timestamp, Duration)


def int_of(value: int) -> int:
    """Return an int. Raises EvaluationError if it is out of range."""
    if _INT[0] <= value <= _INT[1]:
        return value
    raise EvaluationError("integer overflow")


def uint_of(value: int) -> UInt:
    """Return a uint. Raises EvaluationError if it is out of range."""
    if 0 <= value <= _UINT_MAX:
        return UInt(value)
    raise EvaluationError("unsigned integer overflow")


def unconvertible(type_name: str) -> EvaluationError:
    """Return the error of a text that is not a value of a type."""
    return EvaluationError(f"type conversion error from 'string' to '{type_name}'")


def timestamp_of(ns: int) -> Timestamp:
    """Return a timestamp. Raises EvaluationError unless it is in the years 1 to 9999."""
    if _TIME_RANGE[0] <= ns <= _TIME_RANGE[1]:
        return Timestamp(ns)
    raise EvaluationError("timestamp overflow")


def duration_of(ns: int) -> Duration:
    """Return a duration. Raises EvaluationError if it is out of range."""
    if _INT[0] <= ns <= _INT[1]:
        return Duration(ns)
    raise EvaluationError("duration overflow")


_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]{1,18}))?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2}))?"
)


def parse_time(text: str) -> Timestamp:
    """Parse a timestamp of RFC 3339, or a date alone. Raises EvaluationError."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise unconvertible("google.protobuf.Timestamp")
    zone = (match[4] or "Z").upper().replace("Z", "+00:00")
    try:
        time = datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00:00'}{zone}")
        elapsed = time - _EPOCH
    except (ValueError, OverflowError):
        raise unconvertible("google.protobuf.Timestamp") from None
    fraction = int((match[3] or "0").ljust(9, "0")[:9])
    return timestamp_of((elapsed.days * 86400 + elapsed.seconds) * _SECOND + fraction)


def time_text(time: Timestamp) -> str:
    """Format a timestamp as RFC 3339 in UTC, with as many decimals as needed."""
    seconds, nanoseconds = divmod(time.ns, _SECOND)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    text = text.rjust(19, "0")
    return f"{text}.{nanoseconds:09d}".rstrip("0") + "Z" if nanoseconds else f"{text}Z"


_UNITS = {
    "ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 1_000_000, "s": _SECOND,
    "m": 60 * _SECOND, "h": 3600 * _SECOND,
}  # fmt: skip
_PART = re.compile("([0-9]{0,40})(?:[.]([0-9]{0,40}))?(ns|us|µs|μs|ms|s|m|h)")


def parse_duration(text: str) -> Duration:
    """Parse a duration in Go's format: `1h30m`. Raises EvaluationError."""
    body = text[1:] if text[:1] in ("+", "-") else text
    total, position = 0, 0
    if body != "0":
        while position < len(body):
            match = _PART.match(body, position)
            if match is None or not (match[1] or match[2]):
                raise unconvertible("google.protobuf.Duration")
            unit = _UNITS[match[3]]
            total += int(match[1] or 0) * unit
            if match[2]:
                total += int(match[2]) * unit // 10 ** len(match[2])
            position = match.end()
        if not body:
            raise unconvertible("google.protobuf.Duration")
    return duration_of(-total if text.startswith("-") else total)


def duration_text(duration: Duration) -> str:
    """Format a duration in seconds: `5400s`, `0.5s`."""
    sign = "-" if duration.ns < 0 else ""
    seconds, nanoseconds = divmod(abs(duration.ns), _SECOND)
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
    return f"{sign}{seconds}{fraction}s"


def double_text(value: float) -> str:
    """Format a double as Go's `%g` does with the fewest digits."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value.is_integer() and abs(value) < 1e21:
        return ("-" if math.copysign(1, value) < 0 else "") + str(abs(int(value)))
    return repr(value)


def local(time: Timestamp, zone: str = "UTC") -> datetime:
    """Return the time in a zone: UTC, or an offset such as `-08:00`. Raises EvaluationError."""
    offset = UTC if zone in ("UTC", "Z", "") else None
    match = re.fullmatch("([+-]?)([0-9]{2}):([0-9]{2})", zone)
    if match is not None and int(match[2]) < 24 and int(match[3]) < 60:
        minutes = int(match[2]) * 60 + int(match[3])
        offset = timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes))
    if offset is None:
        raise EvaluationError(f"unknown time zone {zone}")
    try:
        return (_EPOCH + timedelta(seconds=time.ns // _SECOND)).astimezone(offset)
    except OverflowError:
        raise EvaluationError("timestamp overflow") from None
