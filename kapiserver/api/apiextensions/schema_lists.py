"""What a schema may say of its lists and maps: whether they are sets, maps or atomic.

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
    """What is wrong with the list and map type of one node."""
    kind = schema.get("type") or ""
    map_type, list_type = schema.get(_MAP_TYPE), schema.get(_LIST_TYPE)
    if map_type is not None and kind != "object":
        yield _wrong_type(path / "type", kind, f"must be object if {_MAP_TYPE} is specified")
    if map_type not in (None, "atomic", "granular"):
        yield not_supported_in_order(path / _MAP_TYPE, map_type, ("atomic", "granular"))
    if list_type is not None and kind != "array":
        yield _wrong_type(path / "type", kind, f"must be array if {_LIST_TYPE} is specified")
    elif list_type == "set" and isinstance(schema.get("items"), dict):
        yield from _check_set(schema["items"], path / "items")
    if list_type not in (None, "atomic", "set", "map"):
        yield not_supported_in_order(path / _LIST_TYPE, list_type, ("atomic", "set", "map"))
    if schema.get(_MAP_KEYS) and list_type != "map":
        words = f"must be map if {_MAP_KEYS} is non-empty"
        at = path / _LIST_TYPE
        yield required(at, words) if list_type is None else invalid(at, list_type, words)
    if list_type == "map":
        yield from _check_map(schema, path)
    if list_type in ("set", "map") and isinstance(schema.get("items"), dict):
        yield from _check_keys(schema, path / "items")


def _wrong_type(path: Path, kind: str, words: str) -> FieldError:
    return invalid(path, kind, words) if kind else required(path, words)


def _check_set(items: Tree, path: Path) -> Iterator[FieldError]:
    words = f"must be atomic as item of a list with {_LIST_TYPE}=set"
    list_type = items.get(_LIST_TYPE)
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        yield invalid(path / _LIST_TYPE, list_type, words)
    if items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic":
        yield invalid(path / _MAP_TYPE, list_type, words)


def _check_map(schema: Tree, path: Path) -> Iterator[FieldError]:
    keys, items = schema.get(_MAP_KEYS) or [], schema.get("items")
    if not keys:
        yield required(path / _MAP_KEYS, f"must not be empty if {_LIST_TYPE} is map")
    if items is None:
        yield required(path / "items", f"must have a schema if {_LIST_TYPE} is map")
        return
    if not isinstance(items, dict):
        words = f"must only have a single schema if {_LIST_TYPE} is map"
        yield invalid(path / "items", items, words)
        return
    if items.get("type") != "object":
        words = f"must be object if parent array's {_LIST_TYPE} is map"
        yield invalid(path / "items" / "type", items.get("type") or "", words)
        return
    properties = items.get("properties") or {}
    for index, key in enumerate(keys):
        if key not in properties:
            words = "entries must all be names of item properties"
            yield invalid(path / _MAP_KEYS, keys, words)
        elif properties[key].get("type") in ("array", "object"):
            at = (path / "items" / "properties")[key] / "type"
            words = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            yield invalid(at, items["type"], words)
        if key in keys[:index]:
            yield invalid(path / _MAP_KEYS, keys, "must not contain duplicate entries")


def _check_keys(schema: Tree, path: Path) -> Iterator[FieldError]:
    items, list_type = schema["items"], schema[_LIST_TYPE]
    if items.get("nullable"):
        words = f"cannot be nullable when {_LIST_TYPE} is {list_type}"
        yield forbidden(path / "nullable", words)
    if list_type != "map":
        return
    this = f"this property is in {_MAP_KEYS}, so it"
    for key in schema.get(_MAP_KEYS) or ():
        field = (items.get("properties") or {}).get(key)
        if field is None:
            continue
        at = (path / "properties")[key]
        if key not in (items.get("required") or ()) and field.get("default") is None:
            yield required(at / "default", f"{this} must have a default or be a required property")
        if field.get("nullable"):
            yield forbidden(at / "nullable", f"{this} cannot be nullable")
