"""The kind and apiVersion of whole objects embedded in another object.

The volumeClaimTemplates of a StatefulSet are such objects: kube-apiserver writes their kind and
apiVersion in every response, but neither on the wire nor in storage. Mirrors the functions of
pkg/apis/apps/v1/conversion.go.
"""

from __future__ import annotations

from typing import TypeAlias

from kapiserver.api.types import Field, ListOf, Message, Tree, Type, cached_in_type

Steps: TypeAlias = tuple[tuple[str, ...], Field]
"""The path through structs to a list of embedded objects, and the field of the list."""


def with_type_meta(field: Field, obj: Tree) -> Tree:
    """Return an embedded object with the kind and apiVersion that the list's field declares."""
    assert isinstance(field.shape, ListOf)
    assert isinstance(field.shape.item, Message)
    kind = field.shape.item.type.__name__
    other_fields = {
        name: value for name, value in obj.items() if name not in ("kind", "apiVersion")
    }
    return {"kind": kind, "apiVersion": field.options.item_api_version, **other_fields}


def add_type_meta(type_: type[Type], tree: Tree) -> None:
    """Set kind and apiVersion of all objects embedded in an object of a type, in place."""
    for (*steps, last), field in _embedded(type_):
        parent: Tree = tree
        for step in steps:
            parent = parent.get(step) or {}
        if parent.get(last):
            parent[last] = [with_type_meta(field, item) for item in parent[last]]


@cached_in_type
def _embedded(type_: type[Type]) -> tuple[Steps, ...]:
    fields: list[Steps] = []
    _search(type_, (), (), fields)
    return tuple(fields)


def _search(
    type_: type[Type], ancestors: tuple[type, ...], path: tuple[str, ...], fields: list[Steps]
) -> None:
    for flat in type_.flat_fields():
        field, shape = flat.field, flat.field.shape
        if field.options.item_api_version:
            fields.append(((*path, field.name), field))
        elif isinstance(shape, Message) and shape.type not in ancestors:
            _search(shape.type, (*ancestors, type_), (*path, field.name), fields)
