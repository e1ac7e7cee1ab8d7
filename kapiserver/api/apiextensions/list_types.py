"""Lists that are sets or maps: no item, and no key of one, is there twice.

Mirrors k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype.
"""

from __future__ import annotations

from collections.abc import Hashable

import orjson

from kapiserver.api.apiextensions.structural import MAX_FINDINGS, Structural
from kapiserver.api.errors import FieldError, Path, duplicate, invalid
from kapiserver.api.types import Tree, Value


def check(obj: Tree, structural: Structural, path: Path | None = None) -> list[FieldError]:
    """The duplicates in an object's sets and maps."""
    return _check(obj, structural, path or Path()) if _has_lists(structural) else []


def _has_lists(node: Structural) -> bool:
    # Whether the node, or one below it, is a set or a map; found out once.
    known: bool | None = node.compiled.get("list types")
    if known is None:
        below = [one for one in (node.items, node.values, *node.properties.values()) if one]
        known = node.list_type in ("set", "map") or any(map(_has_lists, below))
        node.compiled["list types"] = known
    return known


def _fields(node: Structural) -> tuple[tuple[str, Structural], ...]:
    # The fields of an object in which there are sets or maps.
    known: tuple[tuple[str, Structural], ...] | None = node.compiled.get("list fields")
    if known is None:
        fields = node.properties.items()
        known = tuple((name, child) for name, child in fields if _has_lists(child))
        node.compiled["list fields"] = known
    return known


def _check(value: Value, node: Structural, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    if isinstance(value, dict):
        for name, child in _fields(node):
            if name in value:
                found += _check(value[name], child, path / name)
        if node.values is not None and _has_lists(node.values):
            for name, one in value.items():
                if name not in node.properties:
                    found += _check(one, node.values, path[name])
    elif isinstance(value, list):
        if node.list_type == "set":
            found += _duplicates(value, value, path)
        elif node.list_type == "map":
            found += _map_duplicates(value, node.map_keys, path)
        if node.items is not None and _has_lists(node.items):
            for index, one in enumerate(value):
                found += _check(one, node.items, path[index])
    return found


def _map_duplicates(value: list[Value], keys: tuple[str, ...], path: Path) -> list[FieldError]:
    for index, one in enumerate(value):
        if one is not None and not isinstance(one, dict):
            return [invalid(path[index], one, "must be an object for an array of list-type map")]
    shown = [{key: one[key] for key in keys if key in one} if one else {} for one in value]
    return _duplicates(shown, shown, path)


def _duplicates(values: list[Value], shown: list[Value], path: Path) -> list[FieldError]:
    if len(values) < 2:
        return []
    times: dict[Hashable, int] = {}
    found = []
    for index, value in enumerate(values):
        key = identity(value)
        times[key] = times.get(key, 0) + 1
        if times[key] == 2:
            found.append(duplicate(path[index], shown[index]))
            if len(found) > MAX_FINDINGS:
                break
    return found


def identity(value: Value) -> Hashable:
    """Something equal for values that are equal in Go, and only for them."""
    if isinstance(value, dict | list):
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return type(value), value
