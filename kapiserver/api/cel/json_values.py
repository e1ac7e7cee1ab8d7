"""Conversion of CEL values to JSON values, for objects that expressions construct.

Mirrors ConvertToNative of github.com/google/cel-go/common/types, and dynamic/objects.go of
k8s.io/apiserver/pkg/cel/mutation.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from kapiserver.api.cel import values as v
from kapiserver.api.cel.values import EvaluationError
from kapiserver.api.types import Value


def to_json(value: Any) -> Value:
    """Return the JSON value of a CEL value. Raises EvaluationError for a value that has none."""
    if isinstance(value, dict):
        return {_key(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [to_json(item) for item in value]
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, v.Timestamp):
        return v.time_text(value)
    if isinstance(value, v.Duration):
        return v.duration_text(value)
    raise EvaluationError(f"type conversion error from '{v.type_name(value)}' to JSON")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    raise EvaluationError(f"map key {key} is of type {v.type_name(key)}, not string")


def type_name_errors(value: Any, path: str = "") -> Iterator[str]:
    """Yield an error for each constructed object whose type is not named by the path of its field:
    `Object.spec` for the field `spec` of an `Object`. Lists and maps between them have no name."""
    if isinstance(value, v.StructValue):
        path = path or value.type_name
        if value.type_name != path:
            yield (
                f'unexpected type name "{value.type_name}", expected "{path}", which matches field '
                "name path from root Object type"
            )
        for name, item in value.items():
            yield from type_name_errors(item, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from type_name_errors(item, path)
    elif isinstance(value, dict):
        for item in value.values():
            yield from type_name_errors(item, path)
