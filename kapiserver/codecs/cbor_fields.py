"""Finds the fields that CBOR encodes differently from JSON: byte fields and untyped values.

A tree holds byte fields in base64, as JSON does, and CBOR writes the bytes themselves. Untyped
values (RawExtension, FieldsV1, any JSON) are sorted when they are decoded from CBOR. Finds both by
type; knows nothing of the encoding. Mirrors what the CBOR codec of k8s.io/apimachinery does by
reflection.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion
from kapiserver.api.meta.v1 import Table
from kapiserver.api.runtime import Unknown
from kapiserver.api.scalar_types import FieldsV1, RawExtension
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import (
    ListOf,
    MapOf,
    Message,
    Scalar,
    ScalarType,
    Shape,
    Tree,
    Type,
    cached_in_type,
)

_BYTES: Final = "bytes"
_UNTYPED: Final = "free"
_OBJECT: Final = "object"
_ITEMS: Final = "[]"
FieldPaths: TypeAlias = "Mapping[str, FieldPaths] | str"
"""The paths to the fields within a value: nested mappings by field name, `[]` for each item of a
list or value of a map. A string marks the field itself: its type, or an object of any kind."""

_NO_PATHS: Mapping[str, FieldPaths] = MappingProxyType({})


def with_decoded_bytes(scheme: Scheme, obj: Tree) -> Tree:
    """Return the object with its byte fields as `bytes`; the same object if it has none.

    The result shares its other parts with `obj`: change neither.
    """
    try:
        kind = GroupVersion.parse(obj.get("apiVersion") or "").with_kind(obj.get("kind") or "")
        paths = _byte_paths(scheme.type_of(kind))
    except (NotRegistered, ValueError):
        return obj

    def change(value: Any, marker: str) -> Any:
        if marker is _OBJECT:
            return with_decoded_bytes(scheme, value) if isinstance(value, dict) else value
        return _decode_base64(value)

    result: Tree = _map_values(obj, paths, change) if paths else obj
    return result


def map_untyped_values(type_: type[Type], tree: Tree, change: Callable[[Any], Any]) -> Tree:
    """Return the tree with `change` applied to its untyped values.

    The result shares its other parts with `tree`: change neither. Recursive types are not searched.
    """
    result: Tree = _map_values(tree, _untyped_paths(type_), lambda value, _: change(value))
    return result


def _map_values(value: Any, paths: FieldPaths, change: Callable[[Any, str], Any]) -> Any:
    if isinstance(paths, str):
        return change(value, paths)
    if _ITEMS in paths:
        item_paths = paths[_ITEMS]
        if isinstance(value, list):
            return [_map_values(item, item_paths, change) for item in value]
        if isinstance(value, dict):
            return {name: _map_values(item, item_paths, change) for name, item in value.items()}
        return value
    if not isinstance(value, dict):
        return value
    changed = {
        name: _map_values(value[name], item_paths, change)
        for name, item_paths in paths.items()
        if value.get(name)
    }
    return {**value, **changed} if changed else value


def _decode_base64(value: Any) -> Any:
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except (binascii.Error, ValueError, TypeError):
        return value  # not valid base64: written unchanged


@cached_in_type
def _byte_paths(type_: type[Type]) -> Mapping[str, FieldPaths]:
    return _find_paths(type_, _byte_marker, frozenset())


@cached_in_type
def _untyped_paths(type_: type[Type]) -> Mapping[str, FieldPaths]:
    return _find_paths(type_, _untyped_marker, frozenset())


def _byte_marker(shape: Scalar | Message) -> str:
    return _BYTES if isinstance(shape, Scalar) and shape.name == "bytes" else ""


def _untyped_marker(shape: Scalar | Message) -> str:
    if isinstance(shape, Scalar):
        return _UNTYPED if shape.name == "any" else ""
    return _UNTYPED if issubclass(shape.type, RawExtension | FieldsV1 | Unknown) else ""


def _find_paths(
    type_: type[Type],
    marker_of: Callable[[Scalar | Message], str],
    ancestors: frozenset[type[Type]],
) -> Mapping[str, FieldPaths]:
    # Recursive types (JSON schemas) have no byte fields.
    if type_ in ancestors or not type_.declares_fields or issubclass(type_, ScalarType):
        return _NO_PATHS
    if type_ is Table and marker_of is _byte_marker:
        return {"rows": {_ITEMS: {"object": _OBJECT}}}
    ancestors |= {type_}
    paths_by_name = {
        flat.field.name: _paths_in(flat.field.shape, marker_of, ancestors)
        for flat in type_.flat_fields()
    }
    return {name: paths for name, paths in paths_by_name.items() if paths}


def _paths_in(
    shape: Shape,
    marker_of: Callable[[Scalar | Message], str],
    ancestors: frozenset[type[Type]],
) -> FieldPaths:
    if isinstance(shape, ListOf | MapOf):
        item = shape.item if isinstance(shape, ListOf) else shape.value
        item_paths = _paths_in(item, marker_of, ancestors)
        return {_ITEMS: item_paths} if item_paths else _NO_PATHS
    marker = marker_of(shape)
    if not marker and isinstance(shape, Message):
        return _find_paths(shape.type, marker_of, ancestors)
    return marker
