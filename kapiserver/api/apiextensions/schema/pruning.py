"""Pruning: removing the unknown fields of a custom object.

Knows no defaults and no rules. Mirrors k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning.
"""

from __future__ import annotations

from kapiserver.api.apiextensions.schema.structural import Structural
from kapiserver.api.types import Tree, Value

_META = frozenset(("apiVersion", "kind", "metadata"))
_MAX_REPORTED = 100
"""The maximum number of unknown fields of an object that are reported."""
_NONE: frozenset[str] = frozenset()


def prune(value: Tree, structural: Structural, unknown: list[str]) -> None:
    """Remove the unknown fields of a whole object, in place, and add their paths to `unknown`."""
    paths = (
        _prune_nested(value, structural, _META)
        if structural.preserves
        else _prune_map(value, structural, _META)
    )
    unknown.extend(paths or ())


def prune_value(value: Value, node: Structural) -> list[str]:
    """Remove the unknown fields of a part of an object, in place, and return their paths."""
    return _prune(value, node) or []


# Paths are built on return, so that an object without unknown fields costs nothing.


def _prune(value: Value, node: Structural | None) -> list[str] | None:
    if isinstance(value, dict):
        if node is None:
            return _clear(value)
        always_kept = _META if node.embedded else _NONE
        return (
            _prune_nested(value, node, always_kept)
            if node.preserves
            else _prune_map(value, node, always_kept)
        )
    if isinstance(value, list):
        if node is not None and node.preserves:
            return _prune_nested_list(value, node)
        return _prune_list(value, node.items if node is not None else None)
    return None


def _prune_map(value: Tree, node: Structural, always_kept: frozenset[str]) -> list[str] | None:
    properties = node.properties
    paths: list[str] | None = None
    dropped: list[str] | None = None
    for name, item in value.items():
        child = properties.get(name)
        if name in always_kept:
            continue
        if child is None:
            if not node.open:
                dropped = dropped or []
                dropped.append(name)
                continue
            child = node.values
        kind = type(item)
        if kind is dict or kind is list:
            nested = _prune(item, child)
            if nested and (paths is None or len(paths) < _MAX_REPORTED):
                paths = (paths or []) + _with_prefix(name, nested)
    if dropped is None:
        return paths
    for name in dropped:
        del value[name]
    return (paths or []) + dropped[:_MAX_REPORTED]


def _prune_nested(value: Tree, node: Structural, always_kept: frozenset[str]) -> list[str] | None:
    # Keeps the unknown fields of this object, but prunes the values of known fields.
    paths: list[str] = []
    for name, item in value.items():
        if name in always_kept or not isinstance(item, dict | list):
            continue
        child = node.properties.get(name)
        if child is not None or node.open:
            nested = _prune(item, child or node.values)
            if nested and len(paths) < _MAX_REPORTED:
                paths += _with_prefix(name, nested)
    return paths


def _prune_nested_list(value: list[Value], node: Structural) -> list[str] | None:
    items = node.items
    if items is None:
        return None
    paths: list[str] = []
    for index, item in enumerate(value):
        nested: list[str] | None = None
        if isinstance(item, dict):
            nested = _prune_nested(item, items, _META if items.embedded else frozenset())
        elif isinstance(item, list):
            nested = _prune_nested_list(item, items)
        if nested and len(paths) < _MAX_REPORTED:
            paths += _with_prefix(f"[{index}]", nested)
    return paths


def _prune_list(value: list[Value], items: Structural | None) -> list[str] | None:
    paths: list[str] | None = None
    for index, item in enumerate(value):
        kind = type(item)
        if kind is dict or kind is list:
            nested = _prune(item, items)
            if nested and (paths is None or len(paths) < _MAX_REPORTED):
                paths = (paths or []) + _with_prefix(f"[{index}]", nested)
    return paths


def _clear(value: Tree) -> list[str]:
    names = list(value)[:_MAX_REPORTED]
    value.clear()
    return names


def _with_prefix(step: str, paths: list[str]) -> list[str]:
    return [
        step + path if path.startswith("[") else f"{step}.{path}" for path in paths[:_MAX_REPORTED]
    ]
