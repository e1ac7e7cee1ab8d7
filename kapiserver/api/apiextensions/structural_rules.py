"""What makes a schema one that the server can prune, default and check by.

Three parts, the later only where the earlier found nothing: what no schema may say, what makes it
structural (the value of every field is declared outside of allOf, anyOf, oneOf and not, which only
restrict it), and defaults that the schema itself allows. Knows no rules written in CEL. Mirrors
ValidateCustomResourceDefinitionOpenAPISchema, ValidateStructural and ValidateDefaults of
k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kapiserver.api import linear_regex
from kapiserver.api.apiextensions import (
    pruning,
    schema_defaults,
    schema_lists,
    schema_validation,
)
from kapiserver.api.apiextensions.structural import Structural
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_supported, required
from kapiserver.api.types import Tree

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_META = ("metadata", "kind", "apiVersion")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_ALTERNATIVES = ("allOf", "oneOf", "anyOf")


def check(schema: Tree, path: Path) -> list[FieldError]:
    """What keeps a schema from being structural."""
    found = []
    if schema.get("nullable"):
        found.append(forbidden(path / "nullable", "nullable cannot be true at the root"))
    found += _check_plain(schema, path, _Place(is_root=True))
    structural = sorted(_check_structural(schema, path), key=str)
    if found or structural:
        return [*found, *structural]
    return list(_check_defaults(Structural(schema), path, in_metadata=False, is_root=True))


# What no schema may say.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    is_root: bool = False
    in_metadata: bool = False
    no_defaults: str = ""
    """Why there may be no default; empty where there may be one."""


def _check_plain(schema: Tree, path: Path, place: _Place) -> Iterator[FieldError]:
    yield from _check_keywords(schema, path, place)
    if schema.get("uniqueItems"):
        words = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(path / "uniqueItems", words)
    values, properties = schema.get("additionalProperties"), schema.get("properties") or {}
    if values is not None and properties and values is not True:
        words = "additionalProperties and properties are mutual exclusive"
        yield forbidden(path / "additionalProperties", words)
    for below, at, where in _plain_children(schema, path, place):
        yield from _check_plain(below, at, where)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        at = path / "x-kubernetes-preserve-unknown-fields"
        yield invalid(at, False, "must be true or undefined")
    yield from schema_lists.check(schema, path)


def _check_keywords(schema: Tree, path: Path, place: _Place) -> Iterator[FieldError]:
    kind = schema.get("type") or ""
    if kind and kind not in _TYPES:
        yield not_supported(path / "type", kind, _TYPES)
    if schema.get("default") is not None and place.no_defaults:
        yield forbidden(path / "default", f"must not be set {place.no_defaults}")
    for name in _UNSUPPORTED:
        if schema.get(name) not in (None, "", {}):
            yield forbidden(path / name, f"{name} is not supported")
    if kind == "null":
        words = "type cannot be set to null, use nullable as an alternative"
        yield forbidden(path / "type", words)
    if isinstance(schema.get("items"), list):
        yield forbidden(path / "items", "items must be a schema object and not an array")
    if place.in_metadata and schema.get("x-kubernetes-embedded-resource"):
        at = path / "x-kubernetes-embedded-resource"
        yield forbidden(at, "must not be used inside of resource meta")


def _plain_children(schema: Tree, path: Path, place: _Place) -> Iterator[tuple[Tree, Path, _Place]]:
    inner = replace(place, is_root=False)
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        reason = "inside additionalProperties applying to object metadata"
        where = replace(inner, no_defaults=reason) if place.in_metadata else inner
        yield values, path / "additionalProperties", where
    for name, below in (schema.get("properties") or {}).items():
        where = inner
        if name in _META and (place.is_root or schema.get("x-kubernetes-embedded-resource")):
            reason = f"in top-level {name}" if place.is_root else inner.no_defaults
            where = replace(inner, in_metadata=True, no_defaults=reason)
        yield below, (path / "properties")[name], where
    yield from ((below, at, inner) for below, at in _alternatives(schema, path))
    items = schema.get("items")
    if isinstance(items, dict):
        yield items, path / "items", inner
    for index, below in enumerate(items if isinstance(items, list) else ()):
        yield below, (path / "items")[index], inner


def _alternatives(schema: Tree, path: Path) -> Iterator[tuple[Tree, Path]]:
    if schema.get("not") is not None:
        yield schema["not"], path / "not"
    for name in _ALTERNATIVES:
        for index, below in enumerate(schema.get(name) or ()):
            yield below, (path / name)[index]


# What makes a schema structural.


def _check_structural(schema: Tree, path: Path) -> Iterator[FieldError]:
    yield from _check_node(schema, path, "root")
    yield from _check_complete(schema, schema, path, path)


_TYPE_WORDS = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def _check_node(schema: Tree, path: Path, level: str) -> Iterator[FieldError]:
    kind, items = schema.get("type") or "", schema.get("items")
    values, properties = schema.get("additionalProperties"), schema.get("properties") or {}
    if kind == "array" and items is None:
        yield required(path / "items", "must be specified")
    if isinstance(items, dict):
        yield from _check_node(items, path / "items", "item")
    for name, below in properties.items():
        yield from _check_node(below, (path / "properties")[name], "field")
    if values is not None and level == "root":
        yield forbidden(path / "additionalProperties", "must not be used at the root")
    if isinstance(values, dict):
        yield from _check_node(values, path / "additionalProperties", "field")
    yield from _check_extensions(schema, path)
    yield from _check_restrictions(schema, path, _declaring(schema, path))
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
            words = "must be false if x-kubernetes-int-or-string is true"
            yield invalid(path / name, True, words)


def _check_type(schema: Tree, path: Path, level: str) -> Iterator[FieldError]:
    kind, at = schema.get("type") or "", path / "type"
    embedded = schema.get("x-kubernetes-embedded-resource")
    free = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
    if embedded and kind != "object":
        words = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(at, kind, words) if kind else required(at, words)
    elif not kind and not any(schema.get(name) for name in free):
        yield required(at, _TYPE_WORDS[level])
    if embedded and schema.get("additionalProperties") is not None:
        words = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden(path / "additionalProperties", words)
    if level == "root" and kind not in ("", "object"):
        yield invalid(at, kind, "must be object at the root")


def _check_metadata(
    properties: Tree, path: Path, level: str, embedded: bool
) -> Iterator[FieldError]:
    if level == "root" or embedded:
        for name, kind in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
            if name in properties and (properties[name].get("type") or "") != kind:
                actual = properties[name].get("type") or ""
                yield invalid(path[name] / "type", actual, f"must be {kind}")
    metadata = properties.get("metadata")
    if level == "root" and metadata is not None:
        rest = {name: one for name, one in metadata.items() if name not in ("type", "default")}
        if (rest.get("properties") or {}).keys() <= {"name", "generateName"}:
            rest.pop("properties", None)
        if rest.keys() - {"example"}:
            words = "must not specify anything other than name and generateName, but metadata is "
            yield forbidden(path["metadata"], f"{words}implicitly specified")


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


def _declaring(schema: Tree, path: Path) -> tuple[Path, ...]:
    # Where an int or a string may be declared although it only restricts.
    first = (schema.get("allOf") or [{}])[0]
    found = [path / "anyOf"] if schema.get("anyOf") == _INT_OR_STRING else []
    if first.get("anyOf") == _INT_OR_STRING:
        found.append((path / "allOf")[0] / "anyOf")
    return tuple(at[index] for at in found for index in (0, 1))


def _check_restrictions(
    schema: Tree, path: Path, declaring: tuple[Path, ...]
) -> Iterator[FieldError]:
    # What only restricts a value, and in it, all the way down, what would declare one.
    for below, at in _alternatives(schema, path):
        if at not in declaring:
            yield from _check_nested(below, at, declaring)
    pattern = schema.get("pattern")
    if pattern:
        try:
            linear_regex.compile_pattern(pattern)
        except linear_regex.InvalidPattern as error:
            words = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(path / "pattern", pattern, words)


def _check_nested(
    schema: Tree, path: Path, declaring: tuple[Path, ...] = ()
) -> Iterator[FieldError]:
    yield from _check_restrictions(schema, path, declaring)
    items = schema.get("items")
    if isinstance(items, dict):
        yield from _check_nested(items, path / "items")
    properties = schema.get("properties") or {}
    for name, below in properties.items():
        yield from _check_nested(below, (path / "properties")[name])
    for name, words in _NESTED_FORBIDDEN:
        if schema.get(name) not in (None, "", False, []):
            yield forbidden(path / name, words)
    if "metadata" in properties:
        at = (path / "properties")["metadata"]
        yield forbidden(at, "must not be specified in a nested context")


def _check_complete(
    nested: Tree, schema: Tree | None, path: Path, nested_path: Path
) -> Iterator[FieldError]:
    # What is restricted must be declared.
    for below, at in _alternatives(nested, nested_path):
        yield from _check_declared(below, schema, path, at)


def _check_declared(
    nested: Tree, schema: Tree | None, path: Path, nested_path: Path
) -> Iterator[FieldError]:
    if schema is None:
        yield required(path, f"because it is defined in {nested_path}")
        return
    yield from _check_complete(nested, schema, path, nested_path)
    items = nested.get("items")
    if isinstance(items, dict):
        known = schema.get("items")
        declared = known if isinstance(known, dict) else None
        yield from _check_declared(items, declared, path / "items", nested_path / "items")
    fields = schema.get("properties") or {}
    for name, below in (nested.get("properties") or {}).items():
        at = (nested_path / "properties")[name]
        yield from _check_declared(below, fields.get(name), (path / "properties")[name], at)


# Defaults that the schema itself allows.


def _check_defaults(
    node: Structural, path: Path, *, in_metadata: bool, is_root: bool
) -> Iterator[FieldError]:
    embedded = node.embedded or is_root
    if node.default is not None:
        at = path / "default"
        if not (in_metadata and not node.embedded) and _has_unknown(node):
            yield invalid(at, node.default, "must not have unknown fields")
        yield from schema_validation.validate_value(node.default, node, at)
    if node.items is not None:
        inside = in_metadata and not embedded
        yield from _check_defaults(node.items, path / "items", in_metadata=inside, is_root=False)
    for name, child in node.properties.items():
        inside = name in _META if embedded else in_metadata
        at = (path / "properties")[name]
        yield from _check_defaults(child, at, in_metadata=inside, is_root=False)


def _has_unknown(node: Structural) -> bool:
    return bool(pruning.prune_value(schema_defaults.copy_value(node.default), node))
