"""OpenAPI documents as Protobuf: a JSON-shaped document in, the bytes of a message out.

One literal table a message: key in JSON, number of the field, what writes it. Keys that no table
has are left out, keys with `x-` are extensions. Knows nothing of what a document says. Mirrors
OpenAPIv2.proto and OpenAPIv3.proto of google/gnostic-models; free values are YAML texts there, and
JSON is YAML.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import orjson

from kapiserver.api.types import Tree, Value
from kapiserver.codecs.protobuf_wire import encode_varint

Write: TypeAlias = Callable[[Value], bytes]
"""A value to the bytes of a message, without tag and length."""
WriteField: TypeAlias = Callable[[int, Value], bytes]
"""The number of a field and its value to all bytes of the field; none where it is zero."""


def encode_v2(document: Tree) -> bytes:
    """A Swagger 2.0 document as openapi.v2.Document."""
    return _written(_V2, "Document", document)


def encode_v3(document: Tree) -> bytes:
    """An OpenAPI 3 document as openapi.v3.Document."""
    return _written(_V3, "Document", document)


def _block(number: int, data: bytes) -> bytes:
    return encode_varint(number << 3 | 2) + encode_varint(len(data)) + data


def _text(number: int, value: str) -> bytes:
    return _block(number, value.encode()) if value else b""


def _texts(number: int, values: Iterable[str]) -> bytes:
    return b"".join(_block(number, value.encode()) for value in values)


def _flag(number: int, value: bool) -> bytes:
    return encode_varint(number << 3) + b"\x01" if value else b""


def _count(number: int, value: int) -> bytes:
    return encode_varint(number << 3) + encode_varint(value & 0xFFFFFFFFFFFFFFFF) if value else b""


def _double(number: int, value: float) -> bytes:
    return encode_varint(number << 3 | 1) + struct.pack("<d", value) if value else b""


def _any(value: Value) -> bytes:
    return _text(2, orjson.dumps(value).decode() + "\n")


def _free(number: int, value: Value) -> bytes:
    return _block(number, _any(value))


def _frees(number: int, values: Iterable[Value]) -> bytes:
    return b"".join(_free(number, value) for value in values)


def _one(write: Write) -> WriteField:
    return lambda number, value: _block(number, write(value))


def _many(write: Write) -> WriteField:
    return lambda number, values: b"".join(_block(number, write(value)) for value in values)


def _named(write: Write, *, entries: int = 1) -> Write:
    """A message whose `entries` are pairs of a name and a value."""

    def write_all(values: Mapping[str, Value]) -> bytes:
        return b"".join(
            _block(entries, _text(1, name) + _block(2, write(value)))
            for name, value in values.items()
        )

    return write_all


_Tables: TypeAlias = Mapping[str, tuple[int, Mapping[str, tuple[int, WriteField]]]]
"""Message to the number of its extensions and its fields by their keys."""


def _written(tables: _Tables, name: str, tree: Mapping[str, Value]) -> bytes:
    extensions, fields = tables[name]
    written = []
    for key, value in tree.items():
        if key in fields:
            number, write_field = fields[key]
            written.append(write_field(number, value))
        elif key.startswith("x-"):
            written.append(_block(extensions, _text(1, key) + _block(2, _any(value))))
    return b"".join(written)


def _or_reference(write: Write) -> Write:
    """One of the thing itself (1) and a reference to it (2)."""

    def choose(value: Mapping[str, Value]) -> bytes:
        if "$ref" in value:
            return _block(2, _text(1, value["$ref"]))
        return _block(1, write(value))

    return choose


def _schema_or_bool(write: Write) -> Write:
    return lambda value: _flag(2, value) if isinstance(value, bool) else _block(1, write(value))


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
    return {key: (first + at, write) for at, (key, write) in enumerate(_BOUNDS)}


def _v2(name: str) -> Write:
    return lambda tree: _written(_V2, name, tree)  # the table holds itself


def _parameter_v2(value: Mapping[str, Any]) -> bytes:
    if value["in"] == "body":
        return _block(1, _v2("BodyParameter")(value))
    kinds = {"query": 3, "path": 4}
    name = "QueryParameter" if value["in"] == "query" else "PathParameter"
    return _block(2, _block(kinds[value["in"]], _v2(name)(value)))


_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")

_V2: _Tables = {
    "Document": (
        16,
        {
            "swagger": (1, _text),
            "info": (2, _one(_v2("Info"))),
            "paths": (8, _one(_named(_v2("PathItem"), entries=2))),
            "definitions": (9, _one(_named(_v2("Schema")))),
            "parameters": (10, _one(_named(_parameter_v2))),
            "security": (12, _many(_named(lambda values: _texts(1, values)))),
            "securityDefinitions": (13, _one(_named(lambda v: _block(2, _v2("ApiKey")(v))))),
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
            **{method: (at, _one(_v2("Operation"))) for at, method in enumerate(_METHODS, 2)},
            "parameters": (9, _many(_or_reference(_parameter_v2))),
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
            "parameters": (8, _many(_or_reference(_parameter_v2))),
            "responses": (9, _one(_named(_or_reference(_v2("Response"))))),
            "schemes": (10, _texts),
            "deprecated": (11, _flag),
        },
    ),
    "Response": (
        5,
        {"description": (1, _text), "schema": (2, _one(lambda v: _block(1, _v2("Schema")(v))))},
    ),
    "BodyParameter": (
        6,
        {
            "description": (1, _text),
            "name": (2, _text),
            "in": (3, _text),
            "required": (4, _flag),
            "schema": (5, _one(_v2("Schema"))),
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
            "default": (5, _free),
            **_bounds(6),
            "required": (19, _texts),
            "enum": (20, _frees),
            "additionalProperties": (21, _one(_schema_or_bool(_v2("Schema")))),
            "type": (22, lambda number, value: _block(number, _text(1, value))),
            "items": (23, _one(lambda value: _block(1, _v2("Schema")(value)))),
            "allOf": (24, _many(_v2("Schema"))),
            "properties": (25, _one(_named(_v2("Schema")))),
            "example": (30, _free),
        },
    ),
}


def _v3(name: str) -> Write:
    return lambda tree: _written(_V3, name, tree)


_schema_v3 = _or_reference(_v3("Schema"))


def _default_v3(number: int, value: Value) -> bytes:
    """Numbers, booleans and strings; there is no room for anything else."""
    if isinstance(value, bool):
        # Inside a choice a zero is written, too.
        return _block(number, encode_varint(2 << 3) + bytes([value]))
    if isinstance(value, int | float):
        return _block(number, encode_varint(1 << 3 | 1) + struct.pack("<d", value))
    return _block(number, _block(3, value.encode())) if isinstance(value, str) else b""


_MANY_SCHEMAS: WriteField = _many(_schema_v3)

_V3: _Tables = {
    "Document": (
        9,
        {
            "openapi": (1, _text),
            "info": (2, _one(_v3("Info"))),
            "paths": (4, _one(_named(_v3("PathItem")))),
            "components": (5, _one(_v3("Components"))),
            "security": (6, _many(_named(lambda values: _texts(1, values)))),
        },
    ),
    "Info": (7, {"title": (1, _text), "version": (6, _text)}),
    "Components": (
        10,
        {
            "schemas": (1, _one(_named(_schema_v3))),
            "securitySchemes": (7, _one(_named(_or_reference(_v3("SecurityScheme"))))),
        },
    ),
    "SecurityScheme": (
        9,
        {"type": (1, _text), "description": (2, _text), "name": (3, _text), "in": (4, _text)},
    ),
    "PathItem": (
        14,
        {
            **{method: (at, _one(_v3("Operation"))) for at, method in enumerate(_METHODS, 4)},
            "parameters": (13, _many(_or_reference(_v3("Parameter")))),
        },
    ),
    "Operation": (
        13,
        {
            "tags": (1, _texts),
            "description": (3, _text),
            "operationId": (5, _text),
            "parameters": (6, _many(_or_reference(_v3("Parameter")))),
            "requestBody": (7, _one(_or_reference(_v3("RequestBody")))),
            "responses": (8, _one(_named(_or_reference(_v3("Response")), entries=2))),
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
            "schema": (10, _one(_schema_v3)),
        },
    ),
    "RequestBody": (
        4,
        {"content": (2, _one(_named(_v3("MediaType")))), "required": (3, _flag)},
    ),
    "Response": (
        5,
        {"description": (1, _text), "content": (3, _one(_named(_v3("MediaType"))))},
    ),
    "MediaType": (5, {"schema": (1, _one(_schema_v3))}),
    "Schema": (
        36,
        {
            "nullable": (1, _flag),
            "example": (7, _free),
            "title": (9, _text),
            **_bounds(10),
            "required": (23, _texts),
            "enum": (24, _frees),
            "type": (25, _text),
            "allOf": (26, _MANY_SCHEMAS),
            "oneOf": (27, _MANY_SCHEMAS),
            "anyOf": (28, _MANY_SCHEMAS),
            "not": (29, _one(_v3("Schema"))),
            "items": (30, _one(lambda value: _block(1, _schema_v3(value)))),
            "properties": (31, _one(_named(_schema_v3))),
            "additionalProperties": (32, _one(_schema_or_bool(_schema_v3))),
            "default": (33, _default_v3),
            "description": (34, _text),
            "format": (35, _text),
        },
    ),
}
