"""Dropping the fields of a custom object that its schema does not know.

Knows no defaults and no rules. Mirrors
k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning.
"""

from __future__ import annotations

from kapiserver.api.apiextensions.structural import Structural
from kapiserver.api.types import Tree, Value

_META = frozenset(("apiVersion", "kind", "metadata"))
_TOLD = 100
"""How many unknown fields of one object are named."""
_NONE: frozenset[str] = frozenset()


def prune(value: Tree, structural: Structural, unknown: list[str]) -> None:
    """Drop unknown fields of a whole object, in place; their paths are added to `unknown`."""
    found = (
        _skip(value, structural, _META) if structural.preserves else _map(value, structural, _META)
    )
    unknown.extend(found or ())


def prune_value(value: Value, node: Structural) -> list[str]:
    """Drop unknown fields of a value that is part of an object, in place; returns their paths."""
    return _prune(value, node) or []


# Paths are put together on the way back, so that an object without unknown fields pays nothing.


def _prune(value: Value, node: Structural | None) -> list[str] | None:
    if isinstance(value, dict):
        if node is None:
            return _empty(value)
        kept = _META if node.embedded else _NONE
        return _skip(value, node, kept) if node.preserves else _map(value, node, kept)
    if isinstance(value, list):
        if node is not None and node.preserves:
            return _skip_list(value, node)
        return _list(value, node.items if node is not None else None)
    return None


def _map(value: Tree, node: Structural, kept: frozenset[str]) -> list[str] | None:
    properties = node.properties
    found: list[str] | None = None
    dropped: list[str] | None = None
    for name, one in value.items():
        child = properties.get(name)
        if name in kept:
            continue
        if child is None:
            if not node.open:
                dropped = dropped or []
                dropped.append(name)
                continue
            child = node.values
        kind = type(one)
        if kind is dict or kind is list:
            below = _prune(one, child)
            if below and (found is None or len(found) < _TOLD):
                found = (found or []) + _below(name, below)
    if dropped is None:
        return found
    for name in dropped:
        del value[name]
    return (found or []) + dropped[:_TOLD]


def _skip(value: Tree, node: Structural, kept: frozenset[str]) -> list[str] | None:
    # Nothing of this object is dropped; what its schema names is looked into.
    found: list[str] = []
    for name, one in value.items():
        if name in kept or not isinstance(one, dict | list):
            continue
        child = node.properties.get(name)
        if child is not None or node.open:
            below = _prune(one, child or node.values)
            if below and len(found) < _TOLD:
                found += _below(name, below)
    return found


def _skip_list(value: list[Value], node: Structural) -> list[str] | None:
    items = node.items
    if items is None:
        return None
    found: list[str] = []
    for index, one in enumerate(value):
        below: list[str] | None = None
        if isinstance(one, dict):
            below = _skip(one, items, _META if items.embedded else frozenset())
        elif isinstance(one, list):
            below = _skip_list(one, items)
        if below and len(found) < _TOLD:
            found += _below(f"[{index}]", below)
    return found


def _list(value: list[Value], items: Structural | None) -> list[str] | None:
    found: list[str] | None = None
    for index, one in enumerate(value):
        kind = type(one)
        if kind is dict or kind is list:
            below = _prune(one, items)
            if below and (found is None or len(found) < _TOLD):
                found = (found or []) + _below(f"[{index}]", below)
    return found


def _empty(value: Tree) -> list[str]:
    names = list(value)[:_TOLD]
    value.clear()
    return names


def _below(step: str, paths: list[str]) -> list[str]:
    return [step + path if path.startswith("[") else f"{step}.{path}" for path in paths[:_TOLD]]
