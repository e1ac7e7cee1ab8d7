"""CEL types of schema nodes, and how large their values can be.

Fields that rules cannot name or type are left out. Sizes come from maxLength, maxItems and
maxProperties, else from the maximum request size; numbers, objects and map keys have size 0, so
that comparing them costs nothing. Mirrors SchemaDeclType of k8s.io/apiserver/pkg/cel/common and its
escaping of names.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from kapiserver.api.apiextensions.schema.structural import Structural
from kapiserver.api.cel import cel_types as k
from kapiserver.api.cel.cel_types import CelType
from kapiserver.api.cel.lexer import KEYWORDS
from kapiserver.api.types import Tree

MAX_REQUEST = 3 * 1024 * 1024
_STRING = {"type": "string"}
_META: Tree = {
    "apiVersion": _STRING,
    "kind": _STRING,
    "metadata": {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}},
}
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_IDENTIFIER = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")
_SCALARS = {
    "boolean": replace(k.BOOL, size=0, min_size=4),
    "integer": replace(k.INT, size=0),
    "number": replace(k.DOUBLE, size=0),
}
_FORMATS = {
    # format: (type, maximum and minimum length in JSON, in bytes)
    "duration": (k.DURATION, 32, 4),
    "date": (k.TIMESTAMP, 12, 12),
    "date-time": (k.TIMESTAMP, 21, 21),
}


def escaped(name: str) -> str | None:
    """Return the name of a field as rules write it; None if they cannot."""
    if name in KEYWORDS:
        return f"__{name}__"
    parts = re.split("(__|[./-])", name)
    text = "".join(dict(_ESCAPES).get(part, part) for part in parts)
    return text if _IDENTIFIER.fullmatch(text) else None


def cel_type_of(node: Structural, *, is_root: bool) -> CelType | None:
    """Return the type of a node's values; None if rules cannot access them.

    is_root  whether the node is a whole resource, which has metadata
    """
    cached = node.compiled.get("kind", False)
    if cached is False:
        cached = node.compiled["kind"] = _make_type(node, is_root=is_root or node.embedded)
    cel_type: CelType | None = cached
    return cel_type


def _make_type(node: Structural, *, is_root: bool) -> CelType | None:
    schema = node.schema
    longest = schema.get("maxLength")
    if node.int_or_string:
        return CelType("dyn", size=MAX_REQUEST - 2 if longest is None else max(longest, 0) * 4)
    if node.type == "array":
        return _list_type(node)
    if node.type == "object":
        if node.values is not None and not is_root:
            return _map_type(node)
        return _object_type(node, is_root=is_root) if node.values is None else None
    if node.type == "string":
        return _string_type(node)
    return _SCALARS.get(node.type)


def _list_type(node: Structural) -> CelType | None:
    items = cel_type_of(node.items, is_root=False) if node.items is not None else None
    if items is None:
        return None
    max_items = node.schema.get("maxItems")
    size = (MAX_REQUEST - 2) // (items.min_size + 1) if max_items is None else max(max_items, 0)
    list_type = node.list_type if node.list_type in ("set", "map") else ""
    return CelType("list", (items,), size, list_type=list_type, keys=node.map_keys, min_size=2)


def _map_type(node: Structural) -> CelType | None:
    values = cel_type_of(node.values, is_root=False) if node.values is not None else None
    if values is None:
        return None
    max_properties = node.schema.get("maxProperties")
    size = (
        (MAX_REQUEST - 2) // (values.min_size + 6)
        if max_properties is None
        else max(max_properties, 0)
    )
    return CelType("map", (replace(k.STRING, size=0), values), size, min_size=2)


def _object_type(node: Structural, *, is_root: bool) -> CelType:
    properties = dict(node.properties)
    if is_root:
        for name, schema in _META.items():
            property_schema = properties.get(name)
            if property_schema is None or (
                name == "metadata" and len(property_schema.properties) < 2
            ):
                properties[name] = Structural(schema)
    fields: dict[str, CelType] = {}
    names: dict[str, str] = {}
    required = node.schema.get("required") or ()
    min_size = 2
    for name, child in properties.items():
        cel_type = cel_type_of(child, is_root=False)
        if cel_type is None:
            continue
        cel_name = escaped(name)
        if cel_name is not None:
            fields[cel_name] = cel_type
            names[cel_name] = name
        if name in required and child.default is None:
            min_size += len(name) + cel_type.min_size + 4
    return CelType(
        "object", (), 0, fields=fields, names=names, null_is_absent=True, min_size=min_size
    )


def _string_type(node: Structural) -> CelType:
    format_name, max_length = node.schema.get("format") or "", node.schema.get("maxLength")
    if format_name in _FORMATS:
        cel_type, max_size, least = _FORMATS[format_name]
        return replace(cel_type, size=max_size, min_size=least)
    if format_name == "byte":
        size = MAX_REQUEST - 2 if max_length is None else max(max_length, 0)
        return replace(k.BYTES, size=size, min_size=2)
    if max_length is not None:
        size = max(max_length, 0) * 4
    elif node.schema.get("enum"):
        values = [value for value in node.schema["enum"] if isinstance(value, str)]
        size = max((len(value.encode("utf-8", "surrogatepass")) for value in values), default=0)
    else:
        size = MAX_REQUEST - 2
    return replace(k.STRING, size=size, min_size=2)
