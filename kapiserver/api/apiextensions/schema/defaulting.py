"""Defaulting of custom objects by the defaults of their schema.

A null in a field that is not nullable is dropped or replaced by the default. Knows no rules.
Mirrors k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting.
"""

from __future__ import annotations

from msgspec import Struct

from kapiserver.api.apiextensions.schema.structural import Structural
from kapiserver.api.types import Tree, Value


def apply(value: Tree, structural: Structural) -> None:
    """Set the defaults of an object, in place."""
    _apply(value, structural)


def _apply(value: Value, node: Structural) -> None:
    if isinstance(value, dict):
        _apply_map(value, node)
    elif isinstance(value, list) and node.items is not None:
        _apply_list(value, node.items)


def _apply_list(value: list[Value], items: Structural) -> None:
    if items.default is not None and not items.nullable and None in value:
        value[:] = [copy_value(items.default) if item is None else item for item in value]
    if _has_children(items):
        for item in value:
            _apply(item, items)


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
        for name, item in value.items():
            if name not in node.properties:
                _apply(item, plan.values)


def _drop_nulls(value: Tree, node: Structural) -> None:
    for name in [name for name, item in value.items() if item is None]:
        child = node.field(name)
        if child is None or child.nullable:
            continue
        if child.default is None:
            del value[name]
        else:
            value[name] = copy_value(child.default)


_MAPS = bytes(range(0xA0, 0xC0)) + b"\xf6"
"""The first bytes of maps, and null, in CBOR."""


class DefaultSize(Struct, frozen=True):
    """How many values the defaults of a schema have.

    of_object   the defaults that each object gets once
    of_item     the defaults that each item of a list or map may get, at any depth
    """

    of_object: int
    of_item: int

    def cost(self, data: bytes) -> int:
        """Return the number of values that an object or a patch may get. Each of its maps and nulls
        may be an item."""
        if not self.of_item:
            return self.of_object
        if data[:1] in (b"{", b"["):
            items = data.count(b"{") + data.count(b"null")
        else:
            items = len(data) - len(data.translate(None, _MAPS))
        return self.of_object + items * self.of_item


def size(node: Structural) -> DefaultSize:
    """Return the size of the defaults of an object with that schema."""
    children = [size(child) for child in node.properties.values()]
    of_object = sum(child.of_object for child in children)
    of_object += sum(count_values(child.default) for child in node.properties.values())
    items = [item for item in (node.items, node.values) if item is not None]
    sizes = [size(item) for item in items]
    of_item = sum(child.of_item for child in children + sizes)
    of_item += sum(item.of_object for item in sizes)
    of_item += sum(count_values(item.default) for item in items)
    return DefaultSize(of_object, of_item)


def count_values(value: Value) -> int:
    """Return the number of values in a default; 0 for None."""
    if isinstance(value, dict):
        return 1 + sum(map(count_values, value.values()))
    if isinstance(value, list):
        return 1 + sum(map(count_values, value))
    return int(value is not None)


class _Plan(Struct, frozen=True):
    """The fields that have defaults, and the fields whose values may have some.

    values  the schema of a map's values, if they may have defaults or nulls
    """

    defaults: tuple[tuple[str, Value], ...]
    containers: tuple[tuple[str, Structural], ...]
    values: Structural | None


def _plan(node: Structural) -> _Plan:
    fields = node.properties.items()
    values = node.values if node.values is not None and _has_children(node.values) else None
    plan = node.compiled["defaults"] = _Plan(
        tuple((name, child.default) for name, child in fields if child.default is not None),
        tuple((name, child) for name, child in fields if _has_children(child)),
        values,
    )
    return plan


def _has_children(node: Structural) -> bool:
    schema = node.schema
    return any(schema.get(name) for name in ("properties", "items", "additionalProperties"))


def copy_value(value: Value) -> Value:
    """Return a deep copy of a value."""
    if isinstance(value, dict):
        return {name: copy_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [copy_value(item) for item in value]
    return value
