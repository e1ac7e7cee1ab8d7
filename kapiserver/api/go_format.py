"""Formats JSON-shaped values as Go does: `%v`, `%q` and JSON, in messages and in documents.

Knows no type and no kind. Mirrors packages fmt, strconv and encoding/json.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from kapiserver.api.types import Value

_LITERALS = {None: "<nil>", True: "true", False: "false"}


def go_value(value: Value) -> str:
    """Format a value as `fmt.Sprintf("%v", value)` does: `map[a:1 b:[x y]]`."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return _LITERALS[value]
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_value(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_value, value))}]"
    if isinstance(value, float):
        return _shortest_float(value)
    return str(value)


def _shortest_float(value: float) -> str:
    """Format a finite float as `%v` does: with an exponent below 1e-4 and from 1e6."""
    number = decimal.Decimal(repr(value)).normalize()
    if number and not -4 <= number.adjusted() < 6:
        digits, _, exponent = f"{number:e}".partition("e")
        return f"{digits}e{exponent[0]}{exponent[1:].rjust(2, '0')}"
    return f"{number:f}"


def go_syntax(value: Value) -> str:
    """Format a value of type interface{} as `fmt.Sprintf("%#v", value)` does."""
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, dict):
        members = (f"{quote(name)}:{go_syntax(value[name])}" for name in sorted(value))
        return f"map[string]interface {{}}{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(go_syntax, value))}}}"
    return go_value(value)


def quote(text: str) -> str:
    """Format a text as `%q` does (strconv.Quote); lone surrogates stand for bytes that are not
    UTF-8."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_quoted_character, text))}"'


_ESCAPES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def _quoted_character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def join_errors(messages: Iterable[str]) -> str:
    """Join error messages as the Aggregate of k8s.io/apimachinery does: each message once, in
    brackets if there are several."""
    distinct = list(dict.fromkeys(messages))
    return f"[{', '.join(distinct)}]" if len(distinct) > 1 else "".join(distinct)


def json_text(value: Any) -> str:
    """Format a value as json.Marshal does: without spaces, with `<`, `>`, `&` and the line
    separators of Unicode escaped."""
    if isinstance(value, dict):
        members = (f"{json_text(name)}:{json_text(item)}" for name, item in value.items())
        return f"{{{','.join(members)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(json_text, value))}]"
    if isinstance(value, str):
        return orjson.dumps(replace_surrogates(value)).decode().translate(HTML_ESCAPES)
    if isinstance(value, float):
        return format_float(value)
    return _JSON_LITERALS[value] if value is None or isinstance(value, bool) else str(value)


_JSON_LITERALS = {None: "null", True: "true", False: "false"}


def go_map(value: Value) -> Value:
    """Return a copy with the keys of all objects sorted, as Go writes a value without a type."""
    if isinstance(value, dict):
        return {name: go_map(value[name]) for name in sorted(value)}
    return [go_map(item) for item in value] if isinstance(value, list) else value


HTML_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
"""Characters that Go's JSON encoder escapes although JSON does not require it."""


def replace_surrogates(text: str) -> str:
    """Replace each lone surrogate, which stands for a byte that is not UTF-8, by U+FFFD, as Go's
    JSON encoder does."""
    return text if text.isascii() else text.translate(_SURROGATES)


_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


def format_float(value: float) -> str:
    """Format a finite float as Go does: without an exponent from 1e-6 to 1e21, without `.0`."""
    if value == 0:
        return "-0" if str(value).startswith("-") else "0"
    if 1e-6 <= abs(value) < 1e21:
        return _without_exponent(value)
    digits, _, exponent = repr(value).partition("e")
    digits = digits.removesuffix(".0")
    if not exponent:
        digits, _, exponent = f"{value:.17e}".partition("e")
    sign = exponent[0] if exponent[0] in "+-" else "+"
    return f"{digits}e{sign}{exponent.lstrip('+-').lstrip('0')}"


def _without_exponent(value: float) -> str:
    text = repr(value)
    if "e" not in text:
        return text.removesuffix(".0")
    digits, _, exponent = text.partition("e")
    sign = "-" if digits.startswith("-") else ""
    integer, _, fraction = digits.lstrip("-").partition(".")
    shift = int(exponent)
    if shift < 0:
        return f"{sign}0.{'0' * (-shift - len(integer))}{integer}{fraction}"
    return f"{sign}{(integer + fraction).ljust(len(integer) + shift, '0')}"


def go_type(value: Value) -> str:
    """Return the name that Go's reflection gives to the type of a decoded JSON value."""
    if isinstance(value, bool):
        return "bool"
    for kind, name in _TYPES:
        if isinstance(value, kind):
            return name
    return "%!s(<nil>)"


def json_type(value: Value) -> str:
    """Return the name that Go's JSON decoder gives to a value in "cannot unmarshal ... into"."""
    if isinstance(value, bool):
        return "bool"
    for kind, name in _JSON_TYPES:
        if isinstance(value, kind):
            return name
    return "null"


_TYPES: tuple[tuple[type, str], ...] = (
    (str, "string"),
    (int, "int64"),
    (float, "float64"),
    (list, "[]interface {}"),
    (dict, "map[string]interface {}"),
)
_JSON_TYPES: tuple[tuple[type, str], ...] = (
    (str, "string"),
    (int, "number"),
    (float, "number"),
    (list, "array"),
    (dict, "object"),
)
