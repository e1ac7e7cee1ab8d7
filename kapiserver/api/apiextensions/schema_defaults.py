"""Filling in what a custom object leaves out, by the defaults of its schema.

A null where null is no value is dropped, or gives way to the default. Knows no rules. Mirrors
k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting.
"""

from __future__ import annotations

from kapiserver.api.apiextensions.structural import Structural
from kapiserver.api.types import Tree, Value


def apply(value: Tree, structural: Structural) -> None:
    """Fill in defaults, in place."""
    _apply(value, structural)


def _apply(value: Value, node: Structural) -> None:
    if isinstance(value, dict):
        _apply_map(value, node)
    elif isinstance(value, list):
        items = node.items
        if items is None:
            return
        for index, one in enumerate(value):
            if one is None and not items.nullable and items.default is not None:
                one = value[index] = copied(items.default)
            kind = type(one)
            if kind is dict or kind is list:
                _apply(one, items)


def _apply_map(value: Tree, node: Structural) -> None:
    defaults: dict[str, Value] | None = node.compiled.get("defaults")
    if defaults is None:
        defaults = node.compiled["defaults"] = _defaults(node)
    properties, values = node.properties, node.values
    for name, default in defaults.items():
        if name not in value:
            value[name] = copied(default)
    nulls: list[str] | None = None
    for name, one in value.items():
        if one is None:
            nulls = nulls or []
            nulls.append(name)
            continue
        kind = type(one)
        if kind is dict or kind is list:
            child = properties.get(name) or values
            if child is not None:
                _apply(one, child)
    for name in nulls or ():
        child = properties.get(name) or values
        if child is None or child.nullable:
            continue
        if child.default is None:
            del value[name]
        else:
            value[name] = one = copied(child.default)
            _apply(one, child)


def _defaults(node: Structural) -> dict[str, Value]:
    return {
        name: child.default for name, child in node.properties.items() if child.default is not None
    }


def copied(value: Value) -> Value:
    """A copy that may be changed."""
    if isinstance(value, dict):
        return {name: copied(one) for name, one in value.items()}
    if isinstance(value, list):
        return [copied(one) for one in value]
    return value
