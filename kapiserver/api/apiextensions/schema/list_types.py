"""Validation of lists of type set and map: their items or keys are unique.

Mirrors k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype.
"""

from __future__ import annotations

from collections.abc import Hashable

import orjson

from kapiserver.api.apiextensions.schema.structural import MAX_FINDINGS, Structural
from kapiserver.api.errors import FieldError, Path, duplicate, invalid
from kapiserver.api.go_format import go_map
from kapiserver.api.types import Tree, Value


def check(obj: Tree, structural: Structural, path: Path | None = None) -> list[FieldError]:
    """Return the errors of duplicates in an object's sets and maps."""
    return _check(obj, structural, path or Path()) if _has_lists(structural) else []


def check_update(new: Tree, old: Tree | None, structural: Structural) -> list[FieldError]:
    """Return the errors of duplicates in a written object; none if the old one has any."""
    errors = check(new, structural)
    return [] if errors and old is not None and check(old, structural) else errors


def _has_lists(node: Structural) -> bool:
    # Whether the node or one below it is a set or a map; computed once.
    cached: bool | None = node.compiled.get("list types")
    if cached is None:
        children = [
            child for child in (node.items, node.values, *node.properties.values()) if child
        ]
        cached = node.list_type in ("set", "map") or any(map(_has_lists, children))
        node.compiled["list types"] = cached
    return cached


def _fields(node: Structural) -> tuple[tuple[str, Structural], ...]:
    # The fields of an object that contain sets or maps.
    cached: tuple[tuple[str, Structural], ...] | None = node.compiled.get("list fields")
    if cached is None:
        fields = node.properties.items()
        cached = tuple((name, child) for name, child in fields if _has_lists(child))
        node.compiled["list fields"] = cached
    return cached


def _check(value: Value, node: Structural, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    if isinstance(value, dict):
        for name, child in _fields(node):
            if name in value:
                errors += _check(value[name], child, path / name)
        if node.values is not None and _has_lists(node.values):
            for name, item in value.items():
                if name not in node.properties:
                    errors += _check(item, node.values, path[name])
    elif isinstance(value, list):
        if node.list_type == "set":
            errors += _duplicates(value, value, path)
        elif node.list_type == "map":
            errors += _map_duplicates(value, node.map_keys, path)
        if node.items is not None and _has_lists(node.items):
            for index, item in enumerate(value):
                errors += _check(item, node.items, path[index])
    return errors


def _map_duplicates(value: list[Value], keys: tuple[str, ...], path: Path) -> list[FieldError]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            return [
                invalid(
                    path[index], go_map(item), "must be an object for an array of list-type map"
                )
            ]
    item_keys = [{key: item[key] for key in keys if key in item} if item else {} for item in value]
    return _duplicates(item_keys, item_keys, path)


def _duplicates(values: list[Value], values_in_errors: list[Value], path: Path) -> list[FieldError]:
    if len(values) < 2:
        return []
    counts: dict[Hashable, int] = {}
    errors = []
    for index, value in enumerate(values):
        key = identity(value)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] == 2:
            errors.append(duplicate(path[index], go_map(values_in_errors[index])))
            if len(errors) > MAX_FINDINGS:
                break
    return errors


def identity(value: Value) -> Hashable:
    """Return a key that is equal exactly for values that are equal in Go."""
    if isinstance(value, dict | list):
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return type(value), value
