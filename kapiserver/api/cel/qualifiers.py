"""Qualifiers: the parts of a value that `value.field`, `value[key]` and optional selection give.

The checker knows the parts of a typed value; a dynamic value may be anything. A list has items, a
map has entries, and every other value, such as null or a number, has no part at all: `has` and
optional selection treat its parts as absent, plain selection fails. A key that no list accepts
fails in all forms. Mirrors interpreter/attributes.go of github.com/google/cel-go.
"""

from __future__ import annotations

from typing import Any

from kapiserver.api.cel import values as v
from kapiserver.api.cel.values import NONE, EvaluationError, Optional

_ABSENT = object()
KEYS = (bool, str, int, float)
"""The types of keys."""
_GO_TYPES = {
    type(None): "types.Null", bytes: "types.Bytes", v.Timestamp: "types.Timestamp",
    v.Duration: "types.Duration",
}  # fmt: skip


def qualify(value: Any, key: Any) -> Any:
    """Return a part of a value; an Optional if the value is an Optional. Raises EvaluationError."""
    if isinstance(value, Optional):
        return qualify_if_present(value, key)
    part = _part(value, key)
    if part is not _ABSENT:
        return part
    problem = "index out of bounds" if isinstance(value, list) else "no such key"
    raise EvaluationError(f"{problem}: {_text(key)}")


def qualify_if_present(value: Any, key: Any) -> Optional:
    """Return a part of a value, or of the value that an Optional holds, as an Optional. Raises
    EvaluationError for a key that the value does not accept."""
    if isinstance(value, Optional):
        if not value.has_value:
            return NONE
        value = value.value
    part = _part(value, key)
    return NONE if part is _ABSENT else Optional(part)


def _part(value: Any, key: Any) -> Any:
    if not isinstance(key, KEYS):
        name = _GO_TYPES.get(type(key), v.type_name(key))
        raise EvaluationError(f"invalid qualifier type: {name}")
    if isinstance(value, list):
        return _item(value, key)
    return value.get(key, _ABSENT) if isinstance(value, dict) else _ABSENT


def _item(items: list[Any], index: Any) -> Any:
    if not v.is_number(index):
        raise EvaluationError(f"unsupported index type '{v.type_name(index)}' in list")
    if isinstance(index, float) and not index.is_integer():
        raise EvaluationError(f"unsupported index value {_text(index)} in list")
    return items[int(index)] if 0 <= index < len(items) else _ABSENT


def _text(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return v.double_text(key) if isinstance(key, float) else str(key)
