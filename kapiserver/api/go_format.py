"""Formatting of JSON-shaped values as Go's `%v` prints them in kube-apiserver's messages.

Knows no type and no kind. Mirrors package fmt.
"""

from __future__ import annotations

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
        return f"{value:g}"
    return str(value)


def plain_text(text: str) -> str:
    """Replace each byte that is not UTF-8 (possible in CBOR) by U+FFFD, as Go's JSON encoder
    does."""
    return text if text.isascii() else text.translate(_SURROGATES)


_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


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
