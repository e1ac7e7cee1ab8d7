"""Validation of a schema: it must be structural, so that the server can prune, default and
validate.

The validation has three parts, each of which runs only if those before found no error. The first
finds keywords that no schema may use. The second has the rules of structural schemas: every value
is specified outside of allOf, anyOf, oneOf and not, which only restrict it. The third checks that
defaults are valid by the schema. Knows no CEL rules. Mirrors
ValidateCustomResourceDefinitionOpenAPISchema, ValidateStructural and ValidateDefaults of
k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api import linear_regex
from kapiserver.api.apiextensions.schema import (
    defaulting,
    list_declarations,
    object_validation,
    pruning,
)
from kapiserver.api.apiextensions.schema.structural import Structural
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_supported, required
from kapiserver.api.go_format import go_map
from kapiserver.api.types import Tree, Value

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_META = ("metadata", "kind", "apiVersion")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_EMPTY: tuple[Value, ...] = (None, "", {})
_EMPTY_REFERENCE = (None,)
_ALTERNATIVES = ("allOf", "oneOf", "anyOf")


def check(schema: Tree, path: Path) -> list[FieldError]:
    """Return the errors that keep a schema from being structural."""
    errors = []
    if schema.get("nullable"):
        errors.append(forbidden(path / "nullable", "nullable cannot be true at the root"))
    errors += _check_schema(schema, path, _Place(is_root=True))
    if keyword := _unconvertible_keyword(schema):
        detail = f"OpenAPIV3Schema '{keyword}' is not supported"
        return errors or [invalid(path, "", detail)]
    structural = sorted(_check_structural(schema, path), key=str)
    if errors or structural:
        return [*structural, *errors]
    return list(_check_defaults(Structural(schema), path, in_metadata=False, is_root=True))


# Keywords that no schema may use.


class _Place(Struct, frozen=True, kw_only=True):
    is_root: bool = False
    in_metadata: bool = False
    no_defaults: str = ""
    """Why a default is not allowed; empty if it is."""


def _check_schema(schema: Tree, path: Path, place: _Place) -> Iterator[FieldError]:
    yield from _check_keywords(schema, path, place)
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(path / "uniqueItems", detail)
    values, properties = schema.get("additionalProperties"), schema.get("properties") or {}
    if values is not None and properties and values is not True:
        detail = "additionalProperties and properties are mutual exclusive"
        yield forbidden(path / "additionalProperties", detail)
    for child, child_path, child_place in _children(schema, path, place):
        yield from _check_schema(child, child_path, child_place)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        child_path = path / "x-kubernetes-preserve-unknown-fields"
        yield invalid(child_path, False, "must be true or undefined")
    yield from list_declarations.check(schema, path)


def _check_keywords(schema: Tree, path: Path, place: _Place) -> Iterator[FieldError]:
    type_ = schema.get("type") or ""
    if type_ and type_ not in _TYPES:
        yield not_supported(path / "type", type_, _TYPES)
    if schema.get("default") is not None and place.no_defaults:
        yield forbidden(path / "default", f"must not be set {place.no_defaults}")
    for name in _UNSUPPORTED:
        if schema.get(name) not in (_EMPTY_REFERENCE if name == "$ref" else _EMPTY):
            yield forbidden(path / name, f"{name} is not supported")
    if type_ == "null":
        detail = "type cannot be set to null, use nullable as an alternative"
        yield forbidden(path / "type", detail)
    if isinstance(schema.get("items"), list):
        yield forbidden(path / "items", "items must be a schema object and not an array")
    if place.in_metadata and schema.get("x-kubernetes-embedded-resource"):
        keyword_path = path / "x-kubernetes-embedded-resource"
        yield forbidden(keyword_path, "must not be used inside of resource meta")


def _unconvertible_keyword(schema: Tree) -> str:
    """Return a keyword with which kube-apiserver cannot make a structural schema, or ""."""
    for name in ("id", "$schema", *_UNSUPPORTED):
        if schema.get(name) not in _EMPTY:
            return name if name != "$schema" else "schema"
    children = _children(schema, Path(""), _Place())
    return next(filter(None, (_unconvertible_keyword(child) for child, _, _ in children)), "")


def _children(schema: Tree, path: Path, place: _Place) -> Iterator[tuple[Tree, Path, _Place]]:
    inner = replace(place, is_root=False)
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        reason = "inside additionalProperties applying to object metadata"
        child_place = replace(inner, no_defaults=reason) if place.in_metadata else inner
        yield values, path / "additionalProperties", child_place
    for name, child in (schema.get("properties") or {}).items():
        child_place = inner
        if name in _META and (place.is_root or schema.get("x-kubernetes-embedded-resource")):
            reason = f"in top-level {name}" if place.is_root else inner.no_defaults
            child_place = replace(inner, in_metadata=True, no_defaults=reason)
        yield child, (path / "properties")[name], child_place
    yield from ((child, child_path, inner) for child, child_path in _alternatives(schema, path))
    items = schema.get("items")
    if isinstance(items, dict):
        yield items, path / "items", inner
    for index, child in enumerate(items if isinstance(items, list) else ()):
        yield child, (path / "items")[index], inner


def _alternatives(schema: Tree, path: Path) -> Iterator[tuple[Tree, Path]]:
    if schema.get("not") is not None:
        yield schema["not"], path / "not"
    for name in _ALTERNATIVES:
        for index, child in enumerate(schema.get(name) or ()):
            yield child, (path / name)[index]


# The rules of structural schemas.


def _check_structural(schema: Tree, path: Path) -> Iterator[FieldError]:
    yield from _check_node(schema, path, "root")
    yield from _check_complete(schema, schema, path, path)


_TYPE_WORDS = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def _check_node(schema: Tree, path: Path, level: str) -> Iterator[FieldError]:
    type_, items = schema.get("type") or "", schema.get("items")
    values, properties = schema.get("additionalProperties"), schema.get("properties") or {}
    if type_ == "array" and items is None:
        yield required(path / "items", "must be specified")
    if isinstance(items, dict):
        yield from _check_node(items, path / "items", "item")
    for name, child in properties.items():
        yield from _check_node(child, (path / "properties")[name], "field")
    if values is not None and level == "root":
        yield forbidden(path / "additionalProperties", "must not be used at the root")
    if isinstance(values, dict):
        yield from _check_node(values, path / "additionalProperties", "field")
    yield from _check_extensions(schema, path)
    yield from _check_restrictions(schema, path, _int_or_string_paths(schema, path))
    yield from _check_type(schema, path, level)
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    yield from _check_metadata(properties, path / "properties", level, embedded)
    if embedded and not schema.get("x-kubernetes-preserve-unknown-fields") and not properties:
        yield required(
            path / "properties",
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields",
        )


def _check_extensions(schema: Tree, path: Path) -> Iterator[FieldError]:
    if not schema.get("x-kubernetes-int-or-string"):
        return
    for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
        if schema.get(name):
            detail = "must be false if x-kubernetes-int-or-string is true"
            yield invalid(path / name, True, detail)


def _check_type(schema: Tree, path: Path, level: str) -> Iterator[FieldError]:
    type_, type_path = schema.get("type") or "", path / "type"
    embedded = schema.get("x-kubernetes-embedded-resource")
    untyped_keywords = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
    if embedded and type_ != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(type_path, type_, detail) if type_ else required(type_path, detail)
    elif not type_ and not any(schema.get(name) for name in untyped_keywords):
        yield required(type_path, _TYPE_WORDS[level])
    if embedded and schema.get("additionalProperties") is not None:
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden(path / "additionalProperties", detail)
    if level == "root" and type_ not in ("", "object"):
        yield invalid(type_path, type_, "must be object at the root")


def _check_metadata(
    properties: Tree, path: Path, level: str, embedded: bool
) -> Iterator[FieldError]:
    if level == "root" or embedded:
        for name, expected in (
            ("kind", "string"),
            ("apiVersion", "string"),
            ("metadata", "object"),
        ):
            if name in properties and (properties[name].get("type") or "") != expected:
                actual = properties[name].get("type") or ""
                yield invalid(path[name] / "type", actual, f"must be {expected}")
    metadata = properties.get("metadata")
    if level == "root" and metadata is not None:
        other_keywords = {
            name: keyword_value
            for name, keyword_value in metadata.items()
            if name not in ("type", "default")
        }
        if (other_keywords.get("properties") or {}).keys() <= {"name", "generateName"}:
            other_keywords.pop("properties", None)
        if other_keywords.keys() - {"example"}:
            detail = "must not specify anything other than name and generateName, but metadata is "
            yield forbidden(path["metadata"], f"{detail}implicitly specified")


_NESTED_FORBIDDEN = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("externalDocs", "must be undefined to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def _int_or_string_paths(schema: Tree, path: Path) -> tuple[Path, ...]:
    # Paths in which int-or-string types may be specified although they only restrict.
    first = (schema.get("allOf") or [{}])[0]
    paths = [path / "anyOf"] if schema.get("anyOf") == _INT_OR_STRING else []
    if first.get("anyOf") == _INT_OR_STRING:
        paths.append((path / "allOf")[0] / "anyOf")
    return tuple(branch[index] for branch in paths for index in (0, 1))


def _check_restrictions(
    schema: Tree, path: Path, declaring: tuple[Path, ...]
) -> Iterator[FieldError]:
    # Checks the restrictions of a value, and in them, recursively, for specifications.
    for child, child_path in _alternatives(schema, path):
        if child_path not in declaring:
            yield from _check_nested(child, child_path, declaring)
    pattern = schema.get("pattern")
    if pattern:
        try:
            linear_regex.compile_pattern(pattern)
        except linear_regex.InvalidPattern as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(path / "pattern", pattern, detail)


def _check_nested(
    schema: Tree, path: Path, declaring: tuple[Path, ...] = ()
) -> Iterator[FieldError]:
    yield from _check_restrictions(schema, path, declaring)
    items = schema.get("items")
    if isinstance(items, dict):
        yield from _check_nested(items, path / "items")
    properties = schema.get("properties") or {}
    for name, child in properties.items():
        yield from _check_nested(child, (path / "properties")[name])
    for name, detail in _NESTED_FORBIDDEN:
        if schema.get(name) not in (None, "", False, []):
            yield forbidden(path / name, detail)
    if "metadata" in properties:
        metadata_path = (path / "properties")["metadata"]
        yield forbidden(metadata_path, "must not be specified in a nested context")


def _check_complete(
    nested: Tree, schema: Tree | None, path: Path, nested_path: Path
) -> Iterator[FieldError]:
    # Every restricted value must be specified.
    for child, child_path in _alternatives(nested, nested_path):
        yield from _check_declared(child, schema, path, child_path)


def _check_declared(
    nested: Tree, schema: Tree | None, path: Path, nested_path: Path
) -> Iterator[FieldError]:
    if schema is None:
        yield required(path, f"because it is defined in {nested_path}")
        return
    yield from _check_complete(nested, schema, path, nested_path)
    items = nested.get("items")
    if isinstance(items, dict):
        items_schema = schema.get("items")
        declared_items = items_schema if isinstance(items_schema, dict) else None
        yield from _check_declared(items, declared_items, path / "items", nested_path / "items")
    properties = schema.get("properties") or {}
    for name, child in (nested.get("properties") or {}).items():
        child_path = (nested_path / "properties")[name]
        yield from _check_declared(
            child, properties.get(name), (path / "properties")[name], child_path
        )


# Defaults that are valid by the schema.


def _check_defaults(
    node: Structural, path: Path, *, in_metadata: bool, is_root: bool
) -> Iterator[FieldError]:
    embedded = node.embedded or is_root
    if node.default is not None:
        child_path = path / "default"
        if not (in_metadata and not node.embedded) and _has_unknown(node):
            yield invalid(child_path, go_map(node.default), "must not have unknown fields")
        yield from object_validation.validate_value(node.default, node, child_path)
    if node.items is not None:
        child_in_metadata = in_metadata and not embedded
        yield from _check_defaults(
            node.items, path / "items", in_metadata=child_in_metadata, is_root=False
        )
    for name, child in node.properties.items():
        child_in_metadata = name in _META if embedded else in_metadata
        child_path = (path / "properties")[name]
        yield from _check_defaults(child, child_path, in_metadata=child_in_metadata, is_root=False)


def _has_unknown(node: Structural) -> bool:
    return bool(pruning.prune_value(defaulting.copy_value(node.default), node))
