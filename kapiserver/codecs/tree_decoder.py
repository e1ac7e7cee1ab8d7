"""Decodes a JSON-shaped value into the canonical tree of a kind, declared or custom.

`codecs/struct_decoder.py` decodes declared types, `codecs/custom_object_decoder.py` custom kinds.
Knows no bytes and no kind by name.
"""

from __future__ import annotations

import contextlib
from typing import Any

import orjson

from kapiserver.api.accessors import copy_tree
from kapiserver.api.custom_kinds import CustomKind
from kapiserver.api.quantity import Quantity
from kapiserver.api.scalar_types import (
    Duration,
    FieldsV1,
    IntOrString,
    MicroTime,
    StringList,
    Time,
)
from kapiserver.api.types import (
    Kind,
    ListOf,
    MapOf,
    Message,
    Scalar,
    ScalarType,
    Shape,
    Tree,
    Type,
    Value,
    cached_in_type,
)
from kapiserver.codecs.errors import Malformed
from kapiserver.codecs.limits import MAX_DEPTH
from kapiserver.codecs.struct_decoder import message_type, struct_decoder


def decode_tree(type_: type[Type], value: Value, unknown: list[str]) -> Tree:
    """Decode a value as a type. The tree of a kind begins with `kind` and `apiVersion`.

    unknown     the paths of the first hundred unknown fields are appended, such as
                `spec.containers[0].foo`

    The tree of a custom kind has its keys in the order of the value, and shares nothing with it.

    Raises WrongValue with Go's message, Malformed if a recursive type is nested too deep.
    """
    if not type_.declares_fields:
        value = copy_tree(value)
    return decode_owned_tree(type_, value, unknown)


def decode_owned_tree(type_: type[Type], value: Value, unknown: list[str]) -> Tree:
    """Decode a value like `decode_tree`. The tree may share parts with the value."""
    if issubclass(type_, CustomKind):
        from kapiserver.codecs.custom_object_decoder import (
            decode_custom_object,  # imported late: most servers have no custom kinds
        )

        return decode_custom_object(type_, value, unknown)
    try:
        tree: Tree = struct_decoder(type_)(value, None, unknown)
    except RecursionError:
        raise Malformed("exceeded max depth") from None
    if is_recursive(type_):
        check_depth(tree)
    if issubclass(type_, Kind) and not ("kind" in tree and "apiVersion" in tree):
        tree = {"kind": tree.pop("kind", ""), "apiVersion": tree.pop("apiVersion", ""), **tree}
    return tree


def check_depth(tree: Tree) -> None:
    """Raise Malformed if a tree is nested deeper than MAX_DEPTH."""
    # orjson, a hundred times faster, encodes 254 levels: the tree, and the lists around it.
    with contextlib.suppress(orjson.JSONEncodeError):
        orjson.dumps([[[[tree]]]])
        return
    level: list[Any] = [tree]
    for _ in range(MAX_DEPTH):
        children: list[Any] = []
        for item in level:
            children.extend(item.values() if isinstance(item, dict) else item)
        level = [item for item in children if isinstance(item, dict | list)]
        if not level:
            return
    raise Malformed("exceeded max depth")


@cached_in_type
def is_strictly_typed(type_: type[Type]) -> bool:
    """Whether trees of a type have no free JSON and no floating-point numbers. Decoding such a tree
    copies it, except the sets of managed fields, which nobody changes."""
    types, pending = {type_}, [type_]
    while pending:
        shapes = [_value_shape(field.shape) for field in pending.pop().fields()]
        if any(isinstance(shape, Scalar) and shape.name in ("double", "any") for shape in shapes):
            return False
        nested = {shape.type for shape in shapes if isinstance(shape, Message)} - types
        nested -= {
            nested_type for nested_type in nested if issubclass(nested_type, _STRICT_SCALARS)
        }
        if any(issubclass(nested_type, ScalarType) for nested_type in nested):
            return False
        types |= nested
        pending += nested
    return True


_STRICT_SCALARS = (Duration, FieldsV1, IntOrString, MicroTime, Quantity, StringList, Time)


def _value_shape(shape: Shape) -> Shape:
    """Return the shape of the values in a list, a map, or a map of lists."""
    while isinstance(shape, ListOf | MapOf):
        shape = shape.item if isinstance(shape, ListOf) else shape.value
    return shape


@cached_in_type
def is_recursive(type_: type[Type]) -> bool:
    """Whether a type contains itself, so that its trees can have any depth."""
    stack: list[Any] = [(type_, frozenset())]
    while stack:
        current, ancestors = stack.pop()
        if current in ancestors:
            return True
        nested_types = {message_type(field.shape) for field in current.fields()} - {None}
        stack.extend((nested, ancestors | {current}) for nested in nested_types)
    return False
