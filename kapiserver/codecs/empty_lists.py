"""Finds the empty lists of a tree that its Protobuf message cannot hold.

A repeated field of a message is absent when it has no items. Reading it back gives null where
Go's struct has no `omitempty`, as kube-apiserver shows an object that it decoded from storage.
Knows no wire format.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from kapiserver.api.types import (
    ListOf,
    MapOf,
    Message,
    ScalarType,
    Tree,
    Type,
    cached_in_type,
)


class _Fields(Struct, frozen=True):
    """The fields of a type that are, or contain, lists without `omitempty`.

    lists       names of such lists
    structs     names and types of structs that contain some
    repeated    names and types of the items of lists that contain some
    """

    lists: tuple[str, ...]
    structs: tuple[tuple[str, _Fields], ...]
    repeated: tuple[tuple[str, _Fields], ...]


@cached_in_type
def empty_list_finder(type_: type[Type]) -> Callable[[Tree], bool] | None:
    """Return a function that reports whether a tree of the type has an empty list that a message
    cannot hold; None if the type has no such lists. No map of structs and no recursive struct of
    the API has such lists."""
    fields = _fields_of(type_, ())
    return None if fields is None else lambda tree: _has_empty_list(tree, fields)


def _fields_of(type_: type[Type], ancestors: tuple[type[Type], ...]) -> _Fields | None:
    lists: list[str] = []
    structs: list[tuple[str, _Fields]] = []
    repeated: list[tuple[str, _Fields]] = []
    for flat in type_.flat_fields():
        name, shape = flat.field.name, flat.field.shape
        if isinstance(shape, ListOf) and flat.field.options.always:
            lists.append(name)
        nested = shape.item if isinstance(shape, ListOf) else shape
        if isinstance(nested, Message) and _may_contain_lists(nested.type, ancestors):
            fields = _fields_of(nested.type, (*ancestors, type_))
            if fields is not None:
                (repeated if isinstance(shape, ListOf) else structs).append((name, fields))
        assert not (isinstance(shape, MapOf) and flat.field.options.always), name
    if not (lists or structs or repeated):
        return None
    return _Fields(tuple(lists), tuple(structs), tuple(repeated))


def _may_contain_lists(type_: type[Type], ancestors: tuple[type[Type], ...]) -> bool:
    return not issubclass(type_, ScalarType) and type_ not in ancestors


def _has_empty_list(tree: Tree, fields: _Fields) -> bool:
    for name in fields.lists:
        if tree.get(name) == []:
            return True
    for name, nested in fields.structs:
        struct = tree.get(name)
        if struct and _has_empty_list(struct, nested):
            return True
    for name, nested in fields.repeated:
        for item in tree.get(name) or ():
            if _has_empty_list(item, nested):
                return True
    return False
