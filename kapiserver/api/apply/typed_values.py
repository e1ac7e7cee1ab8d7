"""Typed values: whether a value fits its schema, and which fields it sets.

Reads values by the nodes of `merge_schema` and returns fields as `fieldsets`; knows no manager,
kind or version. Mirrors validation and field sets of the typed package of
sigs.k8s.io/structured-merge-diff.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kapiserver.api.apply.fieldsets import (
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
from kapiserver.api.apply.merge_schema import (
    AnyNode,
    ListNode,
    MapNode,
    Node,
    ScalarNode,
    deduce,
)
from kapiserver.api.errors import BadObject
from kapiserver.api.types import Value


class SchemaMismatch(BadObject):
    """A value does not fit its schema: `.spec.foo: field not declared in schema`."""


# Steps.


_SET_ITEM_ERRORS = {
    type(None): "associative list without keys has an element that's an explicit null",
    dict: "associative list without keys has an element that's a map type",
    list: "not supported: associative list with lists as elements",
}


def _item_step(node: ListNode, item: Value, index: int) -> Step:
    """Return the step to an item of a list that is a set or a map. Raises SchemaMismatch."""
    if node.relation == "set":
        if type(item) in _SET_ITEM_ERRORS:
            raise SchemaMismatch(f"element {index}: {_SET_ITEM_ERRORS[type(item)]}")
        return value_step(item)
    if not isinstance(item, dict):
        element = "a null element" if item is None else "non-map elements"
        raise SchemaMismatch(f"element {index}: associative list with keys may not have {element}")
    if len(node.keys) == 1:
        value = item.get(node.keys[0])
        if isinstance(value, str):
            return name_step(node.keys[0], value)
    keys = {}
    for key in node.keys:
        if key in item:
            keys[key] = item[key]
        elif node.defaults and key in node.defaults:
            keys[key] = node.defaults[key]
    if not keys:
        key_names = " ".join(f'"{key}"' for key in node.keys)
        raise SchemaMismatch(
            f"element {index}: associative list with keys has an element that omits all key "
            f"fields [{key_names}] (and doesn't have default values for any key fields)"
        )
    return key_step(keys)


def steps(node: ListNode, items: list[Value]) -> Iterator[tuple[Step, Value]]:
    """Yield the items with the steps to them. Raises SchemaMismatch."""
    for index, item in enumerate(items):
        yield _item_step(node, item, index), item


# Validation.


def check(node: Node, value: Value, path: str = "") -> None:
    """Check that a value fits its schema and repeats no item. Raises SchemaMismatch."""
    errors: list[str] = []
    _check(node, value, path, errors)
    if errors:
        text = errors[0] if len(errors) == 1 else "\n  ".join(["errors:", *errors])
        raise SchemaMismatch(text)


def _check(node: Node, value: Value, path: str, errors: list[str]) -> None:
    """Append the errors of a value."""
    node = deduce(node, value)
    if value is None:
        return
    match node:
        case ScalarNode():
            fault = _scalar_error(node, value)
            if fault:
                errors.append(f"{path}: {fault}")
        case MapNode():
            _check_map(node, value, path, errors)
        case ListNode():
            _check_list(node, value, path, errors)


_SCALAR_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "string": (str, "string"),
    "numeric": ((int, float), "numeric (int or float)"),
    "boolean": (bool, "boolean"),
}
_SCALAR_TYPES: dict[str, frozenset[type]] = {
    "string": frozenset((str,)),
    "numeric": frozenset((int, float)),
    "boolean": frozenset((bool,)),
    "untyped": frozenset((str, int, float, bool)),
}
"""The types of valid values, by the kind of their node; subclasses need a closer look."""


def _scalar_error(node: ScalarNode, value: Value) -> str:
    if node.kind == "untyped":
        is_scalar = isinstance(value, str | int | float)
        return "" if is_scalar else f"expected any scalar, got {_format_value(value)}"
    python_type, name = _SCALAR_KINDS[node.kind]
    is_valid = isinstance(value, python_type) and (
        node.kind == "boolean" or not isinstance(value, bool)
    )
    return "" if is_valid else f"expected {name}, got {_format_scalar(node, value)}"


def _format_scalar(node: ScalarNode, value: Value) -> str:
    """Format a value that is not a scalar of its type, like structured-merge-diff: the type where a
    number is expected (`%T`), the value in Go's syntax where a string is (`%#v`)."""
    from kapiserver.api.go_format import go_syntax, go_type

    if node.kind == "numeric":
        return go_type(value)
    if node.kind == "boolean":
        return _format_value(value)
    return f"&value.valueUnstructured{{Value:{go_syntax(value)}}}"


def _format_value(value: Value) -> str:
    """Format a value that is not a map, list or scalar, as structured-merge-diff does (`%v` of a
    pointer to a struct)."""
    from kapiserver.api.go_format import go_value

    return f"&{{{go_value(value)}}}"


def _check_map(node: MapNode, value: Value, path: str, errors: list[str]) -> None:
    if not isinstance(value, dict):
        errors.append(f"{path}: expected map, got {_format_value(value)}")
        return
    fields, element = node.fields, node.element
    undeclared = ""
    for name, nested in value.items():
        child = fields.get(name, element)
        if child is None:
            undeclared = undeclared or f"{path}.{name}: field not declared in schema"
        elif child.__class__ is not ScalarNode or type(nested) not in _SCALAR_TYPES[child.kind]:
            _check(child, nested, f"{path}.{name}", errors)
    if undeclared:
        # kube-apiserver walks the fields in any order, and stops at the first undeclared one.
        errors.append(undeclared)


def _check_list(node: ListNode, value: Value, path: str, errors: list[str]) -> None:
    if not isinstance(value, list):
        errors.append(f"{path}: expected list, got {_format_value(value)}")
        return
    seen_steps: set[Step] = set()
    for index, item in enumerate(value):
        item_path = f"{path}[{index}]"
        if not node.atomic:
            try:
                step = _item_step(node, item, index)
            except SchemaMismatch as error:
                errors.append(f"{path}: {error}")
                return  # as structured-merge-diff does
            item_path = path + format_step(step)
            if step in seen_steps:
                errors.append(f"{path}: duplicate entries for key {format_step(step)}")
            seen_steps.add(step)
        _check(node.item, item, item_path, errors)


# Sets of fields.


def checked_fields_of(node: Node, value: Value) -> Fields:
    """Check a value and return the fields that it sets. Raises SchemaMismatch."""
    try:
        return _checked_fields(node, value) or {}
    except SchemaMismatch:
        check(node, value)  # raises with a message
    return fields_of(node, value)


def _checked_fields(node: Node, value: Value) -> Fields | None:
    """Return `_fields` of a valid value. Raises SchemaMismatch without a message for others."""
    if node.__class__ is ScalarNode:
        if value is not None and _scalar_error(node, value):
            raise _misfit()
        return END
    node = deduce(node, value)
    if isinstance(node, MapNode) and isinstance(value, dict):
        fields = _checked_map_fields(node, value)
        return END if node.atomic else fields
    if isinstance(node, ListNode) and isinstance(value, list):
        return _checked_list_fields(node, value)
    if value is None:
        return _fields(node, value)
    if isinstance(node, ScalarNode):
        return _checked_fields(node, value)
    raise _misfit()


def _checked_map_fields(node: MapNode, value: dict[str, Value]) -> Fields | None:
    result = {}
    fields = node.fields
    for name, nested in value.items():
        declared = fields.get(name)
        child = declared or node.element
        if child is None:
            raise _misfit()
        inner = _checked_fields(child, nested)
        if nested is None or nested == {} or declared is None:
            inner = _as_member(inner)
        if inner is not None:
            result[field_step(name)] = inner
    return result or None


def _checked_list_fields(node: ListNode, value: list[Value]) -> Fields | None:
    if node.atomic:
        for item in value:
            _checked_fields(node.item, item)
        return END
    result: Fields = {}
    for step, item in steps(node, value):
        if step in result:
            raise _misfit()
        result[step] = _as_member(_checked_fields(node.item, item))
    return result or None


def _misfit() -> SchemaMismatch:
    """Return a new error each time: a shared one would keep the frames of all places that raised
    it, and with them every value that did not fit."""
    return SchemaMismatch("a value does not fit its schema")


def fields_of(node: Node, value: Value) -> Fields:
    """Return the fields that a value sets: those that its applier owns."""
    return _fields(node, value) or {}


def _fields(node: Node, value: Value) -> Fields | None:
    """Return the set of a value's fields; None if it sets none."""
    node = deduce(node, value)
    match node:
        case MapNode(atomic=False):
            return _map_fields(node, value) if isinstance(value, dict) else None
        case ListNode(atomic=False):
            return _list_fields(node, value) if isinstance(value, list) else None
    return END


def _map_fields(node: MapNode, value: Value) -> Fields | None:
    result = {}
    for name, nested in value.items():
        declared = node.fields.get(name)
        child = declared or node.element
        inner = None if child is None else _fields(child, nested)
        if nested is None or nested == {} or declared is None:
            inner = _as_member(inner)
        if inner is not None:
            result[field_step(name)] = inner
    return result or None


def _list_fields(node: ListNode, value: list[Value]) -> Fields | None:
    result: Fields = {}
    repeated: set[Step] = set()
    for step, item in steps(node, value):
        if step in result:
            repeated.add(step)
            continue
        result[step] = _as_member(_fields(node.item, item))
    for step in repeated:
        result[step] = END
    return result or None


def _as_member(node: Fields | None) -> Fields:
    """Return the node with a path that ends at it."""
    return END if node is None else node if is_member(node) else {SELF: END, **node}


def with_named_fields(node: Node, fields: Fields) -> Fields:
    """Return the set with each declared field that has a path below it as a member."""
    declared = node.fields if isinstance(node, MapNode) else {}
    result: Fields = {}
    for step, nested in fields.items():
        if step == SELF or not nested:
            result[step] = nested
            continue
        inner = with_named_fields(_child_node(node, step), nested)
        is_declared = step[0] == "f" and step[2:] in declared
        result[step] = _as_member(inner) if is_declared else inner
    return result


def reconcile(node: Node, fields: Fields) -> Fields:
    """Adapt a set to the schema: a value that became atomic is owned as a whole."""
    result = fields
    for step, nested in fields.items():
        if not nested:
            continue
        child = _child_node(node, step)
        is_atomic = not isinstance(child, ScalarNode) and child.atomic
        inner = END if is_atomic else reconcile(child, nested)
        if inner is not nested:
            result = fields | {step: inner} if result is fields else {**result, step: inner}
    return result


def _child_node(node: Node, step: Step) -> Node:
    if isinstance(node, MapNode):
        return node.child(step[2:]) or UNDECLARED
    if isinstance(node, ListNode):
        return node.item
    return node if isinstance(node, AnyNode) else UNDECLARED


UNDECLARED: Final = ScalarNode("untyped")
"""The node of an undeclared field."""
