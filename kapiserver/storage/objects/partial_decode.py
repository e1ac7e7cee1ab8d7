"""Types reduced to a few of their fields: a decoder for them reads these and skips the rest.

Knows type declarations, no bytes and no kind.
"""

from __future__ import annotations

import functools
from typing import Any

from kapiserver.api.types import Field, Message, Type, annotation

SELECTABLE_METADATA = ("metadata.name", "metadata.namespace", "metadata.labels")
"""The metadata fields that selectors read."""


def partial_type(type_: type[Type], paths: tuple[str, ...]) -> type[Type]:
    """Return the type with only the fields at these paths, and everything below them. If a path
    names no field, its value is computed from others: its first segment is included whole."""
    key: Any = type_
    return _projection(key, paths)


@functools.cache  # shared by all servers of the process
def _projection(type_: type[Type], paths: tuple[str, ...]) -> type[Type]:
    paths_by_field: dict[str, set[str]] = {}
    for path in paths:
        first, _, rest = path.partition(".")
        paths_by_field.setdefault(first, set()).add(rest)
    return _cut(type_, paths_by_field)


def _cut(type_: type[Type], paths_by_field: dict[str, set[str]]) -> type[Type]:
    annotations: dict[str, object] = {}
    namespace: dict[str, object] = {"__annotations__": annotations, "__module__": type_.__module__}
    for field in type_.fields():
        inner_paths = paths_by_field.get(field.name)
        if field.number is None or inner_paths is None:
            continue
        namespace[field.attribute] = field.options
        annotations[field.attribute] = _annotation(field, inner_paths)
    return type(f"Selectable{type_.__name__}", (Type,), namespace)


def _annotation(field: Field, inner_paths: set[str]) -> object:
    if "" in inner_paths or not isinstance(field.shape, Message):
        return annotation(field)
    inner = field.shape.type
    names = {flat.field.name for flat in inner.flat_fields()}
    deeper: dict[str, set[str]] = {}
    for path in inner_paths:
        first, _, rest = path.partition(".")
        if first not in names:
            return annotation(field)
        deeper.setdefault(first, set()).add(rest)
    cut = _cut(inner, deeper)
    return cut | None if field.pointer else cut
