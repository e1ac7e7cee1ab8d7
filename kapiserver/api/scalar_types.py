"""Scalar types that are messages on the wire: times, durations, int-or-string, raw JSON.

Each ScalarType parses its value (`canonical`) and converts it from and to its message; Quantity,
the longest of them, has a module of its own (`quantity`). Knows no field that uses them. Mirrors
meta/v1 Time, MicroTime, Duration, FieldsV1 and Verbs, util/intstr and runtime.RawExtension of
k8s.io/apimachinery, including the texts of their errors.

`canonical(None)`, for an absent or null value, is the zero value: None for times and raw JSON, `0`
for IntOrString, `"0s"` for Duration, `"0"` for Quantity.
"""

from __future__ import annotations

import base64
import functools
import re
from datetime import datetime, timedelta
from typing import Any, ClassVar

import orjson

from kapiserver.api.go_format import replace_surrogates
from kapiserver.api.quantity import Quantity
from kapiserver.api.types import ScalarType, Tree, Value, field, int32, int64

__all__ = [
    "Duration",
    "FieldsV1",
    "IntOrString",
    "MicroTime",
    "Quantity",
    "RawExtension",
    "StringList",
    "Time",
]

_META = "k8s.io.apimachinery.pkg.apis.meta.v1"
_EPOCH = datetime(1970, 1, 1)  # naive, like every datetime below: all are UTC
_SECOND = timedelta(seconds=1)
_CACHED = 4096
_SHORT = 64
"""Longer texts are not cached, so that clients cannot fill a cache with them."""


_JSON_TYPES: dict[type, str] = {
    bool: "bool",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def _json_type(value: Value) -> str:
    # The name that encoding/json gives to a value in its errors.
    return _JSON_TYPES.get(type(value), "null")


def _cached(read: Any, text: str) -> Any:
    return read(text) if len(text) <= _SHORT else read.__wrapped__(text)


def _text(value: Value) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"json: cannot unmarshal {_json_type(value)} into Go value of type string")


# --- times

_RFC3339 = "2006-01-02T15:04:05Z07:00"
_RFC3339_MICRO = "2006-01-02T15:04:05.000000Z07:00"

# (element of Go's layout, expression that takes it off the front of the text)
_DATE = (
    ("2006", re.compile(r"[0-9]{4}")),
    ("-", re.compile("-")),
    ("01", re.compile(r"[0-9]{2}")),
    ("-", re.compile("-")),
    ("02", re.compile(r"[0-9]{2}")),
    ("T", re.compile("T")),
    ("15", re.compile(r"[0-9]{1,2}")),
    (":", re.compile(":")),
    ("04", re.compile(r"[0-9]{2}")),
    (":", re.compile(":")),
    ("05", re.compile(r"[0-9]{2}")),
)
_ZONE = ("Z07:00", re.compile(r"Z|[+-][0-9]{2}:[0-9]{2}"))
_LAYOUTS = {
    _RFC3339: (*_DATE, ("", re.compile(r"(?:[.,][0-9]+)?")), _ZONE),
    _RFC3339_MICRO: (*_DATE, (".000000", re.compile(r"[.,][0-9]{6}")), _ZONE),
}


def _quoted(text: str) -> str:
    # As package time quotes: every byte of control characters and of what is not ASCII.
    return f'"{"".join(map(_quoted_byte, replace_surrogates(text).encode()))}"'


def _quoted_byte(byte: int) -> str:
    if byte < 0x20 or byte >= 0x80:
        return f"\\x{byte:02x}"
    return f"\\{byte:c}" if byte in b'"\\' else chr(byte)


def _parse_time(text: str, layout: str) -> datetime:
    # Element by element, because Go's error names the element that does not match.
    remaining_text, parts = text, []
    for element, expression in _LAYOUTS[layout]:
        match = expression.match(remaining_text)
        if match is None:
            raise ValueError(
                f"parsing time {_quoted(text)} as {_quoted(layout)}: "
                f"cannot parse {_quoted(remaining_text)} as {_quoted(element)}"
            )
        parts.append(match[0])
        remaining_text = remaining_text[match.end() :]
    if remaining_text:
        raise ValueError(f"parsing time {_quoted(text)}: extra text: {_quoted(remaining_text)}")
    return _datetime(text, parts)


def _datetime(text: str, parts: list[str]) -> datetime:
    year, month, day, hour, minute, second = (int(parts[i]) for i in range(0, 12, 2))
    fraction, zone = parts[11][1:], parts[12]
    limits = (
        ("month", 1 <= month <= 12),
        ("hour", hour < 24),
        ("minute", minute < 60),
        ("second", second < 60),
    )
    for name, is_valid in limits:
        if not is_valid:
            raise ValueError(f"parsing time {_quoted(text)}: {name} out of range")
    offset = timedelta()
    if zone != "Z":
        offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
        offset = -offset if zone[0] == "-" else offset
    micros = int(fraction[:6].ljust(6, "0")) if fraction else 0
    try:
        return datetime(year, month, day, hour, minute, second, micros) - offset
    except (ValueError, OverflowError):
        raise ValueError(f"parsing time {_quoted(text)}: day out of range") from None


def _seconds_text(moment: datetime) -> str | None:
    text = moment.isoformat(timespec="seconds")
    return None if text == "0001-01-01T00:00:00" else text + "Z"


def _micros_text(moment: datetime) -> str | None:
    text = moment.isoformat(timespec="microseconds")
    return None if text == "0001-01-01T00:00:00.000000" else text + "Z"


_CANONICAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z", re.ASCII)


def _is_canonical(text: str, length: int) -> bool:
    # Nearly every text is canonical; parsing takes ten times as long.
    if len(text) != length or text.startswith("0001") or not _CANONICAL.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


@functools.lru_cache(_CACHED)
def _canonical_time(text: str) -> str | None:
    if _is_canonical(text, len("2006-01-02T15:04:05Z")):
        return text
    return _seconds_text(_parse_time(text, _RFC3339))


@functools.lru_cache(_CACHED)
def _canonical_micro_time(text: str) -> str | None:
    if _is_canonical(text, len("2006-01-02T15:04:05.000000Z")):
        return text
    return _micros_text(_parse_time(text, _RFC3339_MICRO))


def _since_epoch(seconds: int, nanos: int = 0) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise ValueError(f"time: {seconds} seconds since 1970 is not a date") from None


class Time(ScalarType):
    """A time in whole seconds, as RFC 3339 text in UTC: `2006-01-02T15:04:05Z`."""

    package: ClassVar[str] = _META
    openapi: ClassVar[Tree] = {"type": "string", "format": "date-time"}

    # Pointers: the zero time is an empty message.
    seconds: int64 | None = field(
        1, doc="Seconds since 1970-01-01T00:00:00Z; negative for earlier times."
    )
    nanos: int32 | None = field(
        2, doc="Always written as zero and ignored on reading: a Time has whole seconds only."
    )

    @classmethod
    def canonical(cls, value: Value) -> Value:
        return None if value is None else _cached(_canonical_time, _text(value))

    @classmethod
    def to_message(cls, value: Value) -> Tree:
        if value is None:
            return {}
        moment = datetime.fromisoformat(value[:-1])
        return {"seconds": (moment - _EPOCH) // _SECOND, "nanos": 0}

    @classmethod
    def from_message(cls, message: Tree) -> Value:
        return _seconds_text(_since_epoch(message.get("seconds", 0))) if message else None


class MicroTime(ScalarType):
    """A time in microseconds, as RFC 3339 text in UTC: `2006-01-02T15:04:05.000000Z`."""

    package: ClassVar[str] = _META
    openapi: ClassVar[Tree] = {"type": "string", "format": "date-time"}

    seconds: int64 | None = field(
        1, doc="Whole seconds since 1970-01-01T00:00:00Z; negative for earlier times."
    )
    nanos: int32 | None = field(
        2, doc="Nanoseconds within the second, rounded down to whole microseconds."
    )

    @classmethod
    def canonical(cls, value: Value) -> Value:
        return None if value is None else _cached(_canonical_micro_time, _text(value))

    @classmethod
    def to_message(cls, value: Value) -> Tree:
        if value is None:
            return {}
        moment = datetime.fromisoformat(value[:-1])
        return {"seconds": (moment - _EPOCH) // _SECOND, "nanos": moment.microsecond * 1000}

    @classmethod
    def from_message(cls, message: Tree) -> Value:
        if not message:
            return None
        return _micros_text(_since_epoch(message.get("seconds", 0), message.get("nanos", 0)))


# --- durations

_NANOS = {
    "ns": 1,
    "us": 10**3,
    "\N{MICRO SIGN}s": 10**3,
    "\N{GREEK SMALL LETTER MU}s": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_DURATION_PART = re.compile(r"([0-9]{0,40})(?:\.([0-9]{0,40}))?([^0-9.]*)")
_LONGEST = 2**63


def _parse_duration(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    position = 1 if text[:1] in ("-", "+") and text else 0
    if text[position:] == "0":
        return 0
    invalid = f"time: invalid duration {_quoted(text)}"
    if position == len(text):
        raise ValueError(invalid)
    total = 0
    while position < len(text):
        match = _DURATION_PART.match(text, position)
        if match is None or not (match[1] or match[2]):
            raise ValueError(invalid)
        integer, fraction, unit = match[1], match[2] or "", match[3]
        if not unit:
            raise ValueError(f"time: missing unit in duration {_quoted(text)}")
        if unit not in _NANOS:
            raise ValueError(f"time: unknown unit {_quoted(unit)} in duration {_quoted(text)}")
        total += int(integer or "0") * _NANOS[unit]
        total += int(fraction or "0") * _NANOS[unit] // 10 ** len(fraction)
        if total > _LONGEST - (sign > 0):
            raise ValueError(invalid)
        position = match.end()
    return sign * total


def _decimal(nanos: int, unit: str) -> str:
    integer, remainder = divmod(nanos, _NANOS[unit])
    digits = len(str(_NANOS[unit])) - 1
    fraction = f"{remainder:0{digits}}".rstrip("0") if digits else ""
    return f"{integer}.{fraction}{unit}" if fraction else f"{integer}{unit}"


def format_duration(nanos: int) -> str:
    """Format nanoseconds as Go's time.Duration does, such as `1m0.5s`."""
    sign, nanos = ("-", -nanos) if nanos < 0 else ("", nanos)
    if nanos == 0:
        return "0s"
    if nanos < _NANOS["s"]:
        units = ("ns", "\N{MICRO SIGN}s", "ms")
        unit = max(
            (candidate for candidate in units if nanos >= _NANOS[candidate]), key=_NANOS.__getitem__
        )
        return sign + _decimal(nanos, unit)
    minutes, seconds_nanos = divmod(nanos, _NANOS["m"])
    hours, minutes = divmod(minutes, 60)
    text = _decimal(seconds_nanos, "s")
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else sign + text


@functools.lru_cache(_CACHED)
def _canonical_duration(text: str) -> str:
    return format_duration(_parse_duration(text))


class Duration(ScalarType):
    """A length of time as Go writes it: `1h2m3s`, `1.5s`, `0s`."""

    package: ClassVar[str] = _META
    openapi: ClassVar[Tree] = {"type": "string"}

    duration: int64 = field(1, doc="The length of time in nanoseconds.")

    @classmethod
    def canonical(cls, value: Value) -> Value:
        return "0s" if value is None else _cached(_canonical_duration, _text(value))

    @classmethod
    def to_message(cls, value: Value) -> Tree:
        return {"duration": _parse_duration(value) if value is not None else 0}

    @classmethod
    def from_message(cls, message: Tree) -> Value:
        return format_duration(message.get("duration", 0))


# --- numbers or names

_INT32 = range(-(2**31), 2**31)


class IntOrString(ScalarType):
    """An int32 or a string, such as a port by number or by name, or a count or a percentage."""

    package: ClassVar[str] = "k8s.io.apimachinery.pkg.util.intstr"
    openapi: ClassVar[Tree] = {
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    }

    type: int64 = field(
        1, doc="Which of the two fields holds the value: 0 for intVal, 1 for strVal."
    )
    intVal: int32 = field(2, doc="The value if it is an integer (type 0).")
    strVal: str = field(3, doc="The value if it is a string (type 1).")

    @classmethod
    def canonical(cls, value: Value) -> int | str:
        if isinstance(value, str):
            return value
        if value is None:
            return 0
        if type(value) is int and value in _INT32:
            return value
        description = _json_type(value)
        description = f"number {value}" if description == "number" else description
        raise ValueError(f"json: cannot unmarshal {description} into Go value of type int32")

    @classmethod
    def to_message(cls, value: Value) -> Tree:
        if isinstance(value, str):
            return {"type": 1, "intVal": 0, "strVal": value}
        return {"type": 0, "intVal": value or 0, "strVal": ""}

    @classmethod
    def from_message(cls, message: Tree) -> Value:
        member = "strVal" if message.get("type") == 1 else "intVal"
        return message.get(member, "" if member == "strVal" else 0)


# --- raw JSON


def json_to_bytes(value: Value) -> str:
    """Return a value as JSON text in the form of bytes in a tree (base64)."""
    return base64.b64encode(orjson.dumps(value)).decode()


def json_from_bytes(text: str) -> Value:
    """Return the value of JSON text in base64; None if it is empty. Raises ValueError."""
    return json_value(base64.b64decode(text))


def json_value(text: bytes) -> Value:
    """Return the value of JSON text; None if it is empty. Raises ValueError."""
    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError as error:
        raise ValueError(f"raw bytes are not JSON: {error}") from None


class RawExtension(ScalarType):
    """Any JSON object, passed through as it is without a schema."""

    package: ClassVar[str] = "k8s.io.apimachinery.pkg.runtime"
    openapi: ClassVar[Tree] = {"type": "object"}

    raw: bytes | None = field(
        1, doc="The value as JSON text, or an object in its Protobuf envelope."
    )

    @classmethod
    def canonical(cls, value: Value) -> Value:
        return value

    @classmethod
    def to_message(cls, value: Value) -> Tree:
        return {} if value is None else {"raw": json_to_bytes(value)}

    @classmethod
    def from_message(cls, message: Tree) -> Value:
        return json_from_bytes(message.get("raw") or "")


class FieldsV1(ScalarType):
    """A set of fields as a tree of keys: `f:<name>` for a field, `k:<keys>` for a list item by its
    key fields, `v:<value>` for one by its value, `i:<index>` for one by its position; `.` stands
    for the item itself."""

    package: ClassVar[str] = _META
    openapi: ClassVar[Tree] = {"type": "object"}

    Raw: bytes | None = field(1, doc="The set of fields as JSON text.")

    @classmethod
    def canonical(cls, value: Value) -> Value:
        return value

    @classmethod
    def to_message(cls, value: Value) -> Tree:
        return {} if value is None else {"Raw": json_to_bytes(value)}

    @classmethod
    def from_message(cls, message: Tree) -> Value:
        return json_from_bytes(message.get("Raw") or "")


class StringList(ScalarType):
    """The base of types that are a list of strings in JSON and a message of their own on the wire.
    It is not a message itself."""

    openapi: ClassVar[Tree] = {"type": "array", "items": {"type": "string"}}

    items: list[str] = field(1, doc="The strings of the list.")

    @classmethod
    def canonical(cls, value: Value) -> Value:
        if value is None:
            return None
        if not isinstance(value, list):
            type_name = _json_type(value)
            raise ValueError(f"json: cannot unmarshal {type_name} into Go value of type []string")
        return ["" if item is None else _text(item) for item in value]

    @classmethod
    def to_message(cls, value: Value) -> Tree:
        return {"items": value or []}

    @classmethod
    def from_message(cls, message: Tree) -> Value:
        return message.get("items") or []
