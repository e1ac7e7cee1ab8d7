"""Extension libraries of CEL: strings, sets, lists and regular expressions.

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
from kapiserver.api.cel.values import CostExceeded, Duration, EvaluationError, TypeValue, UInt

MAX_TEXT = 1 << 24
"""The maximum length of a text that a function returns."""
_MAX_PRECISION = 1000
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_LOWER = str.maketrans(_ALPHABET.upper(), _ALPHABET)
_UPPER = str.maketrans(_ALPHABET, _ALPHABET.upper())
# The characters that Go's strings.TrimSpace trims.
_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_ORDERED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


def _check_size(size: int) -> None:
    if size > MAX_TEXT:
        raise CostExceeded


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise EvaluationError(f"index out of range: {index}")
    return text[index : index + 1]


def _offset(text: str, offset: int) -> int:
    if not 0 <= offset <= len(text):
        raise EvaluationError(f"index out of range: {offset}")
    return offset


def _last_index(text: str, part: str, offset: int) -> int:
    return text.rfind(part, 0, _offset(text, offset) + len(part))


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    times = len(text) // len(old) if old else len(text) + 1
    _check_size(len(text) + (times if count < 0 else min(times, count)) * len(new))
    return text.replace(old, new, count)


def _replace_size(sizes: Sequence[int]) -> int:
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
        raise EvaluationError(f"index out of range: {start}")
    if not 0 <= end <= len(text):
        raise EvaluationError(f"index out of range: {end}")
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


def _join(texts: list[Any], separator: str = "") -> str:
    if not all(isinstance(text, str) for text in texts):
        raise EvaluationError("no such overload")
    _check_size(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


_QUOTES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def quoted(text: str) -> str:
    """Return the text in double quotes, escaped."""
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
        parts.append(_format_clause(letter, rest, min(precision, _MAX_PRECISION), room))


def _format_clause(letter: str, rest: Any, precision: int, room: list[int]) -> str:
    form = _CLAUSES.get(letter)
    if form is None and letter != "s":
        raise EvaluationError(
            f'could not parse formatting clause: unrecognized formatting clause "{letter}"'
        )
    try:
        value = next(rest)
    except StopIteration:
        raise EvaluationError("index out of range") from None
    return form(value, precision) if form is not None else _format_string(value, room)


def _format_string(value: Any, room: list[int]) -> str:
    # Returns the value as `%s` prints it; `room` is the remaining number of characters.
    room[0] -= len(value) if isinstance(value, str | bytes | list | dict) else 1
    if room[0] < 0:
        raise CostExceeded
    if isinstance(value, list):
        return f"[{', '.join(_format_string(item, room) for item in value)}]"
    if isinstance(value, dict):
        entries = sorted((_format_string(key, room), item) for key, item in value.items())
        return (
            "{" + ", ".join(f"{key}: {_format_string(item, room)}" for key, item in entries) + "}"
        )
    if isinstance(value, TypeValue):
        return value.name
    format_value = _STRING_FORMATS.get(type(value))
    if format_value is None:
        raise EvaluationError(f"string clause can only be used on strings, bools, ..., was given "
                     f"{v.type_name(value)}")  # fmt: skip
    return format_value(value)


_STRING_FORMATS: dict[type, Callable[[Any], str]] = {
    str: str, bool: lambda value: "true" if value else "false", int: str,
    UInt: lambda value: str(int(value)),
    float: v.double_text, bytes: lambda value: value.decode("utf-8", "replace"),
    type(None): lambda _: "null", v.Timestamp: v.time_text, Duration: v.duration_text,
}  # fmt: skip


def _format_integer(value: Any, form: str) -> str:
    if not isinstance(value, int) or (isinstance(value, bool) and form != "b"):
        raise EvaluationError(
            f"integer clause can only be used on integers, was given {v.type_name(value)}"
        )
    return format(int(value), form)


def _format_hex(value: Any, form: str) -> str:
    if isinstance(value, str | bytes):
        raw = value.encode() if isinstance(value, str) else value
        return raw.hex() if form == "x" else raw.hex().upper()
    return _format_integer(value, form)


def _format_double(value: Any, form: str) -> str:
    if not v.is_number(value):
        raise EvaluationError(f"fixed-point clause can only be used on doubles, was given "
                     f"{v.type_name(value)}")  # fmt: skip
    number = float(value)
    if math.isnan(number) or math.isinf(number):
        return {True: "NaN"}.get(number != number, "∞" if number > 0 else "-∞")
    return format(number, form)


_CLAUSES: dict[str, Callable[[Any, int], str]] = {
    "d": lambda value, _: _format_integer(value, "d"),
    "f": lambda value, precision: _format_double(value, f".{precision}f"),
    "e": lambda value, precision: _format_double(value, f".{precision}e"),
    "b": lambda value, _: _format_integer(value, "b"),
    "o": lambda value, _: _format_integer(value, "o"),
    "x": lambda value, _: _format_hex(value, "x"),
    "X": lambda value, _: _format_hex(value, "X"),
}


def _find(charge: v.Charge, text: str, pattern: str) -> str:
    match = _charged_matcher(charge, text, pattern).search(text)
    part = "" if match is None else str(match.group())
    charge(len(part) // 10)  # as for each result of a function
    return part


def _find_all(charge: v.Charge, text: str, pattern: str, count: int = -1) -> list[str]:
    """Return all matches. Like Go, ignore an empty match next to the one before. Each match may
    read the rest of the text once more, as those of `a*b|` do, so it is charged for that."""
    matches: list[str] = []
    if count == 0:
        return matches
    matcher, end = _charged_matcher(charge, text, pattern), -1
    for match in matcher.finditer(text):
        charge(1 + (len(text) - match.end()) * matcher.size // f.REGEX_STEPS)
        if match.start() == match.end() == end:
            continue
        end = match.end()
        matches.append(match.group())
        if len(matches) == count:
            break
    return matches


def _charged_matcher(charge: v.Charge, text: str, pattern: str) -> linear_regex.Matcher:
    try:
        matcher = linear_regex.compile_pattern(pattern)
    except linear_regex.InvalidPattern as error:
        raise EvaluationError(f"Illegal regex: {error}") from None
    f.charge_regex(charge, text, pattern, matcher.size)
    return matcher


def _is_sorted(values: list[Any]) -> bool:
    return all(v.compare(left, right) <= 0 for left, right in itertools.pairwise(values))


def _sum(zero: Any, plus: Callable[[Any, Any], Any]) -> Callable[[list[Any]], Any]:
    return lambda values: functools.reduce(plus, values, zero)


def _extreme(name: str, sign: int) -> Callable[[list[Any]], Any]:
    def run(values: list[Any]) -> Any:
        if not values:
            raise EvaluationError(f"{name} called on empty list")
        best = values[0]
        for value in values:
            if v.compare(value, best) * sign > 0:
                best = value
        return best

    return run


def _index_of(charge: v.Charge, values: list[Any], item: Any) -> int:
    indices = (index for index, candidate in enumerate(values) if v.equal(candidate, item, charge))
    return next(indices, -1)


def _last_index_of(charge: v.Charge, values: list[Any], item: Any) -> int:
    index = _index_of(charge, values[::-1], item)
    return len(values) - 1 - index if index >= 0 else -1


def _list_method(result: str, run: Callable[[list[Any]], Any]) -> list[Row]:
    return [(f"list({kind}).() {result or kind}", run, f.cost_items) for kind in _ORDERED]


def _has_all(charge: v.Charge, values: list[Any], items: list[Any]) -> bool:
    return all(_index_of(charge, values, item) >= 0 for item in items)


FUNCTIONS: Table = {
    "charAt": [("string.(int) string", _char_at, f.cost_constant, f.size_one)],
    "indexOf": [
        ("string.(string) int", str.find, f.cost_both),
        ("string.(string, int) int", lambda t, p, o: t.find(p, _offset(t, o)), f.cost_both),
        ("list(A).(A) int", v.metered(_index_of), f.cost_items),
    ],
    "lastIndexOf": [
        ("string.(string) int", str.rfind, f.cost_both),
        ("string.(string, int) int", _last_index, f.cost_both),
        ("list(A).(A) int", v.metered(_last_index_of), f.cost_items),
    ],
    "lowerAscii": [("string.() string", lambda t: t.translate(_LOWER), f.cost_first, f.size_first)],
    "upperAscii": [("string.() string", lambda t: t.translate(_UPPER), f.cost_first, f.size_first)],
    "trim": [("string.() string", lambda t: t.strip(_SPACE), f.cost_first, f.size_first)],
    "replace": [
        ("string.(string, string) string", _replace, f.cost_first_twice, _replace_size),
        ("string.(string, string, int) string", _replace, f.cost_first_twice, _replace_size),
    ],
    "split": [
        ("string.(string) list(string)", _split, f.cost_first_twice, f.size_first),
        ("string.(string, int) list(string)", _split, f.cost_first_twice, f.size_first),
    ],
    "substring": [
        ("string.(int) string", _substring, f.cost_first, f.size_first),
        ("string.(int, int) string", _substring, f.cost_first, f.size_first),
    ],
    "join": [
        ("list(string).() string", _join, f.cost_items, lambda s: s[0] * 16),
        ("list(string).(string) string", _join, f.cost_items, lambda s: s[0] * (s[1] + 16)),
    ],
    "format": [("string.(list(dyn)) string", _format, f.cost_both, lambda s: s[0] * 2 + s[1] * 64)],
    "strings.quote": [("(string) string", quoted, f.cost_first, lambda s: s[0] * 2 + 2)],
    "find": [("string.(string) string", v.metered(_find), f.cost_pattern, f.size_first)],
    "findAll": [
        ("string.(string) list(string)", v.metered(_find_all), f.cost_pattern, f.size_first),
        ("string.(string, int) list(string)", v.metered(_find_all), f.cost_pattern, f.size_first),
    ],
    "isSorted": _list_method("bool", _is_sorted),
    "min": _list_method("", _extreme("min", -1)),
    "max": _list_method("", _extreme("max", 1)),
    "sum": [
        ("list(int).() int", _sum(0, lambda a, b: v.int_of(a + b)), f.cost_items),
        (
            "list(uint).() uint",
            _sum(UInt(0), lambda a, b: v.uint_of(int(a) + int(b))),
            f.cost_items,
        ),
        ("list(double).() double", _sum(0.0, lambda a, b: a + b), f.cost_items),
        (
            "list(duration).() duration",
            _sum(Duration(0), lambda a, b: v.duration_of(a.ns + b.ns)),
            f.cost_items,
        ),
    ],
    "sets.contains": [("(list(A), list(A)) bool", v.metered(_has_all), f.cost_product)],
    "sets.intersects": [
        (
            "(list(A), list(A)) bool",
            v.metered(
                lambda c, value, other: any(_index_of(c, value, item) >= 0 for item in other)
            ),
            f.cost_product,
        )
    ],
    "sets.equivalent": [
        (
            "(list(A), list(A)) bool",
            v.metered(
                lambda c, value, other: _has_all(c, value, other) and _has_all(c, other, value)
            ),
            lambda sizes: 2 * sizes[0] * sizes[1],
        )
    ],
}
