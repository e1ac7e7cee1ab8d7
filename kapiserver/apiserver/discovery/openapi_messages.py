"""Encodes OpenAPI documents as Protobuf messages.

Each message is a table: the key in JSON, the number of the field, the function that encodes it.
Other keys are left out, except extensions, which begin with `x-`. Knows no particular document.
Mirrors OpenAPIv2.proto and OpenAPIv3.proto of google/gnostic-models, which encode values of any
type as YAML text; JSON is YAML.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import orjson

from kapiserver.api.types import Tree, Value
from kapiserver.codecs.protobuf.wire import encode_varint

Write: TypeAlias = Callable[[Value], bytes]
"""Encodes a value as a message, without tag and length."""
WriteField: TypeAlias = Callable[[int, Value], bytes]
"""Encodes a field of that number with a value; returns b"" for a zero value."""


def encode_v2(document: Tree) -> bytes:
    """Encode a Swagger 2.0 document as openapi.v2.Document."""
    return _encode_message(_V2, "Document", document)


def encode_v3(document: Tree) -> bytes:
    """Encode an OpenAPI 3 document as openapi.v3.Document."""
    return _encode_message(_V3, "Document", document)


def _length_delimited(number: int, data: bytes) -> bytes:
    return encode_varint(number << 3 | 2) + encode_varint(len(data)) + data


def _text(number: int, value: str) -> bytes:
    return _length_delimited(number, value.encode()) if value else b""


def _texts(number: int, values: Iterable[str]) -> bytes:
    return b"".join(_length_delimited(number, value.encode()) for value in values)


def _flag(number: int, value: bool) -> bytes:
    return encode_varint(number << 3) + b"\x01" if value else b""


def _count(number: int, value: int) -> bytes:
    return encode_varint(number << 3) + encode_varint(value & 0xFFFFFFFFFFFFFFFF) if value else b""


def _double(number: int, value: float) -> bytes:
    return encode_varint(number << 3 | 1) + struct.pack("<d", value) if value else b""


def _any(value: Value) -> bytes:
    return _text(2, orjson.dumps(value).decode() + "\n")


def _any_field(number: int, value: Value) -> bytes:
    return _length_delimited(number, _any(value))


def _repeated_any_field(number: int, values: Iterable[Value]) -> bytes:
    return b"".join(_any_field(number, value) for value in values)


def _message_field(write: Write) -> WriteField:
    return lambda number, value: _length_delimited(number, write(value))


def _repeated_field(write: Write) -> WriteField:
    return lambda number, values: b"".join(
        _length_delimited(number, write(value)) for value in values
    )


def _map_message(write: Write, *, entries: int = 1) -> Write:
    """Return the encoder of a message whose repeated field `entries` has names and values."""

    def write_all(values: Mapping[str, Value]) -> bytes:
        return b"".join(
            _length_delimited(entries, _text(1, name) + _length_delimited(2, write(value)))
            for name, value in values.items()
        )

    return write_all


_Tables: TypeAlias = Mapping[str, tuple[int, Mapping[str, tuple[int, WriteField]]]]
"""The number of the extensions field of each message, and its fields by key."""


def _encode_message(tables: _Tables, name: str, tree: Mapping[str, Value]) -> bytes:
    extensions, fields = tables[name]
    encoded_fields = []
    for key, value in tree.items():
        if key in fields:
            number, write_field = fields[key]
            encoded_fields.append(write_field(number, value))
        elif key.startswith("x-"):
            encoded_fields.append(
                _length_delimited(extensions, _text(1, key) + _length_delimited(2, _any(value)))
            )
    return b"".join(encoded_fields)


def _or_reference(write: Write) -> Write:
    """Return the encoder of a oneof: the value (field 1) or a reference to it (field 2)."""

    def choose(value: Mapping[str, Value]) -> bytes:
        if "$ref" in value:
            return _length_delimited(2, _text(1, value["$ref"]))
        return _length_delimited(1, write(value))

    return choose


def _schema_or_bool(write: Write) -> Write:
    return lambda value: (
        _flag(2, value) if isinstance(value, bool) else _length_delimited(1, write(value))
    )


_BOUNDS: tuple[tuple[str, WriteField], ...] = (
    ("multipleOf", _double),
    ("maximum", _double),
    ("exclusiveMaximum", _flag),
    ("minimum", _double),
    ("exclusiveMinimum", _flag),
    ("maxLength", _count),
    ("minLength", _count),
    ("pattern", _text),
    ("maxItems", _count),
    ("minItems", _count),
    ("uniqueItems", _flag),
    ("maxProperties", _count),
    ("minProperties", _count),
)


def _bounds(first: int) -> dict[str, tuple[int, WriteField]]:
    return {key: (first + index, write) for index, (key, write) in enumerate(_BOUNDS)}


def _v2(name: str) -> Write:
    return lambda tree: _encode_message(_V2, name, tree)  # read later: the table refers to itself


def _parameter_v2(value: Mapping[str, Any]) -> bytes:
    if value["in"] == "body":
        return _length_delimited(1, _v2("BodyParameter")(value))
    kinds = {"query": 3, "path": 4}
    name = "QueryParameter" if value["in"] == "query" else "PathParameter"
    return _length_delimited(2, _length_delimited(kinds[value["in"]], _v2(name)(value)))


_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")

_V2: _Tables = {
    "Document": (
        16,
        {
            "swagger": (1, _text),
            "info": (2, _message_field(_v2("Info"))),
            "paths": (8, _message_field(_map_message(_v2("PathItem"), entries=2))),
            "definitions": (9, _message_field(_map_message(_v2("Schema")))),
            "parameters": (10, _message_field(_map_message(_parameter_v2))),
            "security": (12, _repeated_field(_map_message(lambda values: _texts(1, values)))),
            "securityDefinitions": (
                13,
                _message_field(_map_message(lambda v: _length_delimited(2, _v2("ApiKey")(v)))),
            ),
        },
    ),
    "Info": (7, {"title": (1, _text), "version": (2, _text)}),
    "ApiKey": (
        5,
        {"type": (1, _text), "name": (2, _text), "in": (3, _text), "description": (4, _text)},
    ),
    "PathItem": (
        10,
        {
            **{
                method: (at, _message_field(_v2("Operation")))
                for at, method in enumerate(_METHODS, 2)
            },
            "parameters": (9, _repeated_field(_or_reference(_parameter_v2))),
        },
    ),
    "Operation": (
        13,
        {
            "tags": (1, _texts),
            "description": (3, _text),
            "operationId": (5, _text),
            "produces": (6, _texts),
            "consumes": (7, _texts),
            "parameters": (8, _repeated_field(_or_reference(_parameter_v2))),
            "responses": (9, _message_field(_map_message(_or_reference(_v2("Response"))))),
            "schemes": (10, _texts),
            "deprecated": (11, _flag),
        },
    ),
    "Response": (
        5,
        {
            "description": (1, _text),
            "schema": (2, _message_field(lambda v: _length_delimited(1, _v2("Schema")(v)))),
        },
    ),
    "BodyParameter": (
        6,
        {
            "description": (1, _text),
            "name": (2, _text),
            "in": (3, _text),
            "required": (4, _flag),
            "schema": (5, _message_field(_v2("Schema"))),
        },
    ),
    "QueryParameter": (
        23,
        {
            "required": (1, _flag),
            "in": (2, _text),
            "description": (3, _text),
            "name": (4, _text),
            "type": (6, _text),
            "format": (7, _text),
            "uniqueItems": (20, _flag),
        },
    ),
    "PathParameter": (
        22,
        {
            "required": (1, _flag),
            "in": (2, _text),
            "description": (3, _text),
            "name": (4, _text),
            "type": (5, _text),
            "format": (6, _text),
            "uniqueItems": (19, _flag),
        },
    ),
    "Schema": (
        31,
        {
            "$ref": (1, _text),
            "format": (2, _text),
            "title": (3, _text),
            "description": (4, _text),
            "default": (5, _any_field),
            **_bounds(6),
            "required": (19, _texts),
            "enum": (20, _repeated_any_field),
            "additionalProperties": (21, _message_field(_schema_or_bool(_v2("Schema")))),
            "type": (22, lambda number, value: _length_delimited(number, _text(1, value))),
            "items": (23, _message_field(lambda value: _length_delimited(1, _v2("Schema")(value)))),
            "allOf": (24, _repeated_field(_v2("Schema"))),
            "properties": (25, _message_field(_map_message(_v2("Schema")))),
            "example": (30, _any_field),
        },
    ),
}


def _v3(name: str) -> Write:
    return lambda tree: _encode_message(_V3, name, tree)


_schema_v3 = _or_reference(_v3("Schema"))


def _default_v3(number: int, value: Value) -> bytes:
    """Encode a number, boolean or string; the message has no field for other defaults."""
    if isinstance(value, bool):
        # A field of a oneof is written even if it is false.
        return _length_delimited(number, encode_varint(2 << 3) + bytes([value]))
    if isinstance(value, int | float):
        return _length_delimited(number, encode_varint(1 << 3 | 1) + struct.pack("<d", value))
    return (
        _length_delimited(number, _length_delimited(3, value.encode()))
        if isinstance(value, str)
        else b""
    )


_SCHEMAS: WriteField = _repeated_field(_schema_v3)

_V3: _Tables = {
    "Document": (
        9,
        {
            "openapi": (1, _text),
            "info": (2, _message_field(_v3("Info"))),
            "paths": (4, _message_field(_map_message(_v3("PathItem")))),
            "components": (5, _message_field(_v3("Components"))),
            "security": (6, _repeated_field(_map_message(lambda values: _texts(1, values)))),
        },
    ),
    "Info": (7, {"title": (1, _text), "version": (6, _text)}),
    "Components": (
        10,
        {
            "schemas": (1, _message_field(_map_message(_schema_v3))),
            "securitySchemes": (
                7,
                _message_field(_map_message(_or_reference(_v3("SecurityScheme")))),
            ),
        },
    ),
    "SecurityScheme": (
        9,
        {"type": (1, _text), "description": (2, _text), "name": (3, _text), "in": (4, _text)},
    ),
    "PathItem": (
        14,
        {
            **{
                method: (at, _message_field(_v3("Operation")))
                for at, method in enumerate(_METHODS, 4)
            },
            "parameters": (13, _repeated_field(_or_reference(_v3("Parameter")))),
        },
    ),
    "Operation": (
        13,
        {
            "tags": (1, _texts),
            "description": (3, _text),
            "operationId": (5, _text),
            "parameters": (6, _repeated_field(_or_reference(_v3("Parameter")))),
            "requestBody": (7, _message_field(_or_reference(_v3("RequestBody")))),
            "responses": (
                8,
                _message_field(_map_message(_or_reference(_v3("Response")), entries=2)),
            ),
            "deprecated": (10, _flag),
        },
    ),
    "Parameter": (
        14,
        {
            "name": (1, _text),
            "in": (2, _text),
            "description": (3, _text),
            "required": (4, _flag),
            "schema": (10, _message_field(_schema_v3)),
        },
    ),
    "RequestBody": (
        4,
        {"content": (2, _message_field(_map_message(_v3("MediaType")))), "required": (3, _flag)},
    ),
    "Response": (
        5,
        {"description": (1, _text), "content": (3, _message_field(_map_message(_v3("MediaType"))))},
    ),
    "MediaType": (5, {"schema": (1, _message_field(_schema_v3))}),
    "Schema": (
        36,
        {
            "nullable": (1, _flag),
            "example": (7, _any_field),
            "title": (9, _text),
            **_bounds(10),
            "required": (23, _texts),
            "enum": (24, _repeated_any_field),
            "type": (25, _text),
            "allOf": (26, _SCHEMAS),
            "oneOf": (27, _SCHEMAS),
            "anyOf": (28, _SCHEMAS),
            "not": (29, _message_field(_v3("Schema"))),
            "items": (30, _message_field(lambda value: _length_delimited(1, _schema_v3(value)))),
            "properties": (31, _message_field(_map_message(_schema_v3))),
            "additionalProperties": (32, _message_field(_schema_or_bool(_schema_v3))),
            "default": (33, _default_v3),
            "description": (34, _text),
            "format": (35, _text),
        },
    ),
}
