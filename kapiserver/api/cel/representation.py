"""How JSON values are what expressions take them for, by their kinds.

A tree is handed to expressions as it is; where a kind says that a text is a time, a duration or
bytes, or a number a double, it becomes one when an expression reaches it. Mirrors
k8s.io/apiserver/pkg/cel/common/values.go.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from kapiserver.api.cel import values as v
from kapiserver.api.cel.cel_types import CelType
from kapiserver.api.cel.values import Charge, Failed

Convert: TypeAlias = Callable[[Any], Any]
Alike: TypeAlias = Callable[[Any, Any, Charge], bool]


def converter(kind: CelType) -> Convert | None:
    """What makes a JSON value one of the kind; None where it is one already."""
    found = _LEAVES.get(kind.name)
    if found is not None:
        return found
    if kind.name == "list":
        return _list_converter(converter(kind.params[0]))
    return _map_converter(converter(kind.params[1])) if kind.name == "map" else None


def _list_converter(inner: Convert | None) -> Convert | None:
    if inner is None:
        return None
    return lambda value: [inner(one) for one in value] if isinstance(value, list) else value


def _map_converter(inner: Convert | None) -> Convert | None:
    if inner is None:
        return None

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: inner(one) for key, one in value.items()}

    return convert


def _bytes(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise Failed("illegal base64 data") from None


_LEAVES: dict[str, Convert] = {
    "timestamp": lambda value: v.parse_time(value) if isinstance(value, str) else value,
    "duration": lambda value: v.parse_duration(value) if isinstance(value, str) else value,
    "bytes": _bytes,
    "double": lambda value: float(value) if type(value) is int else value,
}


def unordered(kind: CelType) -> Alike | None:
    """How values of a kind are compared that has sets or maps as lists; None where it has none."""
    if kind.name == "list":
        inner = unordered(kind.params[0])
        if kind.list_type == "set":
            return _alike_sets
        if kind.list_type == "map":
            return _alike_maps(kind.keys, inner or v.equal)
        return _alike_lists(inner) if inner else None
    if kind.name == "map":
        values = unordered(kind.params[1])
        return _alike_objects(lambda _: values) if values is not None else None
    below = {kind.names.get(name, name): unordered(one) for name, one in kind.fields.items()}
    if not any(below.values()):
        return None
    return _alike_objects(lambda name: below.get(name) or v.equal)


def _alike_sets(one: Any, other: Any, charge: Charge) -> bool:
    if not isinstance(one, list) or not isinstance(other, list) or len(one) != len(other):
        return v.equal(one, other, charge)
    charge(len(one) + len(other))
    known = {_identity(item) for item in one}
    return all(_identity(item) in known for item in other)


def _alike_maps(keys: tuple[str, ...], inner: Alike) -> Alike:
    def alike(one: Any, other: Any, charge: Charge) -> bool:
        if not isinstance(one, list) or not isinstance(other, list) or len(one) != len(other):
            return v.equal(one, other, charge)
        charge(len(one) + len(other))
        known = {_key(item, keys): item for item in one}
        return all(
            _key(item, keys) in known and inner(known[_key(item, keys)], item, charge)
            for item in other
        )

    return alike


def _alike_lists(inner: Alike) -> Alike:
    def alike(one: Any, other: Any, charge: Charge) -> bool:
        if not isinstance(one, list) or not isinstance(other, list) or len(one) != len(other):
            return v.equal(one, other, charge)
        charge(len(one))
        return all(inner(a, b, charge) for a, b in zip(one, other, strict=True))

    return alike


def _alike_objects(inner: Callable[[str], Alike]) -> Alike:
    def alike(one: Any, other: Any, charge: Charge) -> bool:
        if not isinstance(one, dict) or not isinstance(other, dict) or one.keys() != other.keys():
            return v.equal(one, other, charge)
        charge(len(one))
        return all(inner(name)(value, other[name], charge) for name, value in one.items())

    return alike


def merged(kind: CelType, one: list[Any], other: list[Any], charge: Charge) -> list[Any]:
    """`one + other` of sets or maps: items of `other` that are new, or stand for one of the key."""
    charge(len(one) + len(other))
    tell = _identity if kind.list_type == "set" else lambda item: _key(item, kind.keys)
    found = {tell(item): item for item in one}
    found.update({tell(item): item for item in other})
    return list(found.values())


def _key(item: Any, keys: tuple[str, ...]) -> Hashable:
    if not isinstance(item, dict):
        return None
    return tuple(_identity(item.get(key)) for key in keys)


def _identity(value: Any) -> Hashable:
    if isinstance(value, list):
        return tuple(map(_identity, value))
    if isinstance(value, dict):
        return frozenset((key, _identity(one)) for key, one in value.items())
    return type(value), value
