"""Markers: what controller-gen reads from comments, as annotations of fields and classes.

    class DatabaseSpec(Struct):
        users: Annotated[list[User], list_type("map"), list_map_key("name")]
        size: Annotated[int, Meta(ge=1), rule("self >= oldSelf", message="it never shrinks")]

Each function returns a `msgspec.Meta`; an annotation may have several, and msgspec merges them. The
names are those of controller-gen in Python's spelling. Bounds, patterns and descriptions are
arguments of `Meta`, enums are `Literal`. docs/how-to/custom-resource-definitions.md has the whole
table.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Meta

NUMBER = "protobuf"
"""The key of the number of a field in `Meta(extra=...)`."""

Reason = Literal[
    "FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"
]


def rule(
    expression: str,
    *,
    message: str = "",
    message_expression: str = "",
    reason: Reason | None = None,
    field_path: str = "",
    optional_old_self: bool | None = None,
) -> Meta:
    """Return the marker `XValidation`: a CEL rule for the value, which is `self` in it. Annotations
    with several rules have all of them."""
    validation = {
        "rule": expression,
        "message": message,
        "messageExpression": message_expression,
        "reason": reason,
        "fieldPath": field_path,
        "optionalOldSelf": optional_old_self,
    }
    set_members = {name: value for name, value in validation.items() if value not in (None, "")}
    return _keyword("x-kubernetes-validations", [set_members])


def list_type(type_: Literal["atomic", "set", "map"]) -> Meta:
    """Return the marker `listType`: how server-side apply merges a list."""
    return _keyword("x-kubernetes-list-type", type_)


def list_map_key(*names: str) -> Meta:
    """Return the marker `listMapKey`: the fields that identify an item of a list of type map."""
    return _keyword("x-kubernetes-list-map-keys", list(names))


def map_type(type_: Literal["atomic", "granular"]) -> Meta:
    """Return the markers `mapType` and `structType`: how server-side apply merges an object."""
    return _keyword("x-kubernetes-map-type", type_)


def string_format(name: str) -> Meta:
    """Return the marker `Format`, such as `date-time`, `ipv4` or `uri`."""
    return _keyword("format", name)


def nullable() -> Meta:
    """Return the marker `nullable`: a value may be null, and null is stored."""
    return _keyword("nullable", True)


def embedded_resource() -> Meta:
    """Return the marker `EmbeddedResource`: a value is an object with kind and metadata."""
    return _keyword("x-kubernetes-embedded-resource", True)


def preserve_unknown_fields() -> Meta:
    """Return the marker `pruning:PreserveUnknownFields`: fields that the class has not are kept."""
    return _keyword("x-kubernetes-preserve-unknown-fields", True)


def number(value: int) -> Meta:
    """Return the number of a field in Protobuf. A resource has Protobuf if all fields of its
    classes have numbers; see `extension/messages.py`. controller-gen has no such marker."""
    return Meta(extra={NUMBER: value})


def _keyword(name: str, value: object) -> Meta:
    return Meta(extra_json_schema={name: value})
