"""Decodes OpenAPI in Protobuf with Google's runtime and descriptors of our own. Counterpart of
`apiserver/discovery/openapi_messages.py`.

The tables name the fields that the documents use: message -> key in JSON -> (number, type).
"""

from typing import Any

import yaml
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_ANY = {"yaml": (2, "string")}
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_BOUNDS = (
    "multipleOf double", "maximum double", "exclusiveMaximum bool", "minimum double",
    "exclusiveMinimum bool", "maxLength int64", "minLength int64", "pattern string",
    "maxItems int64", "minItems int64", "uniqueItems bool", "maxProperties int64",
    "minProperties int64",
)  # fmt: skip


def _bounds(first_number: int) -> dict[str, tuple[int, str]]:
    pairs = (entry.split() for entry in _BOUNDS)
    return {name: (number, type_) for number, (name, type_) in enumerate(pairs, first_number)}


def _named(type_: str) -> dict[str, tuple[int, str]]:
    return {"name": (1, "string"), "value": (2, type_)}


_SHARED = {
    "Any": _ANY,
    "NamedAny": _named("Any"),
    "Strings": {"value": (1, "*string")},
    "NamedStrings": _named("Strings"),
    "Requirement": {"entries": (1, "*NamedStrings")},
}
V2: dict[str, dict[str, tuple[int, str]]] = {
    **_SHARED,
    "Document": {
        "swagger": (1, "string"), "info": (2, "Info"), "paths": (8, "Paths"),
        "definitions": (9, "Schemas"), "parameters": (10, "Parameters"),
        "security": (12, "*Requirement"), "securityDefinitions": (13, "Securities"),
    },
    "Info": {"title": (1, "string"), "version": (2, "string")},
    "Paths": {"x": (1, "*NamedAny"), "entries": (2, "*NamedPath")},
    "NamedPath": _named("Path"),
    "Path": {**{m: (n, "Operation") for n, m in enumerate(_METHODS, 2)},
             "parameters": (9, "*ParameterItem")},
    "Operation": {
        "tags": (1, "*string"), "description": (3, "string"), "operationId": (5, "string"),
        "produces": (6, "*string"), "consumes": (7, "*string"),
        "parameters": (8, "*ParameterItem"), "responses": (9, "Responses"),
        "schemes": (10, "*string"), "x": (13, "*NamedAny"),
    },
    "ParameterItem": {"choice1": (1, "Parameter"), "choice2": (2, "Reference")},
    "Reference": {"$ref": (1, "string")},
    "Parameters": {"entries": (1, "*NamedParameter")},
    "NamedParameter": _named("Parameter"),
    "Parameter": {"choice1": (1, "Body"), "choice2": (2, "NonBody")},
    "NonBody": {"choice3": (3, "Query"), "choice4": (4, "InPath")},
    "Body": {"description": (1, "string"), "name": (2, "string"), "in": (3, "string"),
             "required": (4, "bool"), "schema": (5, "Schema")},
    "Query": {"required": (1, "bool"), "in": (2, "string"), "description": (3, "string"),
              "name": (4, "string"), "type": (6, "string"), "uniqueItems": (20, "bool")},
    "InPath": {"required": (1, "bool"), "in": (2, "string"), "description": (3, "string"),
               "name": (4, "string"), "type": (5, "string"), "uniqueItems": (19, "bool")},
    "Responses": {"entries": (1, "*NamedResponse")},
    "NamedResponse": _named("ResponseItem"),
    "ResponseItem": {"choice1": (1, "Response"), "choice2": (2, "Reference")},
    "Response": {"description": (1, "string"), "schema": (2, "SchemaItem")},
    "SchemaItem": {"choice1": (1, "Schema")},
    "Schemas": {"entries": (1, "*NamedSchema")},
    "NamedSchema": _named("Schema"),
    "Schema": {
        "$ref": (1, "string"), "format": (2, "string"), "title": (3, "string"),
        "description": (4, "string"), "default": (5, "Any"), **_bounds(6),
        "required": (19, "*string"), "enum": (20, "*Any"),
        "additionalProperties": (21, "SchemaItem"), "type": (22, "OneString"),
        "items": (23, "OneSchema"), "allOf": (24, "*Schema"), "properties": (25, "Schemas"),
        "x": (31, "*NamedAny"),
    },
    "OneString": {"only": (1, "*string")},
    "OneSchema": {"only": (1, "*Schema")},
    "Securities": {"entries": (1, "*NamedSecurity")},
    "NamedSecurity": _named("Security"),
    "Security": {"choice2": (2, "ApiKey")},
    "ApiKey": {"type": (1, "string"), "name": (2, "string"), "in": (3, "string"),
               "description": (4, "string")},
}  # fmt: skip
V3: dict[str, dict[str, tuple[int, str]]] = {
    **_SHARED,
    "Document": {"openapi": (1, "string"), "info": (2, "Info"), "paths": (4, "Paths"),
                 "components": (5, "Components")},
    "Info": {"title": (1, "string"), "version": (6, "string")},
    "Components": {"schemas": (1, "Schemas"), "securitySchemes": (7, "Securities")},
    "Securities": {"entries": (1, "*NamedSecurity")},
    "NamedSecurity": _named("SecurityItem"),
    "SecurityItem": {"choice1": (1, "Security"), "choice2": (2, "Reference")},
    "Security": {"type": (1, "string"), "description": (2, "string"), "name": (3, "string"),
                 "in": (4, "string")},
    "Paths": {"entries": (1, "*NamedPath")},
    "NamedPath": _named("Path"),
    "Path": {**{m: (n, "Operation") for n, m in enumerate(_METHODS, 4)},
             "parameters": (13, "*ParameterItem")},
    "Operation": {
        "tags": (1, "*string"), "description": (3, "string"), "operationId": (5, "string"),
        "parameters": (6, "*ParameterItem"), "requestBody": (7, "BodyItem"),
        "responses": (8, "Responses"), "x": (13, "*NamedAny"),
    },
    "ParameterItem": {"choice1": (1, "Parameter"), "choice2": (2, "Reference")},
    "Parameter": {"name": (1, "string"), "in": (2, "string"), "description": (3, "string"),
                  "required": (4, "bool"), "schema": (10, "SchemaItem")},
    "BodyItem": {"choice1": (1, "Body"), "choice2": (2, "Reference")},
    "Body": {"content": (2, "Media"), "required": (3, "bool")},
    "Responses": {"entries": (2, "*NamedResponse")},
    "NamedResponse": _named("ResponseItem"),
    "ResponseItem": {"choice1": (1, "Response"), "choice2": (2, "Reference")},
    "Response": {"description": (1, "string"), "content": (3, "Media")},
    "Media": {"entries": (1, "*NamedMedia")},
    "NamedMedia": _named("OneMedia"),
    "OneMedia": {"schema": (1, "SchemaItem")},
    "Reference": {"$ref": (1, "string")},
    "SchemaItem": {"choice1": (1, "Schema"), "choice2": (2, "Reference")},
    "Schemas": {"entries": (1, "*NamedSchema")},
    "NamedSchema": _named("SchemaItem"),
    "Default": {"number": (1, "?double"), "boolean": (2, "?bool"), "string": (3, "?string")},
    "Schema": {
        "title": (9, "string"), **_bounds(10), "required": (23, "*string"), "enum": (24, "*Any"),
        "type": (25, "string"), "allOf": (26, "*SchemaItem"), "oneOf": (27, "*SchemaItem"),
        "anyOf": (28, "*SchemaItem"), "items": (30, "OneSchema"), "properties": (31, "Schemas"),
        "additionalProperties": (32, "More"), "default": (33, "Default"),
        "description": (34, "string"), "format": (35, "string"), "x": (36, "*NamedAny"),
    },
    "OneSchema": {"only": (1, "*SchemaItem")},
    "More": {"choice1": (1, "SchemaItem")},
}  # fmt: skip

_SCALARS = {"string": 9, "bool": 8, "int64": 3, "double": 1}


def decode(data: bytes, tables: dict[str, dict[str, tuple[int, str]]]) -> Any:
    """Decode the message and return the document as a JSON tree."""
    file = descriptor_pb2.FileDescriptorProto(name="d.proto", package="d", syntax="proto2")
    for name, fields in tables.items():
        message = file.message_type.add(name=name)
        for number, type_ in fields.values():
            field = message.field.add(name=f"f{number}", number=number, label=1)
            if type_.startswith("*"):
                field.label = 3
            type_ = type_.lstrip("*?")
            if type_ in _SCALARS:
                field.type = _SCALARS[type_]
            else:
                field.type, field.type_name = 11, f".d.{type_}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    class_ = message_factory.GetMessageClass(pool.FindMessageTypeByName("d.Document"))
    return _tree(class_.FromString(data), tables)


def _tree(message: Any, tables: dict[str, dict[str, tuple[int, str]]]) -> Any:
    name = message.DESCRIPTOR.name
    keys = {number: key for key, (number, _) in tables[name].items()}
    tree: dict[str, Any] = {}
    for field, value in message.ListFields():
        repeated = hasattr(value, "append") and not isinstance(value, str | bytes)
        plain = field.type != 11
        values = [
            item if plain else _tree(item, tables) for item in (value if repeated else [value])
        ]
        tree[keys[field.number]] = values if repeated else values[0]
    if name == "Any":
        return yaml.safe_load(tree["yaml"])
    if name == "Strings":
        return tree.get("value", [])
    if name in ("Default", "OneString", "OneSchema") or "choice" in next(iter(tree), ""):
        (choice,) = tree.values()
        return choice[0] if isinstance(choice, list) else choice
    if tables[name].keys() & {"entries"}:
        return {entry["name"]: entry.get("value", {}) for entry in tree.get("entries", [])}
    for extension in tree.pop("x", []):
        tree[extension["name"]] = extension["value"]
    return tree
