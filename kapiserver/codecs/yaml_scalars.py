"""Resolves unquoted YAML scalars, and tells which strings need quotes.

Follows YAML 1.1 as Go's yaml v2 does, which sigs.k8s.io/yaml uses: `yes`, `on` and `y` are
booleans, `010` is octal, `1_000` is a number, dates stay strings. Knows no document.
"""

from __future__ import annotations

import base64
import binascii
import re

from kapiserver.codecs.errors import Malformed

ScalarValue = str | int | float | bool | None

_KEYWORDS: dict[str, ScalarValue] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
MERGE_KEY = "<<"
_INT = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:(?:[Tt]| )[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_MAX_DIGITS = 400
_CORE_TAG_PREFIX = "tag:yaml.org,2002:"


def resolve(text: str) -> ScalarValue:
    """Return the value of an unquoted scalar without a tag. Dates stay strings."""
    if text in _KEYWORDS:
        return _KEYWORDS[text]
    if not text or text[0] not in "+-.0123456789" or _TIMESTAMP.fullmatch(text):
        return text
    digits = text.replace("_", "") if text[0] != "." else text
    if len(digits) > _MAX_DIGITS:
        return text
    if _INT.fullmatch(digits):
        value = _parse_integer(digits)
        if -(1 << 63) <= value < (1 << 64):
            return value
    if _FLOAT.fullmatch(digits):
        number = float(digits)
        return number if abs(number) != float("inf") else text
    return text


def resolve_tagged(tag: str, text: str) -> ScalarValue:
    """Return the value of a scalar with a tag. Raises Malformed if it is not of that type."""
    short = tag.removeprefix(_CORE_TAG_PREFIX)
    if short == "binary":
        try:
            return base64.b64decode(text).decode("utf-8", "surrogateescape")
        except (binascii.Error, ValueError):
            raise Malformed("yaml: !!binary value contains invalid base64 data") from None
    if short not in ("int", "float", "bool", "null"):
        return text
    value = resolve(text)
    if short == "float" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if _TAG_NAMES.get(type(value)) != short:
        raise Malformed(f"yaml: cannot decode !!{_tag_name(value)} `{text}` as a !!{short}")
    return value


def needs_quotes(text: str) -> bool:
    """Whether a string would be read as another type without quotes."""
    if text == MERGE_KEY or text in _KEYWORDS:
        return True
    if not text or text[0] not in "+-.0123456789":
        return False
    if _TIMESTAMP.fullmatch(text) or _BASE_60.fullmatch(text):
        return True
    return not isinstance(resolve(text), str)


_TAG_NAMES: dict[type, str] = {
    int: "int",
    float: "float",
    bool: "bool",
    type(None): "null",
    str: "str",
}


def _tag_name(value: ScalarValue) -> str:
    return _TAG_NAMES[type(value)]


def _parse_integer(text: str) -> int:
    sign = -1 if text[0] == "-" else 1
    digits = text.lstrip("+-").lower()
    if digits[:2] in ("0x", "0b", "0o"):
        return sign * int(digits[2:], {"x": 16, "b": 2, "o": 8}[digits[1]])
    if digits[0] == "0" and len(digits) > 1:
        return sign * int(digits, 8)
    return sign * int(digits)
