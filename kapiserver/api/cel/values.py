"""What expressions work on, beside Python's own bool, int, float, str, bytes, None, list and dict.

Equality, order, times and their texts are CEL's. Errors are exceptions; `&&` and `||` catch them.
Knows no types of the checker. Mirrors github.com/google/cel-go/common/types.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, TypeAlias

_SECOND = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_RANGE = (-62135596800 * _SECOND, 253402300800 * _SECOND - 1)
_INT = (-(2**63), 2**63 - 1)
_UINT_MAX = 2**64 - 1


class Failed(Exception):
    """An expression has no value; the message is cel-go's."""


class CostExceeded(Exception):
    """An expression would take too long."""


class UInt(int):
    """An unsigned integer."""


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """Nanoseconds since 1970."""

    ns: int


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """Nanoseconds."""

    ns: int


@dataclass(frozen=True, slots=True)
class Optional:
    """A value or none."""

    value: Any = None
    is_there: bool = True


NONE = Optional(is_there=False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value."""

    name: str


_TYPES: dict[type, str] = {
    bool: "bool", int: "int", UInt: "uint", float: "double", str: "string", bytes: "bytes",
    type(None): "null_type", list: "list", dict: "map", Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration", Optional: "optional_type", TypeValue: "type",
}  # fmt: skip


def type_name(value: Any) -> str:
    """The name of a value's type."""
    return _TYPES.get(type(value)) or str(getattr(value, "type_name", "dyn"))


def is_number(value: Any) -> bool:
    """Whether it is an int, uint or double."""
    return isinstance(value, int | float) and not isinstance(value, bool)


Charge: TypeAlias = Callable[[int], None]
"""Called with the cost of what is about to be done. Raises CostExceeded."""


_EACH = 3
"""Steps that it takes to compare one item with another."""


def equal(one: Any, other: Any, charge: Charge) -> bool:
    """Whether two values are equal; of different types only numbers are."""
    if isinstance(one, list):
        if not isinstance(other, list) or len(one) != len(other):
            return False
        charge(_EACH * len(one))
        return all(equal(a, b, charge) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict):
        if not isinstance(other, dict) or len(one) != len(other):
            return False
        charge(_EACH * len(one))
        return all(key in other and equal(value, other[key], charge) for key, value in one.items())
    if isinstance(one, Optional) and isinstance(other, Optional):
        return one.is_there == other.is_there and equal(one.value, other.value, charge)
    if type(one) is type(other) or (is_number(one) and is_number(other)):
        if isinstance(one, str | bytes):
            charge(len(one) // 10)
        return bool(one == other)
    return False


@dataclass(frozen=True, slots=True)
class Metered:
    """A function that is given a Charge before its arguments."""

    run: Callable[..., Any]


def metered(run: Callable[..., Any]) -> Metered:
    """The function charges for what it does while it does it."""
    return Metered(run)


def compare(one: Any, other: Any) -> int:
    """Below, at or above zero. Raises Failed for what has no order."""
    if is_number(one) and is_number(other):
        if one != one or other != other:
            raise Failed("NaN values cannot be ordered")
    elif type(one) is not type(other) or not isinstance(one, _ORDERED):
        raise Failed("no such overload")
    return int(one > other) - int(one < other)


_ORDERED = (bool, str, bytes, Timestamp, Duration)


def int_of(value: int) -> int:
    """An int, if it is in range."""
    if _INT[0] <= value <= _INT[1]:
        return value
    raise Failed("integer overflow")


def uint_of(value: int) -> UInt:
    """A uint, if it is in range."""
    if 0 <= value <= _UINT_MAX:
        return UInt(value)
    raise Failed("unsigned integer overflow")


def timestamp_of(ns: int) -> Timestamp:
    """A time, if it is in the years 1 to 9999."""
    if _TIME_RANGE[0] <= ns <= _TIME_RANGE[1]:
        return Timestamp(ns)
    raise Failed("timestamp overflow")


def duration_of(ns: int) -> Duration:
    """A duration, if it is in range."""
    if _INT[0] <= ns <= _INT[1]:
        return Duration(ns)
    raise Failed("duration overflow")


_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]{1,18}))?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2}))?"
)


def parse_time(text: str) -> Timestamp:
    """RFC 3339, or a date alone."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise Failed(f'invalid timestamp "{text}"')
    zone = (found[4] or "Z").upper().replace("Z", "+00:00")
    try:
        moment = datetime.fromisoformat(f"{found[1]}T{found[2] or '00:00:00'}{zone}")
        since = moment - _EPOCH
    except (ValueError, OverflowError):
        raise Failed(f'invalid timestamp "{text}"') from None
    fraction = int((found[3] or "0").ljust(9, "0")[:9])
    return timestamp_of((since.days * 86400 + since.seconds) * _SECOND + fraction)


def time_text(time: Timestamp) -> str:
    """RFC 3339 in UTC, with as many places as it takes."""
    seconds, rest = divmod(time.ns, _SECOND)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    text = text.rjust(19, "0")
    return f"{text}.{rest:09d}".rstrip("0") + "Z" if rest else f"{text}Z"


_UNITS = {
    "ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 1_000_000, "s": _SECOND,
    "m": 60 * _SECOND, "h": 3600 * _SECOND,
}  # fmt: skip
_PART = re.compile("([0-9]{0,40})(?:[.]([0-9]{0,40}))?(ns|us|µs|μs|ms|s|m|h)")


def parse_duration(text: str) -> Duration:
    """Go's form: `1h30m`."""
    body = text[1:] if text[:1] in ("+", "-") else text
    total, position = 0, 0
    if body != "0":
        while position < len(body):
            found = _PART.match(body, position)
            if found is None or not (found[1] or found[2]):
                raise Failed(f'time: invalid duration "{text}"')
            unit = _UNITS[found[3]]
            total += int(found[1] or 0) * unit
            if found[2]:
                total += int(found[2]) * unit // 10 ** len(found[2])
            position = found.end()
        if not body:
            raise Failed(f'time: invalid duration "{text}"')
    return duration_of(-total if text.startswith("-") else total)


def duration_text(duration: Duration) -> str:
    """Seconds: `5400s`, `0.5s`."""
    sign = "-" if duration.ns < 0 else ""
    seconds, rest = divmod(abs(duration.ns), _SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{sign}{seconds}{fraction}s"


def double_text(value: float) -> str:
    """A double as Go's `%g` with the fewest digits prints it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value.is_integer() and abs(value) < 1e21:
        return ("-" if math.copysign(1, value) < 0 else "") + str(abs(int(value)))
    return repr(value)


def local(time: Timestamp, zone: str = "UTC") -> datetime:
    """The moment in a time zone: UTC, or an offset such as `-08:00`."""
    offset = UTC if zone in ("UTC", "Z", "") else None
    found = re.fullmatch("([+-]?)([0-9]{2}):([0-9]{2})", zone)
    if found is not None and int(found[2]) < 24 and int(found[3]) < 60:
        minutes = int(found[2]) * 60 + int(found[3])
        offset = timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes))
    if offset is None:
        raise Failed(f"unknown time zone {zone}")
    try:
        return (_EPOCH + timedelta(seconds=time.ns // _SECOND)).astimezone(offset)
    except OverflowError:
        raise Failed("timestamp overflow") from None
