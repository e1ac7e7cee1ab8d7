"""From a JSON-shaped value to the canonical tree of a kind, declared or custom.

Knows no bytes and no kind by name; what a declared type says is read by `codecs/shape.py`, what a
custom kind's schema says by `codecs/custom_objects.py`.
"""

from __future__ import annotations

from typing import Any

from kapiserver.api.accessors import copy_tree
from kapiserver.api.custom_kinds import CustomKind
from kapiserver.api.types import Kind, Tree, Type, Value
from kapiserver.codecs.codegen import cached_per_type
from kapiserver.codecs.errors import Malformed
from kapiserver.codecs.limits import MAX_DEPTH
from kapiserver.codecs.struct_decoder import message_type, struct_decoder


def decode_tree(type_: type[Type], value: Value, unknown: list[str]) -> Tree:
    """Read a value as a type; the paths of unknown fields (`spec.containers[0].foo`) are appended
    to `unknown`, the first hundred of them. The tree of a kind begins with `kind` and
    `apiVersion`, empty where they are not said.

    The tree of a custom kind has copies of what it takes over, in no order of its own.

    Raises WrongValue in the words of Go, Malformed when a type nests in itself too deep.
    """
    if issubclass(type_, CustomKind):
        value = copy_tree(value)
    return decode_owned_tree(type_, value, unknown)


def decode_owned_tree(type_: type[Type], value: Value, unknown: list[str]) -> Tree:
    """The same of a value that nobody else holds: the tree may be made of its parts."""
    if issubclass(type_, CustomKind):
        from kapiserver.codecs.custom_object_decoder import (
            decode_custom_object,  # most servers have no such kind
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
    """Raise Malformed when a tree is nested deeper than MAX_DEPTH."""
    level: list[Any] = [tree]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for one in level:
            below.extend(one.values() if isinstance(one, dict) else one)
        level = [one for one in below if isinstance(one, dict | list)]
        if not level:
            return
    raise Malformed("exceeded max depth")


@cached_per_type
def is_recursive(type_: type[Type]) -> bool:
    """Whether trees of the type can be of any depth."""
    open_: list[Any] = [(type_, frozenset())]
    while open_:
        now, above = open_.pop()
        if now in above:
            return True
        inner = {message_type(field.shape) for field in now.fields()} - {None}
        open_.extend((one, above | {now}) for one in inner)
    return False
