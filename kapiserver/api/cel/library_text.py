"""Functions of texts, and what there is of lists and sets.

Mirrors github.com/google/cel-go/ext (strings, sets) and k8s.io/apiserver/pkg/cel/library (lists,
regex).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from kapiserver.api import linear_regex
from kapiserver.api.cel import functions as f
from kapiserver.api.cel import values as v
from kapiserver.api.cel.functions import Row, Table
from kapiserver.api.cel.values import CostExceeded, Duration, Failed, TypeValue, UInt

MAX_TEXT = 1 << 24
"""No function makes a longer text."""
_MAX_PRECISION = 1000
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_LOWER = str.maketrans(_ALPHABET.upper(), _ALPHABET)
_UPPER = str.maketrans(_ALPHABET, _ALPHABET.upper())
# What Go's strings.TrimSpace trims.
_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_ORDERED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


def _bounded(size: int) -> None:
    if size > MAX_TEXT:
        raise CostExceeded


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise Failed(f"index out of range: {index}")
    return text[index : index + 1]


def _offset(text: str, offset: int) -> int:
    if not 0 <= offset <= len(text):
        raise Failed(f"index out of range: {offset}")
    return offset


def _last_index(text: str, part: str, offset: int) -> int:
    return text.rfind(part, 0, _offset(text, offset) + len(part))


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    times = len(text) // len(old) if old else len(text) + 1
    _bounded(len(text) + (times if count < 0 else min(times, count)) * len(new))
    return text.replace(old, new, count)


def _replaced_size(sizes: Sequence[int]) -> int:
    text, old, new = sizes[:3]
    return text if new <= old else text + (text // max(old, 1) + 1) * new


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    if count < 0 or count >= len(text):
        return list(text)
    return [*text[: count - 1], text[count - 1 :]]


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise Failed(f"index out of range: {start}")
    if not 0 <= end <= len(text):
        raise Failed(f"index out of range: {end}")
    if start > end:
        raise Failed(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


def _join(texts: list[Any], separator: str = "") -> str:
    if not all(isinstance(one, str) for one in texts):
        raise Failed("no such overload")
    _bounded(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


_QUOTES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def quoted(text: str) -> str:
    """The text in double quotes, with what needs it escaped."""
    return '"' + "".join(_QUOTES.get(char, char) for char in text) + '"'


def _format(text: str, args: list[Any]) -> str:
    parts: list[str] = []
    rest, room = iter(args), [MAX_TEXT]
    position = 0
    while True:
        percent = text.find("%", position)
        if percent < 0:
            parts.append(text[position:])
            return "".join(parts)
        parts.append(text[position:percent])
        position = percent + 1
        digits = ""
        if text[position : position + 1] == ".":
            end = position + 1
            while text[end : end + 1].isdecimal() and end - position <= 4:
                end += 1
            digits, position = text[position + 1 : end], end
        letter = text[position : position + 1]
        position += 1
        if letter == "%":
            parts.append("%")
            continue
        precision = int(digits) if digits else 6
        parts.append(_formatted(letter, rest, min(precision, _MAX_PRECISION), room))


def _formatted(letter: str, rest: Any, precision: int, room: list[int]) -> str:
    form = _FORMS.get(letter)
    if form is None and letter != "s":
        raise Failed(
            f'could not parse formatting clause: unrecognized formatting clause "{letter}"'
        )
    try:
        value = next(rest)
    except StopIteration:
        raise Failed("index out of range") from None
    return form(value, precision) if form is not None else _shown(value, room)


def _shown(value: Any, room: list[int]) -> str:
    # As `%s` prints it; `room` is how many characters are left.
    room[0] -= len(value) if isinstance(value, str | bytes | list | dict) else 1
    if room[0] < 0:
        raise CostExceeded
    if isinstance(value, list):
        return f"[{', '.join(_shown(one, room) for one in value)}]"
    if isinstance(value, dict):
        entries = sorted((_shown(key, room), one) for key, one in value.items())
        return "{" + ", ".join(f"{key}: {_shown(one, room)}" for key, one in entries) + "}"
    if isinstance(value, TypeValue):
        return value.name
    show = _SHOWN.get(type(value))
    if show is None:
        raise Failed(f"string clause can only be used on strings, bools, ..., was given "
                     f"{v.type_name(value)}")  # fmt: skip
    return show(value)


_SHOWN: dict[type, Callable[[Any], str]] = {
    str: str, bool: lambda one: "true" if one else "false", int: str,
    UInt: lambda one: str(int(one)),
    float: v.double_text, bytes: lambda one: one.decode("utf-8", "replace"),
    type(None): lambda _: "null", v.Timestamp: v.time_text, Duration: v.duration_text,
}  # fmt: skip


def _whole(value: Any, form: str) -> str:
    if not isinstance(value, int) or (isinstance(value, bool) and form != "b"):
        raise Failed(f"integer clause can only be used on integers, was given {v.type_name(value)}")
    return format(int(value), form)


def _hex(value: Any, form: str) -> str:
    if isinstance(value, str | bytes):
        raw = value.encode() if isinstance(value, str) else value
        return raw.hex() if form == "x" else raw.hex().upper()
    return _whole(value, form)


def _real(value: Any, form: str) -> str:
    if not v.is_number(value):
        raise Failed(f"fixed-point clause can only be used on doubles, was given "
                     f"{v.type_name(value)}")  # fmt: skip
    number = float(value)
    if math.isnan(number) or math.isinf(number):
        return {True: "NaN"}.get(number != number, "∞" if number > 0 else "-∞")
    return format(number, form)


_FORMS: dict[str, Callable[[Any, int], str]] = {
    "d": lambda value, _: _whole(value, "d"),
    "f": lambda value, precision: _real(value, f".{precision}f"),
    "e": lambda value, precision: _real(value, f".{precision}e"),
    "b": lambda value, _: _whole(value, "b"),
    "o": lambda value, _: _whole(value, "o"),
    "x": lambda value, _: _hex(value, "x"),
    "X": lambda value, _: _hex(value, "X"),
}


def _find(text: str, pattern: str) -> str:
    found = _matcher(pattern).search(text)
    return str(found.group()) if found is not None else ""


def _find_all(text: str, pattern: str, count: int = -1) -> list[str]:
    found: list[str] = []
    if count == 0:
        return found
    for one in _matcher(pattern).finditer(text):
        found.append(one.group())
        if len(found) == count:
            break
    return found


def _matcher(pattern: str) -> Any:
    try:
        return linear_regex.compile_pattern(pattern)
    except linear_regex.InvalidPattern as error:
        raise Failed(f"Illegal regex: {error}") from None


def _is_sorted(values: list[Any]) -> bool:
    return all(v.compare(one, other) <= 0 for one, other in itertools.pairwise(values))


def _sum(zero: Any, plus: Callable[[Any, Any], Any]) -> Callable[[list[Any]], Any]:
    return lambda values: functools.reduce(plus, values, zero)


def _extreme(name: str, sign: int) -> Callable[[list[Any]], Any]:
    def run(values: list[Any]) -> Any:
        if not values:
            raise Failed(f"{name} called on empty list")
        best = values[0]
        for one in values:
            if v.compare(one, best) * sign > 0:
                best = one
        return best

    return run


def _place(charge: v.Charge, values: list[Any], wanted: Any) -> int:
    found = (place for place, one in enumerate(values) if v.equal(one, wanted, charge))
    return next(found, -1)


def _last_place(charge: v.Charge, values: list[Any], wanted: Any) -> int:
    place = _place(charge, values[::-1], wanted)
    return len(values) - 1 - place if place >= 0 else -1


def _of_lists(result: str, run: Callable[[list[Any]], Any]) -> list[Row]:
    return [(f"list({kind}).() {result or kind}", run, f.items) for kind in _ORDERED]


def _has_all(charge: v.Charge, values: list[Any], wanted: list[Any]) -> bool:
    return all(_place(charge, values, one) >= 0 for one in wanted)


FUNCTIONS: Table = {
    "charAt": [("string.(int) string", _char_at, f.flat, f.size_one)],
    "indexOf": [
        ("string.(string) int", str.find, f.both),
        ("string.(string, int) int", lambda t, p, o: t.find(p, _offset(t, o)), f.both),
        ("list(A).(A) int", v.metered(_place), f.items),
    ],
    "lastIndexOf": [
        ("string.(string) int", str.rfind, f.both),
        ("string.(string, int) int", _last_index, f.both),
        ("list(A).(A) int", v.metered(_last_place), f.items),
    ],
    "lowerAscii": [("string.() string", lambda t: t.translate(_LOWER), f.first, f.size_first)],
    "upperAscii": [("string.() string", lambda t: t.translate(_UPPER), f.first, f.size_first)],
    "trim": [("string.() string", lambda t: t.strip(_SPACE), f.first, f.size_first)],
    "replace": [
        ("string.(string, string) string", _replace, f.twice, _replaced_size),
        ("string.(string, string, int) string", _replace, f.twice, _replaced_size),
    ],
    "split": [
        ("string.(string) list(string)", _split, f.twice, f.size_first),
        ("string.(string, int) list(string)", _split, f.twice, f.size_first),
    ],
    "substring": [
        ("string.(int) string", _substring, f.first, f.size_first),
        ("string.(int, int) string", _substring, f.first, f.size_first),
    ],
    "join": [
        ("list(string).() string", _join, f.items, lambda s: s[0] * 16),
        ("list(string).(string) string", _join, f.items, lambda s: s[0] * (s[1] + 16)),
    ],
    "format": [("string.(list(dyn)) string", _format, f.both, lambda s: s[0] * 2 + s[1] * 64)],
    "strings.quote": [("(string) string", quoted, f.first, lambda s: s[0] * 2 + 2)],
    "find": [("string.(string) string", _find, f.pattern, f.size_first)],
    "findAll": [
        ("string.(string) list(string)", _find_all, f.pattern, f.size_first),
        ("string.(string, int) list(string)", _find_all, f.pattern, f.size_first),
    ],
    "isSorted": _of_lists("bool", _is_sorted),
    "min": _of_lists("", _extreme("min", -1)),
    "max": _of_lists("", _extreme("max", 1)),
    "sum": [
        ("list(int).() int", _sum(0, lambda a, b: v.int_of(a + b)), f.items),
        ("list(uint).() uint", _sum(UInt(0), lambda a, b: v.uint_of(int(a) + int(b))), f.items),
        ("list(double).() double", _sum(0.0, lambda a, b: a + b), f.items),
        (
            "list(duration).() duration",
            _sum(Duration(0), lambda a, b: v.duration_of(a.ns + b.ns)),
            f.items,
        ),
    ],
    "sets.contains": [("(list(A), list(A)) bool", v.metered(_has_all), f.product)],
    "sets.intersects": [
        (
            "(list(A), list(A)) bool",
            v.metered(lambda c, one, other: any(_place(c, one, item) >= 0 for item in other)),
            f.product,
        )
    ],
    "sets.equivalent": [
        (
            "(list(A), list(A)) bool",
            v.metered(lambda c, one, other: _has_all(c, one, other) and _has_all(c, other, one)),
            lambda sizes: 2 * sizes[0] * sizes[1],
        )
    ],
}
