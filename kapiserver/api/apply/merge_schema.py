"""Schemas for server-side apply: which lists are maps or sets, and which values are atomic.

A schema is a graph of nodes, derived from a Type (`schema_of`) or compiled from the schema of a
CustomResourceDefinition. Knows no object and no manager. Mirrors the schema package of
sigs.k8s.io/structured-merge-diff.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from kapiserver.api.scalar_types import (
    FieldsV1,
    IntOrString,
    MicroTime,
    Quantity,
    RawExtension,
    Time,
)
from kapiserver.api.types import (
    Field,
    FieldOptions,
    ListOf,
    MapOf,
    Message,
    Scalar,
    ScalarType,
    Shape,
    Type,
    Value,
)


class ScalarNode(Struct, frozen=True):
    """A scalar; `untyped` allows any scalar."""

    kind: Literal["string", "numeric", "boolean", "untyped"]


class MapNode:
    """An object. `fields` are its named fields, `element` is the node of all other keys, None if
    there are none. An atomic object is owned and replaced as a whole."""

    def __init__(
        self,
        fields: Callable[[], Mapping[str, Node]] = dict,
        *,
        element: Node | None = None,
        atomic: bool = False,
    ) -> None:
        self._make_fields = fields
        self.element = element
        self.atomic = atomic

    @functools.cached_property
    def fields(self) -> Mapping[str, Node]:
        """The named fields, resolved on first use because types may be recursive."""
        return self._make_fields()

    def child(self, name: str) -> Node | None:
        """Return the node of the value under a key; None for an undeclared key."""
        return self.fields.get(name, self.element)


class ListNode(Struct, frozen=True):
    """A list: `atomic`, a `set` of scalars, or a `map` whose items are identified by `keys`.
    `defaults` are the values of keys that an item omits."""

    item: Node
    relation: Literal["atomic", "set", "map"] = "atomic"
    keys: tuple[str, ...] = ()
    defaults: Mapping[str, Value] | None = None

    @property
    def atomic(self) -> bool:
        """Whether the list is owned and replaced as a whole."""
        return self.relation == "atomic"


class AnyNode(Struct, frozen=True):
    """A value of unknown type, deduced from the value. Its lists are atomic; if `atomic`, so is all
    of it."""

    atomic: bool = False


Node: TypeAlias = "ScalarNode | MapNode | ListNode | AnyNode"

STRING, NUMERIC, BOOLEAN, UNTYPED = (
    ScalarNode("string"),
    ScalarNode("numeric"),
    ScalarNode("boolean"),
    ScalarNode("untyped"),
)
ANY = AnyNode()
ANY_MAP = MapNode(element=ANY)
ATOMIC = AnyNode(atomic=True)
_ATOMIC_MAP = MapNode(element=ATOMIC, atomic=True)
ANY_LIST = ListNode(ANY)

_SCALARS: dict[str, Node] = {
    "string": STRING,
    "bytes": STRING,
    "bool": BOOLEAN,
    "int32": NUMERIC,
    "int64": NUMERIC,
    "double": NUMERIC,
    "any": ANY,
}

_UNTYPED_SCALARS = (Quantity, Time, MicroTime, IntOrString)


def deduce(node: Node, value: Value) -> Node:
    """Return the node of a value: for AnyNode the node that the value implies, else the node
    itself."""
    if node.__class__ is not AnyNode:
        return node
    if isinstance(value, dict):
        return _ATOMIC_MAP if node is ATOMIC else ANY_MAP
    return ANY_LIST if isinstance(value, list) else UNTYPED


def schema_of(type_: type[Type]) -> Node:
    """Return the node of a Type."""
    node: Node | None = type_.merge_node()
    if node is not None:
        return node
    key: Any = type_
    return _of_type(key)


@functools.cache
def _of_type(type_: Any) -> Node:
    if issubclass(type_, ScalarType):
        return _scalar_node(type_)
    return _struct(type_, type_.atomic)


def _scalar_node(type_: type[ScalarType]) -> Node:
    if issubclass(type_, _UNTYPED_SCALARS):
        return UNTYPED
    if issubclass(type_, RawExtension):
        return ATOMIC
    if issubclass(type_, FieldsV1):
        return ANY_MAP
    kind = type_.openapi.get("type")
    if kind == "array":
        return ListNode(STRING)
    return STRING if kind == "string" else ANY


@functools.cache
def _struct(type_: Any, atomic: bool) -> MapNode:
    return MapNode(lambda: _fields(type_), atomic=atomic)


def _fields(type_: type[Type]) -> Mapping[str, Node]:
    return {flat.field.name: _node_of_field(flat.field) for flat in type_.flat_fields()}


def _node_of_field(field: Field) -> Node:
    return _node(field.shape, field.options)


def _node(shape: Shape, options: FieldOptions) -> Node:
    match shape:
        case Scalar(name):
            return _SCALARS[name]
        case Message():
            message: Any = shape.type
            if issubclass(message, ScalarType) or options.atomic is None:
                return schema_of(message)
            return _struct(message, options.atomic)
        case MapOf(value):
            element = ListNode(_item(value.item)) if isinstance(value, ListOf) else _item(value)
            return MapNode(element=element, atomic=bool(options.atomic))
        case ListOf(item):
            return _list(item, options)


def _item(shape: Scalar | Message) -> Node:
    return _SCALARS[shape.name] if isinstance(shape, Scalar) else schema_of(shape.type)


_ZEROS: Mapping[str, Value] = {"string": "", "bool": False, "int32": 0, "int64": 0, "double": 0}
"""The zero of each scalar that OpenAPI gives as the default of a field without `omitempty`."""


def _default_of_key(key: Field) -> Value:
    """Return the value of a key that an item omits, None if the item must have the key."""
    if key.options.default is not None or not key.options.always:
        return key.options.default
    return _ZEROS.get(key.shape.name) if isinstance(key.shape, Scalar) else None


def _list(item: Scalar | Message, options: FieldOptions) -> ListNode:
    if options.set:
        return ListNode(_item(item), relation="set")
    if not options.keys or options.atomic:
        return ListNode(_item(item))
    assert isinstance(item, Message)
    keys = (flat.field for flat in item.type.flat_fields() if flat.field.name in options.keys)
    defaults = {key.name: default for key in keys if (default := _default_of_key(key)) is not None}
    return ListNode(_item(item), relation="map", keys=options.keys, defaults=defaults)
