"""Values of several shapes in JSON schemas; each version declares their messages.

Knows no schema. Mirrors the JSON forms of k8s.io/apiextensions-apiserver/pkg/apis/apiextensions.
"""

from __future__ import annotations

from typing import ClassVar

from kapiserver.api.scalar_types import RawExtension
from kapiserver.api.types import Tree, Value, Variant


class FreeJSON(RawExtension):
    """Any JSON value; null is the same as no value."""

    package: ClassVar[str] = ""
    openapi: ClassVar[Tree] = {}


class SchemaOrSchemas(Variant):
    """A schema, a list of schemas, or null."""

    @classmethod
    def to_message(cls, value: Value) -> Tree:
        if isinstance(value, dict):
            return {"schema": value}
        return {"jSONSchemas": value} if isinstance(value, list) else {}

    @classmethod
    def from_message(cls, message: Tree) -> Value:
        return message.get("jSONSchemas") or message.get("schema")


class SchemaOrBool(Variant):
    """A schema or a bool; with a schema, the message's bool is true."""

    @classmethod
    def to_message(cls, value: Value) -> Tree:
        if isinstance(value, dict):
            return {"allows": True, "schema": value}
        if value is not None and not isinstance(value, bool):
            raise ValueError("boolean or JSON schema expected")
        return {"allows": bool(value)}

    @classmethod
    def from_message(cls, message: Tree) -> Value:
        schema = message.get("schema")
        return bool(message.get("allows")) if schema is None else schema


class SchemaOrNames(Variant):
    """A schema, a list of property names, or null."""

    @classmethod
    def to_message(cls, value: Value) -> Tree:
        if isinstance(value, dict):
            return {"schema": value}
        return {"property": value} if isinstance(value, list) else {}

    @classmethod
    def from_message(cls, message: Tree) -> Value:
        return message.get("property") or message.get("schema")
