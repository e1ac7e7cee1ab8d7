"""Finds fields of stored objects that a new version of their definition does not have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from typing import Any

from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.checking.finding import WARNING, Problem, Steps
from kapiserver.checking.places import describe
from kapiserver.checking.rules.values import items_at, text_at
from kapiserver.checking.server import CheckServer, namespace_in

MAX_FIELDS = 100
"""Fields of one object that are named."""

_META = ("apiVersion", "kind", "metadata", "status")


async def lost_fields(
    server: CheckServer, definition: Tree, objects: Iterable[Tree]
) -> AsyncIterator[Problem]:
    """Yield a problem of the definition for each field of the objects that one of its served
    versions does not have. Objects of other kinds do not count."""
    group, kind = text_at(definition, "spec", "group"), text_at(definition, "spec", "names", "kind")
    for obj in objects:
        if obj["kind"] != kind or GroupVersion.parse(obj["apiVersion"]).group != group:
            continue
        for steps, version in items_at(definition, "spec", "versions"):
            name = text_at(version, "name")
            for path in await _lost_paths(server, obj, f"{group}/{name}"):
                field = ".".join(map(str, path))
                message = f"the version {name} loses {field} of {describe(obj)}"
                yield Problem(steps=steps, severity=WARNING, message=message, rule="lost-field")


async def _lost_paths(server: CheckServer, obj: Tree, version: str) -> list[Steps]:
    """Return the first MAX_FIELDS fields that an object loses in a version."""
    stored = await _stored(server, obj, version)
    return [] if stored is None else list(islice(_missing(obj, stored), MAX_FIELDS))


async def _stored(server: CheckServer, old: Tree, version: str) -> Tree | None:
    """Return the stored object in a version; None if it is not served or not there."""
    try:
        resource = server.resource_of(old | {"apiVersion": version})
    except NotRegistered:
        return None
    name = version.rpartition("/")[2]
    return await server.get(
        resource, name, namespace_in(old, resource), text_at(old, "metadata", "name")
    )


def _missing(old: Tree, stored: Tree) -> Iterator[Steps]:
    """Yield the steps to the values of an object that the stored one does not have."""
    for key, value in old.items():
        if key not in _META:
            yield from _missing_below((key,), value, stored.get(key))


def _missing_below(steps: Steps, value: Any, stored: Any) -> Iterator[Steps]:
    if stored is None and value is not None:
        yield steps
    elif isinstance(value, dict) and isinstance(stored, dict):
        for key, item in value.items():
            yield from _missing_below((*steps, key), item, stored.get(key))
    elif isinstance(value, list) and isinstance(stored, list):
        for index, item in enumerate(value):
            other = stored[index] if index < len(stored) else None
            yield from _missing_below((*steps, index), item, other)
