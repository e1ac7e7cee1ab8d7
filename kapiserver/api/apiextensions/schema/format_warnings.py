"""Warnings about a schema: formats that the server does not know.

Mirrors the warnings of k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import formats
from kapiserver.api.types import Tree

_NUMBER_FORMATS = {"integer": ("int32", "int64"), "number": ("float", "double")}
_ALTERNATIVES = ("allOf", "oneOf", "anyOf")


def warnings(new: Tree, old: Tree | None) -> list[str]:
    """Return the warnings about a definition; formats that the old one has are not reported
    again."""
    old_formats = set(_unknown_formats(old)) if old is not None else set()
    return [
        f'unrecognized format "{name}"'
        for name in dict.fromkeys(_unknown_formats(new))
        if name not in old_formats
    ]


def _unknown_formats(definition: Tree) -> Iterator[str]:
    for version in (definition.get("spec") or {}).get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is not None:
            yield from _unknown_formats_below(schema)


def _unknown_formats_below(schema: Tree) -> Iterator[str]:
    name, type_ = schema.get("format"), schema.get("type") or ""
    if name and not _is_known(name, type_):
        yield name
    for child in (schema.get("items"), schema.get("additionalProperties"), schema.get("not")):
        if isinstance(child, dict):
            yield from _unknown_formats_below(child)
    for child in (schema.get("properties") or {}).values():
        yield from _unknown_formats_below(child)
    for junction in _ALTERNATIVES:
        for child in schema.get(junction) or ():
            yield from _unknown_formats_below(child)


def _is_known(name: str, type_: str) -> bool:
    if type_ in ("", "string"):
        return name.replace("-", "") in formats.FORMATS
    return name in _NUMBER_FORMATS.get(type_, ())
