"""The schemas of the control API: arguments from the signatures of Python, and results.

Knows no operation and no HTTP.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, get_args, get_type_hints

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
    "Mapping[str, str]": {"type": "object", "additionalProperties": STRING},
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
    its parameters, and the members of a TypedDict of keyword arguments. Raises KeyError for a
    parameter without a description."""
    arguments: dict[str, Argument] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            arguments |= _keyword_arguments(function, parameter, descriptions)
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


def _keyword_arguments(
    function: Callable[..., Any], parameter: inspect.Parameter, descriptions: Mapping[str, str]
) -> dict[str, Argument]:
    """Return the arguments that `**parameter: Unpack[TypedDict]` stands for."""
    (group,) = get_args(get_type_hints(function)[parameter.name])
    return {
        name: Argument(
            schema=_BY_ANNOTATION[reference.__forward_arg__], description=descriptions[name]
        )
        for name, reference in group.__annotations__.items()
    }


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


MATCHING: Mapping[str, str] = {
    "verb": "get, list, watch, create, update, patch, delete or deletecollection. Several verbs "
    "are an array, or separated by commas. Without it, every verb matches.",
    "resource": "Plural names as in RBAC: `pods`, `pods/status`, `deployments.apps`, `*`. Without "
    "it, every resource matches.",
    "namespace": "A glob of the namespace. Without it, every namespace matches.",
    "name": "A glob of the name of the object. Without it, every object matches.",
    "user": "A glob of the name of the user. Without it, every user matches.",
    "user_agent": "A glob of the header User-Agent, such as `kubectl/*`. Without it, every client "
    "matches.",
}
"""The descriptions of the arguments that select requests."""
CLOCK = described(
    {
        "time": ({**STRING, "format": "date-time"}, "The time of the server."),
        "frozen": (BOOLEAN, "Whether it stands still."),
    }
)
FAULT: Schema = {
    "type": "object",
    "description": "The arguments of the operation that added the fault, with the arrays "
    "`verbs` and `resources` in place of `verb` and `resource`, and these members.",
    "required": ["number", "effect", "injected"],
    "properties": {
        "number": {**INTEGER, "description": "Identifies the fault."},
        "effect": {
            **STRING,
            "description": "respond, delay, drop, partition, read_stale, end_watches or "
            "expire_watches.",
        },
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
CLUSTER = described(
    {
        "name": (STRING, "The name of the cluster."),
        "url": (STRING, "The URL of its API."),
        "token": (STRING, "A bearer token of its administrator."),
        "kubeconfig": (STRING, "A file on the server's machine: a kubeconfig with the token."),
    }
)
EMPTY_RESULT: Schema = {"type": "object", "maxProperties": 0}
