"""The annotations of autoscaling/v1 for fields that it lacks.

Metrics, their statuses and conditions are v1's JSON. Behavior is the JSON of Kubernetes' internal
struct: Go's field names, without omitted fields. Invalid annotations are ignored, as in
kube-apiserver. Mirrors pkg/apis/autoscaling annotations and the decoding rules of encoding/json.
"""

from __future__ import annotations

from typing import Any

import orjson

from kapiserver.api.conversion import canonical_fields
from kapiserver.api.types import (
    Field,
    ListOf,
    MapOf,
    Message,
    Scalar,
    ScalarType,
    Shape,
    Tree,
    Type,
    Value,
)

METRICS = "autoscaling.alpha.kubernetes.io/metrics"
CURRENT_METRICS = "autoscaling.alpha.kubernetes.io/current-metrics"
CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"

ALL = (METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR)

_ESCAPES = (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"))
_PYTHON_TYPES: dict[str, type] = {"string": str, "bool": bool, "int32": int, "int64": int}


def dump(value: Value) -> str:
    """Return a tree as Go's json.Marshal writes it."""
    text = orjson.dumps(value).decode()
    for character, escape in _ESCAPES:
        text = text.replace(character, escape)
    return text


def dump_internal(type_: type[Type], tree: Tree) -> str:
    """Return a tree as Go writes a struct without JSON tags."""
    return dump(_go_struct(type_, tree))


def _go_struct(type_: type[Type], tree: Tree) -> Tree:
    struct = {}
    for field in type_.fields():
        name = field.name[0].upper() + field.name[1:]
        struct[name] = _go_value(field.shape, tree.get(field.name))
    return struct


def _go_value(shape: Shape, value: Value) -> Value:
    if value is None:
        return None
    if isinstance(shape, ListOf):
        return [_go_value(shape.item, item) for item in value]
    if isinstance(shape, Message) and not issubclass(shape.type, ScalarType):
        return _go_struct(shape.type, value)
    return value


def load(type_: type[Type], text: str) -> Tree:
    """Return an object of a type, or an empty one if the text is invalid."""
    return _parse(text, Message(type_)) or {}


def load_list(type_: type[Type], text: str) -> list[Tree]:
    """Return a list of objects of a type, or an empty list if the text is invalid."""
    return _parse(text, ListOf(Message(type_))) or []


def _parse(text: str, shape: Shape) -> Any:
    try:
        return _decode(shape, orjson.loads(text))
    except ValueError:
        return None


def _decode(shape: Shape, value: Value) -> Value:
    match shape:
        case Scalar():
            return _decode_scalar(shape, value)
        case Message() if issubclass(shape.type, ScalarType):
            return shape.type.canonical(value)
        case Message():
            return _decode_object(shape.type, {} if value is None else value)
        case ListOf():
            if value is not None and not isinstance(value, list):
                raise ValueError("not a list")
            return [_decode(shape.item, item) for item in value or ()]
        case MapOf():
            if value is not None and not isinstance(value, dict):
                raise ValueError("not an object")
            return {k: _decode(shape.value, v) for k, v in sorted((value or {}).items())}


def _decode_scalar(shape: Scalar, value: Value) -> Value:
    expected = _PYTHON_TYPES[shape.name]
    if value is None:
        return expected()
    if type(value) is not expected:
        raise ValueError(f"not a {shape.name}")
    if shape.name == "int32" and value not in range(-(2**31), 2**31):
        raise ValueError("not an int32")
    return value


def _decode_object(type_: type[Type], value: Value) -> Tree:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    lowercase_values = {name.lower(): item for name, item in value.items()}  # as in Go
    fields: dict[str, Field] = {flat.field.name: flat.field for flat in type_.flat_fields()}
    result = {}
    for name, field in fields.items():
        field_value = lowercase_values.get(name.lower())
        if field_value is not None:
            result[name] = _decode(field.shape, field_value)
    return canonical_fields(fields, result)
