"""The schema of a custom kind for server-side apply.

Mirrors how k8s.io/apiserver/pkg/util/managedfields reads the OpenAPI of a custom resource.
"""

from __future__ import annotations

from collections.abc import Mapping

from kapiserver.api.apiextensions.schema.structural import Structural
from kapiserver.api.apply.merge_schema import (
    ANY,
    BOOLEAN,
    NUMERIC,
    STRING,
    UNTYPED,
    ListNode,
    MapNode,
    Node,
    schema_of,
)
from kapiserver.api.meta.v1 import ObjectMeta

_SCALARS: dict[str, Node] = {
    "string": STRING,
    "integer": NUMERIC,
    "number": NUMERIC,
    "boolean": BOOLEAN,
}


def object_node(schema: Structural) -> Node:
    """Return the node of a whole object."""
    return _object(schema, is_resource=True)


def _node(schema: Structural) -> Node:
    if schema.int_or_string:
        return UNTYPED
    if schema.type == "array":
        return _list(schema)
    if schema.type == "object":
        return _object(schema, is_resource=schema.embedded)
    return _SCALARS.get(schema.type, ANY)


def _object(schema: Structural, *, is_resource: bool) -> Node:
    if not schema.properties and not schema.open and not is_resource:
        return MapNode(
            element=ANY if schema.preserves else None, atomic=schema.map_type == "atomic"
        )
    other_fields: Node | None = ANY if schema.preserves else None
    if schema.open:
        other_fields = ANY if schema.values is None else _node(schema.values)

    def fields() -> Mapping[str, Node]:
        nodes = {
            name: _node(property_schema) for name, property_schema in schema.properties.items()
        }
        if is_resource:
            nodes |= {"apiVersion": STRING, "kind": STRING, "metadata": schema_of(ObjectMeta)}
        return nodes

    return MapNode(fields, element=other_fields, atomic=schema.map_type == "atomic")


def _list(schema: Structural) -> Node:
    item = ANY if schema.items is None else _node(schema.items)
    if schema.list_type == "set":
        return ListNode(item, relation="set")
    if schema.list_type == "map" and schema.map_keys and schema.items is not None:
        properties = schema.items.properties
        defaults = {
            key: properties[key].default
            for key in schema.map_keys
            if key in properties and properties[key].default is not None
        }
        return ListNode(item, relation="map", keys=schema.map_keys, defaults=defaults)
    return ListNode(item)
