"""The schemas of the control API: arguments from the signatures of Python, and results.

Knows no operation and no HTTP.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

Schema: TypeAlias = Mapping[str, Any]

STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}

_BY_ANNOTATION: Mapping[str, Schema] = {
    "str": STRING,
    "int": INTEGER,
    "int | None": INTEGER,
    "float": NUMBER,
    "bool": BOOLEAN,
    "Duration": {"anyOf": [STRING, NUMBER]},
    "str | Path": STRING,
    "Condition": STRING,
    "Sequence[str]": {"type": "array", "items": STRING},
    "Sequence[Tree]": {"type": "array", "items": {"type": "object"}},
    "str | Sequence[str]": {"anyOf": [STRING, {"type": "array", "items": STRING}]},
}
"""The JSON schema of an argument, by the annotation of the Python parameter."""


class Argument(Struct, frozen=True, kw_only=True):
    """One argument of an operation."""

    schema: Schema
    description: str
    required: bool = False


def arguments_of(
    function: Callable[..., Any], descriptions: Mapping[str, str]
) -> dict[str, Argument]:
    """Return the arguments of an operation that calls `function`: the names, types and defaults of
    its parameters. Raises KeyError for a parameter without a description."""
    arguments = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        schema = dict(_BY_ANNOTATION[str(parameter.annotation)])
        required = parameter.default is inspect.Parameter.empty
        if not required and parameter.default is not None:
            default = parameter.default
            schema["default"] = list(default) if isinstance(default, tuple) else default
        arguments[parameter.name] = Argument(
            schema=schema, description=descriptions[parameter.name], required=required
        )
    return arguments


def described(properties: Mapping[str, tuple[Schema, str]]) -> Schema:
    """Return the schema of an object whose properties are always there."""
    return {
        "type": "object",
        "required": list(properties),
        "properties": {
            name: {**schema, "description": text} for name, (schema, text) in properties.items()
        },
    }


def items(schema: Schema) -> Schema:
    """Return the schema of an object whose member `items` is an array."""
    return {
        "type": "object",
        "required": ["items"],
        "properties": {"items": {"type": "array", "items": schema}},
    }


CLOCK = described(
    {
        "time": ({**STRING, "format": "date-time"}, "The time of the server."),
        "frozen": (BOOLEAN, "Whether it stands still."),
    }
)
FAULT: Schema = {
    "type": "object",
    "description": "The arguments of addFault, with the arrays `verbs` and `resources` in place "
    "of `verb` and `resource`, and these members.",
    "required": ["number", "injected"],
    "properties": {
        "number": {**INTEGER, "description": "Identifies the fault."},
        "injected": {**INTEGER, "description": "How many requests and watches it changed."},
    },
}
REQUEST = described(
    {
        "number": (INTEGER, "1 for the first request."),
        "time": ({**STRING, "format": "date-time"}, "When it came, by the server's clock."),
        "user": (STRING, "The name of the user."),
        "impersonator": (STRING, "The user who impersonates, or empty."),
        "user_agent": (STRING, "The header User-Agent."),
        "verb": (STRING, "get, list, watch, create, update, patch, delete, deletecollection."),
        "uri": (STRING, "Path and query."),
        "resource": (STRING, "The plural name, with the group."),
        "subresource": (STRING, "Such as `status` and `scale`, or empty."),
        "namespace": (STRING, "The namespace, or empty."),
        "name": (STRING, "The name in the path, or empty."),
        "status": (
            {"type": ["integer", "null"]},
            "The HTTP status; null without a response yet, 0 if the connection was dropped.",
        ),
        "seconds": ({"type": ["number", "null"]}, "Real seconds until the end."),
        "content_type": (STRING, "The media type of the body."),
        "faults": ({"type": "array", "items": INTEGER}, "The faults that were injected."),
        "body": ({}, "The object or the patch; null if there is none."),
    }
)
REVISION = described(
    {
        "revision": (INTEGER, "The resourceVersion."),
        "time": ({**STRING, "format": "date-time"}, "When it was written, by the server's clock."),
        "operation": (STRING, "created, updated or deleted."),
        "manager": (STRING, "The field manager of the write; empty if it is unknown."),
        "subresource": (STRING, "Such as `status`, or empty."),
        "diff": ({"type": "array", "items": STRING}, "The fields that the write changed."),
        "object": ({"type": ["object", "null"]}, "After the write; null if it was deleted."),
    }
)
SNAPSHOT = described({"number": (INTEGER, "Identifies the snapshot.")})
USER = described(
    {
        "name": (STRING, "The name of the user."),
        "token": (STRING, "A bearer token."),
        "kubeconfig": (STRING, "A file on the server's machine: a kubeconfig with the token."),
    }
)
EMPTY_RESULT: Schema = {"type": "object", "maxProperties": 0}
