"""What rules see of a schema: the kinds of its fields, and how large their values can be.

Fields that no rule can name or type are left out. Sizes come from maxLength, maxItems and
maxProperties, else from what fits into a request; numbers, objects and the keys of maps have none,
so that comparing them costs nothing. Mirrors SchemaDeclType of
k8s.io/apiserver/pkg/cel/common and its escaping of names.
"""

from __future__ import annotations

import re
from dataclasses import replace

from kapiserver.api.apiextensions.structural import Structural
from kapiserver.api.cel import cel_types as k
from kapiserver.api.cel.cel_types import CelType
from kapiserver.api.cel.lexer import RESERVED
from kapiserver.api.types import Tree

MAX_REQUEST = 3 * 1024 * 1024
_STRING = {"type": "string"}
_META: Tree = {
    "apiVersion": _STRING,
    "kind": _STRING,
    "metadata": {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}},
}
_KEYWORDS = RESERVED | {"true", "false", "null", "in"}
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_IDENTIFIER = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")
_PLAIN = {
    "boolean": replace(k.BOOL, size=0, min_size=4),
    "integer": replace(k.INT, size=0),
    "number": replace(k.DOUBLE, size=0),
}
_FORMATS = {
    # format: (kind, the most and the fewest bytes as JSON)
    "duration": (k.DURATION, 32, 4),
    "date": (k.TIMESTAMP, 12, 12),
    "date-time": (k.TIMESTAMP, 21, 21),
}


def escaped(name: str) -> str | None:
    """The name of a field as rules write it; None where they cannot."""
    if name in _KEYWORDS:
        return f"__{name}__"
    parts = re.split("(__|[./-])", name)
    text = "".join(dict(_ESCAPES).get(part, part) for part in parts)
    return text if _IDENTIFIER.fullmatch(text) else None


def cel_type_of(node: Structural, *, is_root: bool) -> CelType | None:
    """The kind of a node's values; None where rules cannot see them.

    is_root  whether it is a resource as a whole, so that it has metadata
    """
    found = node.compiled.get("kind", False)
    if found is False:
        found = node.compiled["kind"] = _kind(node, is_root=is_root or node.embedded)
    cel_type: CelType | None = found
    return cel_type


def _kind(node: Structural, *, is_root: bool) -> CelType | None:
    schema = node.schema
    longest = schema.get("maxLength")
    if node.int_or_string:
        return CelType("dyn", size=MAX_REQUEST - 2 if longest is None else max(longest, 0) * 4)
    if node.type == "array":
        return _list_kind(node)
    if node.type == "object":
        if node.values is not None and not is_root:
            return _map_kind(node)
        return _object_kind(node, is_root=is_root) if node.values is None else None
    if node.type == "string":
        return _string_kind(node)
    return _PLAIN.get(node.type)


def _list_kind(node: Structural) -> CelType | None:
    items = cel_type_of(node.items, is_root=False) if node.items is not None else None
    if items is None:
        return None
    most = node.schema.get("maxItems")
    size = (MAX_REQUEST - 2) // (items.min_size + 1) if most is None else max(most, 0)
    list_type = node.list_type if node.list_type in ("set", "map") else ""
    return CelType("list", (items,), size, list_type=list_type, keys=node.map_keys, min_size=2)


def _map_kind(node: Structural) -> CelType | None:
    values = cel_type_of(node.values, is_root=False) if node.values is not None else None
    if values is None:
        return None
    most = node.schema.get("maxProperties")
    size = (MAX_REQUEST - 2) // (values.min_size + 6) if most is None else max(most, 0)
    return CelType("map", (replace(k.STRING, size=0), values), size, min_size=2)


def _object_kind(node: Structural, *, is_root: bool) -> CelType:
    properties = dict(node.properties)
    if is_root:
        for name, schema in _META.items():
            declared = properties.get(name)
            if declared is None or (name == "metadata" and len(declared.properties) < 2):
                properties[name] = Structural(schema)
    fields: dict[str, CelType] = {}
    names: dict[str, str] = {}
    required = node.schema.get("required") or ()
    smallest = 2
    for name, child in properties.items():
        cel_type = cel_type_of(child, is_root=False)
        if cel_type is None:
            continue
        shown = escaped(name)
        if shown is not None:
            fields[shown] = cel_type
            names[shown] = name
        if name in required and child.default is None:
            smallest += len(name) + cel_type.min_size + 4
    return CelType("object", (), 0, fields=fields, names=names, min_size=smallest)


def _string_kind(node: Structural) -> CelType:
    form, longest = node.schema.get("format") or "", node.schema.get("maxLength")
    if form in _FORMATS:
        cel_type, most, least = _FORMATS[form]
        return replace(cel_type, size=most, min_size=least)
    if form == "byte":
        size = MAX_REQUEST - 2 if longest is None else max(longest, 0)
        return replace(k.BYTES, size=size, min_size=2)
    if longest is not None:
        size = max(longest, 0) * 4
    elif node.schema.get("enum"):
        texts = [one for one in node.schema["enum"] if isinstance(one, str)]
        size = max((len(one.encode("utf-8", "surrogatepass")) for one in texts), default=0)
    else:
        size = MAX_REQUEST - 2
    return replace(k.STRING, size=size, min_size=2)
