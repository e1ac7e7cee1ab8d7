"""Decodes a document, which JSON, YAML or CBOR was parsed into, into an object of its kind.

Takes the kind from the document, completes it from the defaults, looks its type up in the scheme
and decodes the tree. Uses the input bytes in error messages only. Mirrors Decode in
k8s.io/apimachinery/pkg/runtime/serializer/json.
"""

from __future__ import annotations

from collections.abc import Callable

from kapiserver.api.accessors import kind_of
from kapiserver.api.errors import NotRegistered
from kapiserver.api.go_format import quote
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Kind, Tree, Value
from kapiserver.codecs.errors import CodecError, MissingKind, UnknownKind, WrongValue
from kapiserver.codecs.serializer import Decoded
from kapiserver.codecs.tree_decoder import decode_owned_tree

_TYPE_META_STRUCT = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)
_MAX_EXCERPT = 1024


def unknown_field_errors(unknown: list[str]) -> tuple[str, ...]:
    """Return the strict errors for the paths of unknown fields."""
    return tuple(f"unknown field {quote(path)}" for path in unknown)


def decode_object(
    scheme: Scheme,
    document: Value,
    *,
    defaults: GroupVersionKind | None,
    source: bytes,
    make_strict_errors: Callable[[list[str]], tuple[str, ...]] = unknown_field_errors,
) -> Decoded:
    """Decode a document as the kind it names. May take over parts of the document.

    source                  the bytes of the document, for messages
    make_strict_errors      returns the strict errors, given the paths of the unknown fields

    As in kube-apiserver, `defaults`, which have a kind and a version, do not complete the kind of a
    custom object.

    Raises MissingKind, UnknownKind, WrongValue, each with `kind` and `name` as far as known.
    """
    if defaults is not None and _names(document, defaults):  # as most bodies do
        kind = defaults
    else:
        document_kind = kind_of_document(document)
        kind = complete_kind(document_kind, defaults)
        if document_kind != kind and not scheme.object_info(kind).is_typed:
            kind = document_kind
    try:
        if kind is not defaults:
            require_kind(kind, source)
        unknown: list[str] = []
        type_ = registered_type(scheme, kind)
        tree = _decode(type_, {} if document is None else document, unknown)
        if kind is not defaults:
            tree["kind"], tree["apiVersion"] = kind.kind, kind.api_version
        if type_.declares_fields:
            errors = make_strict_errors(unknown)
        else:  # the schema of a custom kind is looked at when the text was decoded
            errors = make_strict_errors([]) + unknown_field_errors(unknown)
        return Decoded(object=tree, kind=kind, strict_errors=errors)
    except CodecError as error:
        error.kind, error.name = kind, _metadata_name(document)
        raise


def _decode(type_: type[Kind], document: Value, unknown: list[str]) -> Tree:
    """Decode a document like `decode_owned_tree`. Of several errors Go's is raised."""
    try:
        return decode_owned_tree(type_, document, unknown)
    except WrongValue as error:
        if not type_.declares_fields:
            raise
        from kapiserver.codecs.first_error import first_error  # hardly any body needs it

        raise first_error(type_, document) or error from None


def _names(document: Value, kind: GroupVersionKind) -> bool:
    return (
        isinstance(document, dict)
        and document.get("kind") == kind.kind
        and document.get("apiVersion") == kind.api_version
    )


def _metadata_name(document: Value) -> str:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def kind_of_document(document: Value) -> GroupVersionKind:
    """Return the kind that a document names; missing parts are empty. Raises WrongValue."""
    if document is None:
        return GroupVersionKind("", "", "")
    if not isinstance(document, dict):
        raise WrongValue(
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f"{_go_value_kind(document)} into Go value of type {_TYPE_META_STRUCT}"
        )
    for name in ("apiVersion", "kind"):
        value = document.get(name)
        if value is not None and not isinstance(value, str):
            raise WrongValue(
                "couldn't get version/kind; json parse error: json: cannot unmarshal "
                f"{_go_value_kind(value)} into Go struct field .{name} of type string"
            )
    if document.get("apiVersion") == "/":
        return GroupVersionKind("", "", document.get("kind") or "")
    try:
        return kind_of(document)
    except ValueError as error:
        raise WrongValue(str(error)) from None


def complete_kind(kind: GroupVersionKind, defaults: GroupVersionKind | None) -> GroupVersionKind:
    """Fill in a missing kind or version from the defaults; a given group is never changed."""
    if defaults is None:
        return kind
    if not kind.kind:
        kind = kind._replace(kind=defaults.kind)
    if not kind.version and kind.group in ("", defaults.group):
        kind = kind._replace(group=defaults.group, version=defaults.version)
    return kind


def require_kind(kind: GroupVersionKind, source: bytes) -> None:
    """Raise MissingKind unless both the kind and its version are given."""
    for name, value in (("Kind", kind.kind), ("apiVersion", kind.version)):
        if not value:
            excerpt = source[:_MAX_EXCERPT].decode("utf-8", "replace")
            raise MissingKind(f"Object '{name}' is missing in '{excerpt}'")


def registered_type(scheme: Scheme, kind: GroupVersionKind) -> type[Kind]:
    """Return the type of a kind that a client named. Raises UnknownKind."""
    try:
        if kind.version == "__internal":
            raise NotRegistered.of_kind(kind)
        return scheme.type_of(kind)
    except NotRegistered as error:
        raise UnknownKind(str(error)) from None


def _go_value_kind(value: Value) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict):
        return "object"
    return "string"
