"""Validation of the list and map types in a schema: set, map or atomic.

Mirrors ValidateCustomResourceDefinitionOpenAPISchema of k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.errors import (
    FieldError,
    Path,
    forbidden,
    invalid,
    not_supported_in_order,
    required,
)
from kapiserver.api.types import Tree

_MAP_TYPE = "x-kubernetes-map-type"
_LIST_TYPE = "x-kubernetes-list-type"
_MAP_KEYS = "x-kubernetes-list-map-keys"


def check(schema: Tree, path: Path) -> Iterator[FieldError]:
    """Yield the errors of the list and map type of one node."""
    type_ = schema.get("type") or ""
    map_type, list_type = schema.get(_MAP_TYPE), schema.get(_LIST_TYPE)
    if map_type is not None and type_ != "object":
        yield _type_error(path / "type", type_, f"must be object if {_MAP_TYPE} is specified")
    if map_type not in (None, "atomic", "granular"):
        yield not_supported_in_order(path / _MAP_TYPE, map_type, ("atomic", "granular"))
    if list_type is not None and type_ != "array":
        yield _type_error(path / "type", type_, f"must be array if {_LIST_TYPE} is specified")
    elif list_type == "set" and isinstance(schema.get("items"), dict):
        yield from _check_set(schema["items"], path / "items")
    if list_type not in (None, "atomic", "set", "map"):
        yield not_supported_in_order(path / _LIST_TYPE, list_type, ("atomic", "set", "map"))
    if schema.get(_MAP_KEYS) and list_type != "map":
        detail = f"must be map if {_MAP_KEYS} is non-empty"
        list_type_path = path / _LIST_TYPE
        yield (
            required(list_type_path, detail)
            if list_type is None
            else invalid(list_type_path, list_type, detail)
        )
    if list_type == "map":
        yield from _check_map(schema, path)
    if list_type in ("set", "map") and isinstance(schema.get("items"), dict):
        yield from _check_keys(schema, path / "items")


def _type_error(path: Path, type_: str, detail: str) -> FieldError:
    return invalid(path, type_, detail) if type_ else required(path, detail)


def _check_set(items: Tree, path: Path) -> Iterator[FieldError]:
    detail = f"must be atomic as item of a list with {_LIST_TYPE}=set"
    list_type = items.get(_LIST_TYPE)
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        yield invalid(path / _LIST_TYPE, list_type, detail)
    if items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic":
        yield invalid(path / _MAP_TYPE, list_type, detail)


def _check_map(schema: Tree, path: Path) -> Iterator[FieldError]:
    keys, items = schema.get(_MAP_KEYS) or [], schema.get("items")
    if not keys:
        yield required(path / _MAP_KEYS, f"must not be empty if {_LIST_TYPE} is map")
    if items is None:
        yield required(path / "items", f"must have a schema if {_LIST_TYPE} is map")
        return
    if not isinstance(items, dict):
        detail = f"must only have a single schema if {_LIST_TYPE} is map"
        yield invalid(path / "items", items, detail)
        return
    if items.get("type") != "object":
        detail = f"must be object if parent array's {_LIST_TYPE} is map"
        yield invalid(path / "items" / "type", items.get("type") or "", detail)
        return
    properties = items.get("properties") or {}
    for index, key in enumerate(keys):
        if key not in properties:
            detail = "entries must all be names of item properties"
            yield invalid(path / _MAP_KEYS, keys, detail)
        elif properties[key].get("type") in ("array", "object"):
            type_path = (path / "items" / "properties")[key] / "type"
            detail = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            yield invalid(type_path, items["type"], detail)
        if key in keys[:index]:
            yield invalid(path / _MAP_KEYS, keys, "must not contain duplicate entries")


def _check_keys(schema: Tree, path: Path) -> Iterator[FieldError]:
    items, list_type = schema["items"], schema[_LIST_TYPE]
    if items.get("nullable"):
        detail = f"cannot be nullable when {_LIST_TYPE} is {list_type}"
        yield forbidden(path / "nullable", detail)
    if list_type != "map":
        return
    subject = f"this property is in {_MAP_KEYS}, so it"
    for key in schema.get(_MAP_KEYS) or ():
        property_schema = (items.get("properties") or {}).get(key)
        if property_schema is None:
            continue
        property_path = (path / "properties")[key]
        if key not in (items.get("required") or ()) and property_schema.get("default") is None:
            yield required(
                property_path / "default",
                f"{subject} must have a default or be a required property",
            )
        if property_schema.get("nullable"):
            yield forbidden(property_path / "nullable", f"{subject} cannot be nullable")
