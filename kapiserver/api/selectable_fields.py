"""Selectable fields: the fields of an object that field selectors can test, as strings.

An extractor is compiled once per resource and run once per object revision. Most selectable fields
are the value at their own path; a group's `selectable_fields.py` has functions for the others.
Mirrors the GetAttrs functions of pkg/registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kapiserver.api.accessors import name_of, namespace_of, value_at
from kapiserver.api.group import Resource
from kapiserver.api.types import Tree

Extractor: TypeAlias = Callable[[Tree], Mapping[str, str]]
"""Returns the selectable fields of an object in the hub version."""
Source: TypeAlias = Callable[[Tree], str]
"""Returns one selectable field of an object."""


def extractor(resource: Resource, sources: Mapping[tuple[str, str], Source]) -> Extractor:
    """Compile the extractor of a resource; `sources` is keyed by resource name and field."""
    fields = [
        (name, sources.get((resource.name, name)) or _at_path(name))
        for name in resource.selectable_fields
    ]
    if resource.namespaced:
        return lambda obj: {
            "metadata.name": name_of(obj),
            "metadata.namespace": namespace_of(obj),
            **{name: source(obj) for name, source in fields},
        }
    return lambda obj: {
        "metadata.name": name_of(obj),
        **{name: source(obj) for name, source in fields},
    }


def text_of(value: Any) -> str:
    """Format a scalar as Go's strconv does; None is the empty string."""
    if value is None:
        return ""
    if value is True or value is False:
        return "true" if value else "false"
    return str(value)


def _at_path(name: str) -> Source:
    path = name.split(".")
    return lambda obj: text_of(value_at(obj, *path))
