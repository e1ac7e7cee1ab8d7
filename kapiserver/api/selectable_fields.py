"""What field selectors see of an object: its selectable fields as texts.

An extractor is compiled once per resource and run once per object revision. Most fields are the
value at their own path; a group's `fields.py` names a function for those that are not. Mirrors
the GetAttrs functions of pkg/registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kapiserver.api.accessors import name_of, namespace_of, value_at
from kapiserver.api.group import Resource
from kapiserver.api.types import Tree

Extractor: TypeAlias = Callable[[Tree], Mapping[str, str]]
"""Selectable fields of one object, in the hub version."""
Source: TypeAlias = Callable[[Tree], str]
"""One selectable field of one object."""


def extractor(resource: Resource, sources: Mapping[tuple[str, str], Source]) -> Extractor:
    """Compile the extraction; `sources` is keyed by resource name and field."""
    found = [
        (name, sources.get((resource.name, name)) or _at_path(name))
        for name in resource.selectable_fields
    ]
    if resource.namespaced:
        return lambda obj: {
            "metadata.name": name_of(obj),
            "metadata.namespace": namespace_of(obj),
            **{name: source(obj) for name, source in found},
        }
    return lambda obj: {
        "metadata.name": name_of(obj),
        **{name: source(obj) for name, source in found},
    }


def text_of(value: Any) -> str:
    """A scalar as Go's strconv writes it; nothing is the empty text."""
    if value is None:
        return ""
    if value is True or value is False:
        return "true" if value else "false"
    return str(value)


def _at_path(name: str) -> Source:
    path = name.split(".")
    return lambda obj: text_of(value_at(obj, *path))
