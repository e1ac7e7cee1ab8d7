"""How Go prints JSON-shaped values with `%v`, which kube-apiserver's messages show.

Knows no type and no kind. Mirrors package fmt.
"""

from __future__ import annotations

from kapiserver.api.types import Value

_LITERALS = {None: "<nil>", True: "true", False: "false"}


def go_value(value: Value) -> str:
    """The text of `fmt.Sprintf("%v", value)`: `map[a:1 b:[x y]]`."""
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
    """The text with U+FFFD for each byte that is none, out of CBOR, as Go's JSON shows it."""
    return text if text.isascii() else text.translate(_NO_TEXT)


_NO_TEXT = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


def go_type(value: Value) -> str:
    """The name Go's reflection gives the type of a decoded JSON value."""
    if isinstance(value, bool):
        return "bool"
    for kind, name in _TYPES:
        if isinstance(value, kind):
            return name
    return "%!s(<nil>)"


def json_type(value: Value) -> str:
    """What Go's JSON decoder calls a value in "cannot unmarshal ... into"."""
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
