"""Conversion of JSON values to CEL values by their type, and equality of list types.

Expressions work on the tree itself. A string of type timestamp, duration or bytes, or an int of
type double, is converted when an expression reads it. Mirrors
k8s.io/apiserver/pkg/cel/common/values.go.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from kapiserver.api.cel import values as v
from kapiserver.api.cel.cel_types import CelType
from kapiserver.api.cel.values import Charge, EvaluationError

Convert: TypeAlias = Callable[[Any], Any]
Equality: TypeAlias = Callable[[Any, Any, Charge], bool]


def converter(cel_type: CelType) -> Convert | None:
    """Return the converter of JSON values of a type; None if no conversion is needed."""
    convert = _SCALAR_CONVERTERS.get(cel_type.name)
    if convert is not None:
        return convert
    if cel_type.name == "list":
        return _list_converter(converter(cel_type.params[0]))
    return _map_converter(converter(cel_type.params[1])) if cel_type.name == "map" else None


def _list_converter(inner: Convert | None) -> Convert | None:
    if inner is None:
        return None
    return lambda value: [inner(item) for item in value] if isinstance(value, list) else value


def _map_converter(inner: Convert | None) -> Convert | None:
    if inner is None:
        return None

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: inner(item) for key, item in value.items()}

    return convert


def _bytes(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise EvaluationError("illegal base64 data") from None


_SCALAR_CONVERTERS: dict[str, Convert] = {
    "timestamp": lambda value: v.parse_time(value) if isinstance(value, str) else value,
    "duration": lambda value: v.parse_duration(value) if isinstance(value, str) else value,
    "bytes": _bytes,
    "double": lambda value: float(value) if type(value) is int else value,
}


def list_type_equality(cel_type: CelType) -> Equality | None:
    """Return the equality of a type that contains lists of type set or map; None if it contains
    none."""
    if cel_type.name == "list":
        inner = list_type_equality(cel_type.params[0])
        if cel_type.list_type == "set":
            return _sets_equal
        if cel_type.list_type == "map":
            return _maps_equal(cel_type.keys, inner or v.equal)
        return _lists_equal(inner) if inner else None
    if cel_type.name == "map":
        values = list_type_equality(cel_type.params[1])
        return _objects_equal(lambda _: values) if values is not None else None
    field_equality = {
        cel_type.names.get(name, name): list_type_equality(field_type)
        for name, field_type in cel_type.fields.items()
    }
    if not any(field_equality.values()):
        return None
    return _objects_equal(lambda name: field_equality.get(name) or v.equal)


def _sets_equal(left: Any, right: Any, charge: Charge) -> bool:
    if not isinstance(left, list) or not isinstance(right, list) or len(left) != len(right):
        return v.equal(left, right, charge)
    charge(len(left) + len(right))
    identities = {_identity(item) for item in left}
    return all(_identity(item) in identities for item in right)


def _maps_equal(keys: tuple[str, ...], inner: Equality) -> Equality:
    def are_equal(left: Any, right: Any, charge: Charge) -> bool:
        if not isinstance(left, list) or not isinstance(right, list) or len(left) != len(right):
            return v.equal(left, right, charge)
        charge(len(left) + len(right))
        left_by_key = {_key(item, keys): item for item in left}
        return all(
            _key(item, keys) in left_by_key and inner(left_by_key[_key(item, keys)], item, charge)
            for item in right
        )

    return are_equal


def _lists_equal(inner: Equality) -> Equality:
    def are_equal(left: Any, right: Any, charge: Charge) -> bool:
        if not isinstance(left, list) or not isinstance(right, list) or len(left) != len(right):
            return v.equal(left, right, charge)
        charge(len(left))
        return all(inner(a, b, charge) for a, b in zip(left, right, strict=True))

    return are_equal


def _objects_equal(inner: Callable[[str], Equality]) -> Equality:
    def are_equal(left: Any, right: Any, charge: Charge) -> bool:
        if not isinstance(left, dict) or not isinstance(right, dict) or left.keys() != right.keys():
            return v.equal(left, right, charge)
        charge(len(left))
        return all(inner(name)(value, right[name], charge) for name, value in left.items())

    return are_equal


def concatenate(cel_type: CelType, left: list[Any], right: list[Any], charge: Charge) -> list[Any]:
    """Return `left + right` of sets or maps: items of `right` are added, or replace those with
    their key."""
    charge(len(left) + len(right))
    identify = _identity if cel_type.list_type == "set" else lambda item: _key(item, cel_type.keys)
    items = {identify(item): item for item in left}
    items.update({identify(item): item for item in right})
    return list(items.values())


def _key(item: Any, keys: tuple[str, ...]) -> Hashable:
    if not isinstance(item, dict):
        return None
    return tuple(_identity(item.get(key)) for key in keys)


def _identity(value: Any) -> Hashable:
    if isinstance(value, list):
        return tuple(map(_identity, value))
    if isinstance(value, dict):
        return frozenset((key, _identity(item)) for key, item in value.items())
    return type(value), value
