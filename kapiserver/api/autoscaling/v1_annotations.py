"""The annotations in which autoscaling/v1 carries what it has no field for.

Metrics, their readings and conditions are v1's JSON; behavior is the JSON of Kubernetes' internal
struct: Go's field names, nothing left out. What does not read is ignored, as kube-apiserver does.
Mirrors pkg/apis/autoscaling annotations and the reading rules of encoding/json.
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
_PYTHON: dict[str, type] = {"string": str, "bool": bool, "int32": int, "int64": int}


def dump(value: Value) -> str:
    """A tree as Go's json.Marshal writes it."""
    text = orjson.dumps(value).decode()
    for one, escape in _ESCAPES:
        text = text.replace(one, escape)
    return text


def dump_internal(type_: type[Type], tree: Tree) -> str:
    """A tree as Go writes a struct without JSON tags."""
    return dump(_go_struct(type_, tree))


def _go_struct(type_: type[Type], tree: Tree) -> Tree:
    found = {}
    for field in type_.fields():
        name = field.name[0].upper() + field.name[1:]
        found[name] = _go_value(field.shape, tree.get(field.name))
    return found


def _go_value(shape: Shape, value: Value) -> Value:
    if value is None:
        return None
    if isinstance(shape, ListOf):
        return [_go_value(shape.item, one) for one in value]
    if isinstance(shape, Message) and not issubclass(shape.type, ScalarType):
        return _go_struct(shape.type, value)
    return value


def load(type_: type[Type], text: str) -> Tree:
    """One object of a type; empty for what is none."""
    return _read(text, Message(type_)) or {}


def load_list(type_: type[Type], text: str) -> list[Tree]:
    """Objects of a type; none for what is no list of them."""
    return _read(text, ListOf(Message(type_))) or []


def _read(text: str, shape: Shape) -> Any:
    try:
        return _value(shape, orjson.loads(text))
    except ValueError:
        return None


def _value(shape: Shape, value: Value) -> Value:
    match shape:
        case Scalar():
            return _scalar(shape, value)
        case Message() if issubclass(shape.type, ScalarType):
            return shape.type.canonical(value)
        case Message():
            return _object(shape.type, {} if value is None else value)
        case ListOf():
            if value is not None and not isinstance(value, list):
                raise ValueError("not a list")
            return [_value(shape.item, one) for one in value or ()]
        case MapOf():
            if value is not None and not isinstance(value, dict):
                raise ValueError("not an object")
            return {k: _value(shape.value, v) for k, v in sorted((value or {}).items())}


def _scalar(shape: Scalar, value: Value) -> Value:
    expected = _PYTHON[shape.name]
    if value is None:
        return expected()
    if type(value) is not expected:
        raise ValueError(f"not a {shape.name}")
    if shape.name == "int32" and value not in range(-(2**31), 2**31):
        raise ValueError("not an int32")
    return value


def _object(type_: type[Type], value: Value) -> Tree:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    given = {name.lower(): one for name, one in value.items()}  # Go's match ignores case
    fields: dict[str, Field] = {flat.field.name: flat.field for flat in type_.flat_fields()}
    found = {}
    for name, field in fields.items():
        one = given.get(name.lower())
        if one is not None:
            found[name] = _value(field.shape, one)
    return canonical_fields(fields, found)
