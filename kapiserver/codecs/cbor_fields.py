"""Which parts of a tree CBOR looks at by their type: texts that are bytes, and free values.

Trees hold the fields that are declared as bytes in base64, as JSON does; CBOR says the bytes
themselves. Free values out of CBOR come sorted. Knows how to find both, and nothing of how they
are written. Mirrors what reflection tells the CBOR codec of k8s.io/apimachinery.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from kapiserver.api.custom_kinds import CustomKind
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion
from kapiserver.api.meta.v1 import Table
from kapiserver.api.runtime import Unknown
from kapiserver.api.scalar_types import FieldsV1, RawExtension
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import ListOf, MapOf, Message, Scalar, ScalarType, Shape, Tree, Type
from kapiserver.codecs.codegen import cached_per_type

_BYTES: Final = "bytes"
_UNTYPED: Final = "free"
_OBJECT: Final = "object"
_EACH: Final = "[]"
FieldPaths: TypeAlias = "Mapping[str, FieldPaths] | str"
"""Where what is looked for is in a value: it is it itself, it is an object of any kind, or by the
name of a field, `[]` standing for every item and every value. Empty: nowhere."""

_NO_PATHS: Mapping[str, FieldPaths] = MappingProxyType({})


def with_decoded_bytes(scheme: Scheme, obj: Tree) -> Tree:
    """The object with bytes in place of the base64 of its declared fields; itself where it has no
    such field. What is shared with it must not be changed."""
    try:
        kind = GroupVersion.parse(obj.get("apiVersion") or "").with_kind(obj.get("kind") or "")
        places = _byte_paths(scheme.type_of(kind))
    except (NotRegistered, ValueError):
        return obj

    def change(value: Any, mark: str) -> Any:
        if mark is _OBJECT:
            return with_decoded_bytes(scheme, value) if isinstance(value, dict) else value
        return _decode_base64(value)

    found: Tree = _map_values(obj, places, change) if places else obj
    return found


def map_untyped_values(type_: type[Type], tree: Tree, change: Callable[[Any], Any]) -> Tree:
    """The tree with something else in place of its free values, which are all but in types that
    hold themselves. What is shared with it must not be changed."""
    found: Tree = _map_values(tree, _untyped_paths(type_), lambda value, _: change(value))
    return found


def _map_values(value: Any, places: FieldPaths, change: Callable[[Any, str], Any]) -> Any:
    if isinstance(places, str):
        return change(value, places)
    if _EACH in places:
        inside = places[_EACH]
        if isinstance(value, list):
            return [_map_values(one, inside, change) for one in value]
        if isinstance(value, dict):
            return {name: _map_values(one, inside, change) for name, one in value.items()}
        return value
    if not isinstance(value, dict):
        return value
    changed = {
        name: _map_values(value[name], inside, change)
        for name, inside in places.items()
        if value.get(name)
    }
    return {**value, **changed} if changed else value


def _decode_base64(value: Any) -> Any:
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except (binascii.Error, ValueError, TypeError):
        return value  # nobody reads that: it goes out as it is


@cached_per_type
def _byte_paths(type_: type[Type]) -> Mapping[str, FieldPaths]:
    return _find_paths(type_, _byte_marker, frozenset())


@cached_per_type
def _untyped_paths(type_: type[Type]) -> Mapping[str, FieldPaths]:
    return _find_paths(type_, _untyped_marker, frozenset())


def _byte_marker(shape: Scalar | Message) -> str:
    return _BYTES if isinstance(shape, Scalar) and shape.name == "bytes" else ""


def _untyped_marker(shape: Scalar | Message) -> str:
    if isinstance(shape, Scalar):
        return _UNTYPED if shape.name == "any" else ""
    return _UNTYPED if issubclass(shape.type, RawExtension | FieldsV1 | Unknown) else ""


def _find_paths(
    type_: type[Type], mark: Callable[[Scalar | Message], str], above: frozenset[type[Type]]
) -> Mapping[str, FieldPaths]:
    # No type that holds itself (schemas do) has bytes.
    if type_ in above or issubclass(type_, CustomKind | ScalarType):
        return _NO_PATHS
    if type_ is Table and mark is _byte_marker:
        return {"rows": {_EACH: {"object": _OBJECT}}}

    def places_of(shape: Shape) -> FieldPaths:
        if isinstance(shape, ListOf | MapOf):
            inside = places_of(shape.item if isinstance(shape, ListOf) else shape.value)
            return {_EACH: inside} if inside else _NO_PATHS
        found = mark(shape)
        if not found and isinstance(shape, Message):
            return _find_paths(shape.type, mark, above | {type_})
        return found

    found = {flat.field.name: places_of(flat.field.shape) for flat in type_.flat_fields()}
    return {name: places for name, places in found.items() if places}
