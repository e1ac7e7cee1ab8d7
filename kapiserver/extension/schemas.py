"""Structural schemas of classes: the JSON schema of msgspec or pydantic, in Kubernetes' form.

Docstrings and `Meta(description=...)` become descriptions, the bounds of `Meta` become keywords,
`Literal` and `Enum` become enums, defaults become defaults. `Meta(extra_json_schema=...)` adds
keywords of Kubernetes, such as `x-kubernetes-list-type` or `x-kubernetes-validations`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kapiserver.api.types import Tree
from kapiserver.extension.models import model_schema
from kapiserver.extension.objects import Object

_TYPES: Mapping[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
_KEPT = (
    "default", "description", "enum", "format", "maxItems", "maxLength", "maxProperties", "maximum",
    "minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern", "required",
    "type", "exclusiveMaximum", "exclusiveMinimum", "nullable",
)  # fmt: skip
"""The keywords that mean the same in both forms."""
_EMPTY: tuple[Any, ...] = (None, "", [], {})
"""Values of keywords that say nothing. A field with such a default is absent unless it is set."""
_TYPE_META = ("apiVersion", "kind", "metadata")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_DEFINITIONS = "$defs"
_REFERENCE = f"#/{_DEFINITIONS}/"


class UnusableType(TypeError):
    """A class has a field that no structural schema can describe. The message has its path."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")


def object_schema(type_: type[Object]) -> Tree:
    """Return the structural schema of the objects of a class, without the fields that all objects
    have. Raises UnusableType."""
    (reference,), components = msgspec.json.schema_components([type_], schema_hook=model_schema)
    converter = _Converter(components)
    schema = converter.convert(reference, type_.__name__, ())
    properties: Tree = schema["properties"]
    for name in _TYPE_META:
        properties.pop(name, None)
    return schema


class _Converter:
    """Converts JSON schemas; `components` has those that others refer to, by name."""

    def __init__(self, components: Mapping[str, Tree]) -> None:
        self._components = components

    def convert(self, schema: Tree, path: str, parents: tuple[str, ...]) -> Tree:
        """Return the structural schema; `parents` has the names of the classes around it."""
        definitions = schema.get(_DEFINITIONS)
        if definitions is not None:  # of a model of pydantic
            rest = {name: value for name, value in schema.items() if name != _DEFINITIONS}
            return _Converter(definitions).convert(rest, path, ())
        reference = schema.get("$ref")
        if reference is not None:
            name = reference.removeprefix(_REFERENCE)
            if name in parents:
                raise UnusableType(path, f"{name} contains itself, which a schema cannot describe")
            schema = {**self._components[name], **schema}
            parents = (*parents, name)
        if "anyOf" in schema:
            return self._convert_union(schema, path, parents)
        converted = _keywords(schema)
        if "properties" in schema:
            fields: Mapping[str, Tree] = schema["properties"]
            converted["properties"] = {
                name: self.convert(field, f"{path}.{name}", parents)
                for name, field in fields.items()
            }
        if isinstance(schema.get("items"), dict):
            converted["items"] = self.convert(schema["items"], f"{path}[]", parents)
        if isinstance(schema.get("additionalProperties"), dict):
            values = self.convert(schema["additionalProperties"], f"{path}[]", parents)
            converted["additionalProperties"] = values
        return _completed(converted, path)

    def _convert_union(self, schema: Tree, path: str, parents: tuple[str, ...]) -> Tree:
        """Return the schema of a union: of a type and None, or of an integer and a string."""
        others = {name: value for name, value in schema.items() if name not in ("anyOf", "$ref")}
        members: Sequence[Tree] = [
            member for member in schema["anyOf"] if member.get("type") != "null"
        ]
        if len(members) == 1:
            return self.convert({**members[0], **others}, path, parents)
        if sorted(member.get("type", "") for member in members) == ["integer", "string"]:
            return {**_keywords(others), "x-kubernetes-int-or-string": True}
        raise UnusableType(path, "a schema can describe no union but `int | str` and `X | None`")


def _keywords(schema: Tree) -> Tree:
    converted = {name: schema[name] for name in _KEPT if schema.get(name) not in _EMPTY}
    converted |= {name: value for name, value in schema.items() if name.startswith("x-kubernetes-")}
    for bound in ("Maximum", "Minimum"):  # OpenAPI 3.0 has the number in the other keyword
        if f"exclusive{bound}" in converted:
            converted[bound.lower()] = converted[f"exclusive{bound}"]
            converted[f"exclusive{bound}"] = True
    if "const" in schema:
        converted["enum"] = [schema["const"]]
    if "properties" in schema and schema.get("additionalProperties") is True:
        converted[_PRESERVE] = True
    if schema.get("contentEncoding") == "base64":
        converted["format"] = "byte"
    return converted


def _completed(schema: Tree, path: str) -> Tree:
    """Return a schema with the type, which structural schemas must have, and with
    `x-kubernetes-preserve-unknown-fields` if the class says nothing about the value."""
    if "type" not in schema and "enum" in schema:
        schema["type"] = _TYPES[type(schema["enum"][0])]
    if schema.get("type") == "array" and "items" not in schema:
        raise UnusableType(path, "a list needs the type of its items")
    is_open = schema.get("type") == "object" and not (
        "properties" in schema or "additionalProperties" in schema
    )
    if "type" not in schema or is_open:
        schema[_PRESERVE] = True
    return schema
