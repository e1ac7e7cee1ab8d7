"""Schemas of custom kinds as OpenAPI shows them: as their definitions say, metadata filled in.

What version 2 cannot say is left out there: kubectl would take it for more than it is. Mirrors
pkg/controller/openapi/builder of k8s.io/apiextensions-apiserver.
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

_METADATA = "Standard object's metadata."
_ALTERNATIVES = ("allOf", "anyOf", "oneOf", "not")


def schema_name(version: CustomVersion, kind: str) -> str:
    """`com.example.v1.Foo`."""
    reverse = ".".join(reversed(version.definition.group.split(".")))
    return f"{reverse}.{version.name}.{kind}"


def object_schema(version: CustomVersion, ref: Ref, dialect: str) -> Tree:
    """The schema of the objects of a version."""
    definition = version.definition
    found: Tree = version.schema
    if dialect == "v2":
        free = found.get("x-kubernetes-preserve-unknown-fields") or version.preserves_unknown_fields
        found = {"type": "object"} if free else _for_v2(found)
    if dialect == "v3" or "properties" in found or not version.schema:
        found = {**found, "properties": _with_meta(found, ref, dialect)}
    return {**found, **_kind_of(version, definition.kind)}


def list_schema(version: CustomVersion, ref: Ref, dialect: str) -> Tree:
    """The schema of their lists."""
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
            "metadata": _referred(LIST_METADATA, ref(ListMeta), dialect),
        },
        **_kind_of(version, definition.list_kind),
    }


def _kind_of(version: CustomVersion, kind: str) -> Tree:
    group = version.definition.group
    said = {"group": group, "kind": kind, "version": version.name}
    return {"x-kubernetes-group-version-kind": [said]}


def _with_meta(schema: Tree, ref: Ref, dialect: str) -> Tree:
    properties = dict(schema.get("properties") or {})
    properties["apiVersion"] = {"description": TYPE_META["apiVersion"], "type": "string"}
    properties["kind"] = {"description": TYPE_META["kind"], "type": "string"}
    properties["metadata"] = _referred(_METADATA, ref(ObjectMeta), dialect)
    return dict(sorted(properties.items()))


def _referred(text: str, reference: Tree, dialect: str) -> Tree:
    if dialect == "v2":
        return {"description": text, **reference}
    return {"description": text, "allOf": [reference]}


def _for_v2(schema: Any) -> Any:
    """A schema without what version 2 has no words for."""
    if not isinstance(schema, dict):
        return schema
    found = {
        name: value
        for name, value in schema.items()
        if name not in (*_ALTERNATIVES, "nullable", "default", "x-kubernetes-validations")
    }
    if schema.get("nullable") or schema.get("x-kubernetes-preserve-unknown-fields"):
        for name in ("type", "items", "properties", "additionalProperties", "required"):
            found.pop(name, None)
        return found
    if schema.get("x-kubernetes-int-or-string"):
        found.pop("type", None)
        return found
    if "items" in found:
        found["items"] = _for_v2(found["items"])
    if "additionalProperties" in found:
        found["additionalProperties"] = _for_v2(found["additionalProperties"])
    if "properties" in found:
        below = found["properties"] or {}
        found["properties"] = {name: _for_v2(one) for name, one in below.items()}
    return found
