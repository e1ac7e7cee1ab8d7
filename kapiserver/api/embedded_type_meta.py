"""Whole objects within an object, which name their kind in answers, though not on the wire.

The claims that a stateful set makes of its templates are such: kube-apiserver has their kind and
apiVersion in every answer and in nothing that it stores. Mirrors the functions of
pkg/apis/apps/v1/conversion.go.
"""

from __future__ import annotations

import functools
from typing import TypeAlias

from kapiserver.api.types import Field, ListOf, Message, Tree, Type

Steps: TypeAlias = tuple[tuple[str, ...], Field]
"""The way through structs to a list of objects that name themselves, and its field."""


def with_type_meta(field: Field, obj: Tree) -> Tree:
    """An object of such a list, named; whatever it called itself."""
    assert isinstance(field.shape, ListOf)
    assert isinstance(field.shape.item, Message)
    kind = field.shape.item.type.__name__
    rest = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
    return {"kind": kind, "apiVersion": field.options.item_api_version, **rest}


def add_type_meta(type_: type[Type], tree: Tree) -> None:
    """Name the objects within an object of a type, in place."""
    found: type = type_
    for (*steps, last), field in _embedded(found):
        at: Tree = tree
        for step in steps:
            at = at.get(step) or {}
        if at.get(last):
            at[last] = [with_type_meta(field, one) for one in at[last]]


@functools.cache
def _embedded(type_: type) -> tuple[Steps, ...]:
    found: list[Steps] = []
    _search(type_, (), (), found)
    return tuple(found)


def _search(
    type_: type[Type], above: tuple[type, ...], path: tuple[str, ...], found: list[Steps]
) -> None:
    for flat in type_.flat_fields():
        field, shape = flat.field, flat.field.shape
        if field.options.item_api_version:
            found.append(((*path, field.name), field))
        elif isinstance(shape, Message) and shape.type not in above:
            _search(shape.type, (*above, type_), (*path, field.name), found)
