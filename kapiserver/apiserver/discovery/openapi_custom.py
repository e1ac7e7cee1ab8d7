"""Builds the OpenAPI schemas of custom kinds from their definitions, with apiVersion, kind and
metadata added.

Keywords that v2 does not have are left out there. Mirrors pkg/controller/openapi/builder of
k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kapiserver.api.custom_kinds import CustomVersion
from kapiserver.api.meta.lists import LIST_METADATA
from kapiserver.api.meta.v1 import ListMeta, ObjectMeta
from kapiserver.api.types import Tree, Type
from kapiserver.apiserver.discovery.openapi_descriptions import TYPE_META

Ref = Callable[[type[Type]], Tree]

_METADATA = "Standard object's metadata, such as its name, labels and owners."
_ALTERNATIVES = ("allOf", "anyOf", "oneOf", "not")


def schema_name(version: CustomVersion, kind: str) -> str:
    """Return the name of a schema, such as `com.example.v1.Foo`."""
    reverse = ".".join(reversed(version.definition.group.split(".")))
    return f"{reverse}.{version.name}.{kind}"


def object_schema(version: CustomVersion, ref: Ref, dialect: str) -> Tree:
    """Return the schema of the objects of a version."""
    definition = version.definition
    schema: Tree = version.schema
    if dialect == "v2":
        is_free_form = (
            schema.get("x-kubernetes-preserve-unknown-fields") or version.preserves_unknown_fields
        )
        schema = {"type": "object"} if is_free_form else _for_v2(schema)
    if dialect == "v3" or "properties" in schema or not version.schema:
        schema = {**schema, "properties": _with_metadata(schema, ref, dialect)}
    return {**schema, **_kind_extension(version, definition.kind)}


def list_schema(version: CustomVersion, ref: Ref, dialect: str) -> Tree:
    """Return the schema of the lists of a version."""
    definition = version.definition
    items: Tree = {
        "description": f"The {definition.plural} in the list.",
        "type": "array",
        "items": ref(version.type),
    }
    return {
        "description": f"{definition.list_kind} is a list of {definition.kind} objects.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"description": TYPE_META["apiVersion"], "type": "string"},
            "items": items,
            "kind": {"description": TYPE_META["kind"], "type": "string"},
            "metadata": _described_reference(LIST_METADATA, ref(ListMeta), dialect),
        },
        **_kind_extension(version, definition.list_kind),
    }


def _kind_extension(version: CustomVersion, kind: str) -> Tree:
    group = version.definition.group
    kind_tree = {"group": group, "kind": kind, "version": version.name}
    return {"x-kubernetes-group-version-kind": [kind_tree]}


def _with_metadata(schema: Tree, ref: Ref, dialect: str) -> Tree:
    properties = dict(schema.get("properties") or {})
    properties["apiVersion"] = {"description": TYPE_META["apiVersion"], "type": "string"}
    properties["kind"] = {"description": TYPE_META["kind"], "type": "string"}
    properties["metadata"] = _described_reference(_METADATA, ref(ObjectMeta), dialect)
    return dict(sorted(properties.items()))


def _described_reference(text: str, reference: Tree, dialect: str) -> Tree:
    if dialect == "v2":
        return {"description": text, **reference}
    return {"description": text, "allOf": [reference]}


def _for_v2(schema: Any) -> Any:
    """Return a schema without the keywords that v2 does not have."""
    if not isinstance(schema, dict):
        return schema
    converted = {
        name: value
        for name, value in schema.items()
        if name not in (*_ALTERNATIVES, "nullable", "default", "x-kubernetes-validations")
    }
    if schema.get("nullable") or schema.get("x-kubernetes-preserve-unknown-fields"):
        for name in ("type", "items", "properties", "additionalProperties", "required"):
            converted.pop(name, None)
        return converted
    if schema.get("x-kubernetes-int-or-string"):
        converted.pop("type", None)
        return converted
    if "items" in converted:
        converted["items"] = _for_v2(converted["items"])
    if "additionalProperties" in converted:
        converted["additionalProperties"] = _for_v2(converted["additionalProperties"])
    if "properties" in converted:
        properties = converted["properties"] or {}
        converted["properties"] = {
            name: _for_v2(property_schema) for name, property_schema in properties.items()
        }
    return converted
