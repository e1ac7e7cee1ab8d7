"""What clients are warned of in a schema: formats that nothing is checked by.

Mirrors the warnings of k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import formats
from kapiserver.api.types import Tree

_OF_NUMBERS = {"integer": ("int32", "int64"), "number": ("float", "double")}
_LISTS = ("allOf", "oneOf", "anyOf")


def warnings(new: Tree, old: Tree | None) -> list[str]:
    """The warnings about a definition; of an old one's formats nothing is said again."""
    known = set(_unknown(old)) if old is not None else set()
    return [
        f'unrecognized format "{name}"'
        for name in dict.fromkeys(_unknown(new))
        if name not in known
    ]


def _unknown(definition: Tree) -> Iterator[str]:
    for version in (definition.get("spec") or {}).get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is not None:
            yield from _unknown_below(schema)


def _unknown_below(schema: Tree) -> Iterator[str]:
    name, kind = schema.get("format"), schema.get("type") or ""
    if name and not _is_known(name, kind):
        yield name
    for below in (schema.get("items"), schema.get("additionalProperties"), schema.get("not")):
        if isinstance(below, dict):
            yield from _unknown_below(below)
    for below in (schema.get("properties") or {}).values():
        yield from _unknown_below(below)
    for junction in _LISTS:
        for below in schema.get(junction) or ():
            yield from _unknown_below(below)


def _is_known(name: str, kind: str) -> bool:
    if kind in ("", "string"):
        return name.replace("-", "") in formats.FORMATS
    return name in _OF_NUMBERS.get(kind, ())
