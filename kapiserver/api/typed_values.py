"""A value read by its schema: whether it fits, and which fields it sets.

Reads by the nodes of `merge_schema` and speaks of fields as `fieldsets` does; knows no manager,
kind or version. Mirrors validation and field sets of the typed package of
sigs.k8s.io/structured-merge-diff.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kapiserver.api.errors import BadObject
from kapiserver.api.fieldsets import (
    END,
    SELF,
    Fields,
    Step,
    field_step,
    format_step,
    is_member,
    key_step,
    name_step,
    value_step,
)
from kapiserver.api.merge_schema import (
    AnyNode,
    ListNode,
    MapNode,
    Node,
    ScalarNode,
    deduce,
)
from kapiserver.api.types import Value


class SchemaMismatch(BadObject):
    """A value does not fit its schema: `.spec.foo: field not declared in schema`."""


# Steps.


_NO_ITEM_OF_A_SET = {
    type(None): "associative list without keys has an element that's an explicit null",
    dict: "associative list without keys has an element that's a map type",
    list: "not supported: associative list with lists as elements",
}


def _item_step(node: ListNode, item: Value, index: int) -> Step:
    """The step to an item of a list that is a set or a map. Raises SchemaMismatch."""
    if node.relation == "set":
        if type(item) in _NO_ITEM_OF_A_SET:
            raise SchemaMismatch(f"element {index}: {_NO_ITEM_OF_A_SET[type(item)]}")
        return value_step(item)
    if not isinstance(item, dict):
        what = "a null element" if item is None else "non-map elements"
        raise SchemaMismatch(f"element {index}: associative list with keys may not have {what}")
    if len(node.keys) == 1:
        value = item.get(node.keys[0])
        if isinstance(value, str):
            return name_step(node.keys[0], value)
    keys = {}
    for key in node.keys:
        value = item.get(key)
        if value is None and node.defaults:
            value = node.defaults.get(key)
        if value is not None:
            keys[key] = value
    if not keys:
        names = " ".join(f'"{key}"' for key in node.keys)
        raise SchemaMismatch(
            f"element {index}: associative list with keys has an element that omits all key "
            f"fields [{names}] (and doesn't have default values for any key fields)"
        )
    return key_step(keys)


def steps(node: ListNode, items: list[Value]) -> Iterator[tuple[Step, Value]]:
    """The items with the steps to them. Raises SchemaMismatch."""
    for index, item in enumerate(items):
        yield _item_step(node, item, index), item


# Validation.


def check(node: Node, value: Value, path: str = "") -> None:
    """See that a value fits its schema, without repeated items. Raises SchemaMismatch."""
    errors = list(_errors(node, value, path))
    if errors:
        text = errors[0] if len(errors) == 1 else "\n".join(["errors:", *errors])
        raise SchemaMismatch(text)


def _errors(node: Node, value: Value, path: str) -> Iterator[str]:
    node = deduce(node, value)
    if value is None:
        return
    match node:
        case ScalarNode():
            fault = _scalar_fault(node, value)
            if fault:
                yield f"{path}: {fault}"
        case MapNode():
            yield from _map_errors(node, value, path)
        case ListNode():
            yield from _list_errors(node, value, path)


_SCALAR_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "string": (str, "string"),
    "numeric": ((int, float), "numeric (int or float)"),
    "boolean": (bool, "boolean"),
}


def _scalar_fault(node: ScalarNode, value: Value) -> str:
    if node.kind == "untyped":
        return ""
    wanted, name = _SCALAR_KINDS[node.kind]
    fits = isinstance(value, wanted) and (node.kind == "boolean" or not isinstance(value, bool))
    return "" if fits else f"expected {name}, got {_shown(value)}"


def _shown(value: Value) -> str:
    """A value as Go's %v shows it, which is how these messages do."""
    from kapiserver.api.go_format import go_value

    if isinstance(value, bool):
        return f"&value.valueUnstructured{{Value:{str(value).lower()}}}"
    return f"&value.valueUnstructured{{Value:{go_value(value)}}}"


def _map_errors(node: MapNode, value: Value, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: expected map, got {_shown(value)}"
        return
    for name, below in value.items():
        child = node.child(name)
        if child is None:
            yield f"{path}.{name}: field not declared in schema"
        else:
            yield from _errors(child, below, f"{path}.{name}")


def _list_errors(node: ListNode, value: Value, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: expected list, got {_shown(value)}"
        return
    seen: set[Step] = set()
    for index, item in enumerate(value):
        here = f"{path}[{index}]"
        if not node.atomic:
            try:
                step = _item_step(node, item, index)
            except SchemaMismatch as error:
                yield f"{path}: {error}"
                continue
            here = path + format_step(step)
            if step in seen:
                yield f"{path}: duplicate entries for key {format_step(step)}"
            seen.add(step)
        yield from _errors(node.item, item, here)


# Sets of fields.


def checked_fields_of(node: Node, value: Value) -> Fields:
    """See that a value fits its schema; the fields it sets. Raises SchemaMismatch."""
    try:
        return _said(node, value) or {}
    except SchemaMismatch:
        check(node, value)  # which says what is wrong, and where
    return fields_of(node, value)


def _said(node: Node, value: Value) -> Fields | None:
    """As `_fields`, for a value that fits; raises SchemaMismatch without a word for others."""
    if node.__class__ is ScalarNode:
        if value is not None and _scalar_fault(node, value):
            raise _MISFIT
        return END
    node = deduce(node, value)
    if isinstance(node, MapNode) and isinstance(value, dict):
        found = _said_map(node, value)
        return END if node.atomic else found
    if isinstance(node, ListNode) and isinstance(value, list):
        return _said_list(node, value)
    if value is None:
        return _fields(node, value)
    if isinstance(node, ScalarNode):
        return _said(node, value)
    raise _MISFIT


def _said_map(node: MapNode, value: dict[str, Value]) -> Fields | None:
    found = {}
    fields = node.fields
    for name, below in value.items():
        declared = fields.get(name)
        child = declared or node.rest
        if child is None:
            raise _MISFIT
        inner = _said(child, below)
        if below is None or below == {} or declared is None:
            inner = _as_member(inner)
        if inner is not None:
            found[field_step(name)] = inner
    return found or None


def _said_list(node: ListNode, value: list[Value]) -> Fields | None:
    if node.atomic:
        for item in value:
            _said(node.item, item)
        return END
    found: Fields = {}
    for step, item in steps(node, value):
        if step in found:
            raise _MISFIT
        found[step] = _as_member(_said(node.item, item))
    return found or None


_MISFIT: Final = SchemaMismatch("a value does not fit its schema")


def fields_of(node: Node, value: Value) -> Fields:
    """The fields a value sets, as a manager that applies it owns them."""
    return _fields(node, value) or {}


def _fields(node: Node, value: Value) -> Fields | None:
    """The node of a value; None where nothing is owned."""
    node = deduce(node, value)
    match node:
        case MapNode(atomic=False):
            return _map_fields(node, value) if isinstance(value, dict) else None
        case ListNode(atomic=False):
            return _list_fields(node, value) if isinstance(value, list) else None
    return END


def _map_fields(node: MapNode, value: Value) -> Fields | None:
    found = {}
    for name, below in value.items():
        declared = node.fields.get(name)
        child = declared or node.rest
        inner = None if child is None else _fields(child, below)
        if below is None or below == {} or declared is None:
            inner = _as_member(inner)
        if inner is not None:
            found[field_step(name)] = inner
    return found or None


def _list_fields(node: ListNode, value: list[Value]) -> Fields | None:
    found: Fields = {}
    repeated: set[Step] = set()
    for step, item in steps(node, value):
        if step in found:
            repeated.add(step)
            continue
        found[step] = _as_member(_fields(node.item, item))
    for step in repeated:
        found[step] = END
    return found or None


def _as_member(node: Fields | None) -> Fields:
    """The node with a path that ends at it."""
    return END if node is None else node if is_member(node) else {SELF: END, **node}


def with_named_fields(node: Node, fields: Fields) -> Fields:
    """The set with each declared field that has something below it as a member of its own."""
    declared = node.fields if isinstance(node, MapNode) else {}
    found: Fields = {}
    for step, below in fields.items():
        if step == SELF or not below:
            found[step] = below
            continue
        inner = with_named_fields(_below(node, step), below)
        named = step[0] == "f" and step[2:] in declared
        found[step] = _as_member(inner) if named else inner
    return found


def reconcile(node: Node, fields: Fields) -> Fields:
    """The set as the schema would have it: what became one piece is owned as a whole."""
    found = fields
    for step, below in fields.items():
        if not below:
            continue
        child = _below(node, step)
        whole = not isinstance(child, ScalarNode) and child.atomic
        inner = END if whole else reconcile(child, below)
        if inner is not below:
            found = fields | {step: inner} if found is fields else {**found, step: inner}
    return found


def _below(node: Node, step: Step) -> Node:
    if isinstance(node, MapNode):
        return node.child(step[2:]) or UNDECLARED
    if isinstance(node, ListNode):
        return node.item
    return node if isinstance(node, AnyNode) else UNDECLARED


UNDECLARED: Final = ScalarNode("untyped")
"""The node of what is not declared."""
