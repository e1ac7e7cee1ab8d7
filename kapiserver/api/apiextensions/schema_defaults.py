"""Filling in what a custom object leaves out, by the defaults of its schema.

A null where null is no value is dropped, or gives way to the default. Knows no rules. Mirrors
k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting.
"""

from __future__ import annotations

from dataclasses import dataclass

from kapiserver.api.apiextensions.structural import Structural
from kapiserver.api.types import Tree, Value


def apply(value: Tree, structural: Structural) -> None:
    """Fill in defaults, in place."""
    _apply(value, structural)


def _apply(value: Value, node: Structural) -> None:
    if isinstance(value, dict):
        _apply_map(value, node)
    elif isinstance(value, list) and node.items is not None:
        _apply_list(value, node.items)


def _apply_list(value: list[Value], items: Structural) -> None:
    if items.default is not None and not items.nullable and None in value:
        value[:] = [copy_value(items.default) if one is None else one for one in value]
    if _is_container(items):
        for one in value:
            _apply(one, items)


def _apply_map(value: Tree, node: Structural) -> None:
    plan: _Plan = node.compiled.get("defaults") or _plan(node)
    for name, default in plan.defaults:
        if name not in value:
            value[name] = copy_value(default)
    if None in value.values():
        _drop_nulls(value, node)
    for name, child in plan.containers:
        if name in value:
            _apply(value[name], child)
    if plan.values is not None:
        for name, one in value.items():
            if name not in node.properties:
                _apply(one, plan.values)


def _drop_nulls(value: Tree, node: Structural) -> None:
    for name in [name for name, one in value.items() if one is None]:
        child = node.field(name)
        if child is None or child.nullable:
            continue
        if child.default is None:
            del value[name]
        else:
            value[name] = copy_value(child.default)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which fields have defaults, and in which there can be others.

    values  the schema of a map's values, where there can be defaults or nulls in them
    """

    defaults: tuple[tuple[str, Value], ...]
    containers: tuple[tuple[str, Structural], ...]
    values: Structural | None


def _plan(node: Structural) -> _Plan:
    fields = node.properties.items()
    values = node.values if node.values is not None and _is_container(node.values) else None
    plan = node.compiled["defaults"] = _Plan(
        tuple((name, child.default) for name, child in fields if child.default is not None),
        tuple((name, child) for name, child in fields if _is_container(child)),
        values,
    )
    return plan


def _is_container(node: Structural) -> bool:
    schema = node.schema
    return any(schema.get(name) for name in ("properties", "items", "additionalProperties"))


def copy_value(value: Value) -> Value:
    """A copy that may be changed."""
    if isinstance(value, dict):
        return {name: copy_value(one) for name, one in value.items()}
    if isinstance(value, list):
        return [copy_value(one) for one in value]
    return value
