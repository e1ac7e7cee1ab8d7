"""Which texts of a tree are bytes, for CBOR, which has a type of its own for them.

Trees hold the fields that are declared as bytes in base64, as JSON does; CBOR says the bytes
themselves. Knows how to find those fields, and nothing of how they are written. Mirrors what
reflection tells the CBOR codec of k8s.io/apimachinery about []byte.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from kapiserver.api.custom_kind import CustomKind
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion
from kapiserver.api.meta.v1 import Table
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Leaf, ListOf, MapOf, Message, Shape, Tree, Type
from kapiserver.codecs.source import once_per_type

_BYTES: Final = "bytes"
_OBJECT: Final = "object"
_EACH: Final = "[]"
Places: TypeAlias = "Mapping[str, Places] | str"
"""Where bytes are in a value: it is bytes itself, it is an object of any kind, or by the name of a
field, `[]` standing for every item and every value. Empty: nowhere."""

_NOWHERE: Mapping[str, Places] = MappingProxyType({})


def with_bytes(scheme: Scheme, obj: Tree) -> Tree:
    """The object with bytes in place of the base64 of its declared fields; itself where it has no
    such field. What is shared with it must not be changed."""
    try:
        kind = GroupVersion.parse(obj.get("apiVersion") or "").with_kind(obj.get("kind") or "")
        places = _places(scheme.type_of(kind))
    except (NotRegistered, ValueError):
        return obj
    found: Tree = _replaced(scheme, obj, places) if places else obj
    return found


def _replaced(scheme: Scheme, value: Any, places: Places) -> Any:
    if isinstance(places, str):
        if places is _BYTES:
            return _plain_bytes(value)
        return with_bytes(scheme, value) if isinstance(value, dict) else value
    if _EACH in places:
        inside = places[_EACH]
        if isinstance(value, list):
            return [_replaced(scheme, one, inside) for one in value]
        if isinstance(value, dict):
            return {name: _replaced(scheme, one, inside) for name, one in value.items()}
        return value
    if not isinstance(value, dict):
        return value
    changed = {
        name: _replaced(scheme, value[name], inside)
        for name, inside in places.items()
        if value.get(name)
    }
    return {**value, **changed} if changed else value


def _plain_bytes(value: Any) -> Any:
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except (binascii.Error, ValueError, TypeError):
        return value  # nobody reads that: it goes out as it is


@once_per_type
def _places(type_: type[Type]) -> Mapping[str, Places]:
    return _places_below(type_, frozenset())


def _places_below(type_: type[Type], above: frozenset[type[Type]]) -> Mapping[str, Places]:
    # No type that holds itself (schemas do) has bytes.
    if type_ in above or issubclass(type_, CustomKind | Leaf):
        return _NOWHERE
    if type_ is Table:
        return {"rows": {_EACH: {"object": _OBJECT}}}
    inside = above | {type_}
    found = {flat.field.name: _places_of(flat.field.shape, inside) for flat in type_.flat_fields()}
    return {name: places for name, places in found.items() if places}


def _places_of(shape: Shape, above: frozenset[type[Type]]) -> Places:
    if isinstance(shape, ListOf | MapOf):
        inside = _places_of(shape.item if isinstance(shape, ListOf) else shape.value, above)
        return {_EACH: inside} if inside else _NOWHERE
    if isinstance(shape, Message):
        return _places_below(shape.type, above)
    return _BYTES if shape.name == "bytes" else _NOWHERE
