"""Patch an object or a subresource, in the version of the URL.

The result of a patch is decoded as strictly as a body. If the result is not an object of the
target's kind, the status is 422. Mirrors patchResource of k8s.io/apiserver.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api.accessors import copy_tree
from kapiserver.api.errors import BadObject, InvalidObject, Path, invalid
from kapiserver.api.go_format import go_value, quote
from kapiserver.api.group import GroupVersion
from kapiserver.api.patches import json_patch, merge_patch, strategic_merge_patch
from kapiserver.api.types import Tree, Type, Value
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import (
    FieldValidation,
    StrictErrors,
    check_name,
    check_namespace,
    check_strict,
    to_hub,
    unconvertible_message,
)
from kapiserver.apiserver.endpoints.field_managers import track_ownership
from kapiserver.apiserver.endpoints.operations.apply import APPLY_TYPES
from kapiserver.apiserver.endpoints.operations.guaranteed_update import (
    guaranteed_update,
    names_version,
)
from kapiserver.apiserver.endpoints.tables import in_version
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.target import Target
from kapiserver.codecs import cbor, json
from kapiserver.codecs.errors import CodecError, Malformed, UnsupportedMediaType
from kapiserver.codecs.limits import MAX_VALUES
from kapiserver.codecs.tree_decoder import decode_tree, is_strictly_typed
from kapiserver.storage.cache.query import Write, WriteResult


class UndecodablePatch(BadRequest):
    """The body of a patch is no JSON, or too large to be decoded."""


class Document(Struct, frozen=True):
    """A decoded body, and strict errors for its duplicate members."""

    value: Value
    repeated: Sequence[str] = ()


def _document(data: bytes) -> Document:
    json.check_value_count(data, MAX_VALUES)
    try:
        return Document(*json.decode_document(data))
    except Malformed:
        raise UndecodablePatch("invalid JSON patch") from None


def _document_in_cbor(data: bytes) -> Document:
    return Document(cbor.decode_value(data))  # decoding fails on duplicate members


class PatchType(Struct, frozen=True):
    """One kind of patch.

    decode      reads a body; raises CodecError
    read        checks a decoded body; raises BadObject
    apply       returns the result from (object, patch, type of the object)
    shows       returns the invalid value in a 422 message from (patch, result)
    unknown     strict errors of the patch itself
    strict      the prefix of those errors
    undecodable the prefix of the error message for a body that cannot be decoded
    strategic   whether it is a strategic merge patch
    copies      whether a patch copies values, so that its bytes do not show its cost
    """

    read: Callable[[Value], Any]
    apply: Callable[[Tree, Any, type[Type]], Value]
    shows: Callable[[Any, Value], str]
    unknown: Callable[[Any], list[str]] = lambda _: []
    strict: str = ""
    undecodable: str = "error decoding patch: "
    decode: Callable[[bytes], Document] = _document
    strategic: bool = False
    copies: Callable[[Any], bool] = lambda _: False


def _result(patch: Any, result: Value) -> str:
    """Format the result of a patch. As in Go, the keys of the objects that were patched are sorted,
    others keep their order."""
    return json.encode_value(_sorted_where_patched(patch, result)).decode()


def _sorted_where_patched(patch: Any, result: Value) -> Value:
    if not isinstance(result, dict):
        return result
    patched = patch if isinstance(patch, dict) else {}
    return {
        name: _sorted_where_patched(patched[name], value)
        if isinstance(patched.get(name), dict)
        else value
        for name, value in sorted(result.items())
    }


def _patched_members(operations: Sequence[Tree]) -> Tree:
    """Return the objects that JSON patch operations change, as nested members."""
    members: Tree = {}
    for operation in operations:
        parent = members
        for name in str(operation.get("path")).split("/")[1:-1]:
            parent = parent.setdefault(name, {})
    return members


def _patch(patch: Any, _result: Value) -> str:
    return go_value(patch)


_STRATEGIC = PatchType(
    read=strategic_merge_patch.read,
    apply=strategic_merge_patch.apply,
    shows=_patch,
    undecodable="",
    strategic=True,
)
PATCH_TYPES: dict[str, PatchType] = {
    "application/json-patch+json": PatchType(
        read=json_patch.read,
        apply=lambda obj, patch, _: json_patch.apply(obj, patch),
        shows=lambda operations, result: _result(_patched_members(operations), result),
        unknown=json_patch.unknown_fields,
        copies=json_patch.copies,
        strict="json patch ",
    ),
    "application/merge-patch+json": PatchType(
        read=merge_patch.read,
        apply=lambda obj, patch, _: merge_patch.apply(obj, patch),
        shows=_result,
    ),
    "application/strategic-merge-patch+json": _STRATEGIC,
    "application/strategic-merge-patch+cbor": replace(_STRATEGIC, decode=_document_in_cbor),
}
"""Patch types by the media type of the body. Messages list them in this order, CBOR last."""

_FUNCTION = PatchType(
    read=lambda change: change, apply=lambda obj, change, _: change(copy_tree(obj)), shows=_result
)


_CBOR_GATE = "CBORServingAndStorage"


class Patch(Struct, frozen=True, kw_only=True):
    """A patch as read: its type, its content, its strict errors, and how unknown fields are
    handled."""

    type: PatchType
    content: Any
    strict_errors: tuple[str, ...]
    validation: FieldValidation


def accepted_patches(server: Server, target: Target) -> tuple[str, ...]:
    """Return the media types of patches that the target accepts: strategic merge patches need a
    typed kind, CBOR needs its feature gate."""
    return _accepted_patches(
        target.kind_info.is_typed, _CBOR_GATE in server.config.features.feature_gates
    )


@functools.cache
def _accepted_patches(typed: bool, accepts_cbor: bool) -> tuple[str, ...]:
    return tuple(
        name
        for name in sorted((*PATCH_TYPES, *APPLY_TYPES), key=lambda name: "cbor" in name)
        if (accepts_cbor or "cbor" not in name) and (typed or "strategic" not in name)
    )


def patch_type(server: Server, target: Target, media: str) -> PatchType:
    """Return the type of patch of a media type. Raises UnsupportedMediaType."""
    media_types = accepted_patches(server, target)
    if media not in media_types or media not in PATCH_TYPES:
        raise UnsupportedMediaType(media_types)
    return PATCH_TYPES[media]


async def patch_object(
    server: Server, target: Target, caller: Caller, options: Tree, patch: Patch, *, cost: int = 0
) -> WriteResult:
    """Apply the patch to the object. `cost` is that of processing the patch (`codecs/cost.py`)."""

    def change(current: Tree | None) -> Tree:
        assert current is not None  # only apply creates objects
        obj = _apply_patch(server, caller, target, patch, current)
        track_ownership(server, caller, target, options, live=current, new=obj)
        return obj

    reads_only = await server.offloader.run(0, _shares_nothing, server, target)
    write = Write(reads_only=reads_only, conditional=names_version(patch.content), cost=cost)
    return await guaranteed_update(server, target, caller, options, change, write)


def _shares_nothing(server: Server, target: Target) -> bool:
    """Whether the object after a patch shares nothing with the one before, because decoding the
    result copies all of it."""
    if target.view is not None or not target.is_typed:
        return False
    return is_strictly_typed(server.scheme.type_of(target.kind))


def read_patch(type_: PatchType, data: bytes, validation: FieldValidation) -> Patch:
    """Read the body of a patch. Raises BadRequest, BadObject."""
    try:
        document = type_.decode(data)
    except CodecError as error:
        raise UndecodablePatch(f"{type_.undecodable}{error}") from None
    return patch_of(type_, document, validation)


def patch_of(type_: PatchType, document: Document, validation: FieldValidation) -> Patch:
    """Read a patch that was decoded. Raises BadRequest, BadObject."""
    try:
        content = type_.read(document.value)
    except CodecError as error:
        raise BadRequest(f"{type_.undecodable}{error}") from None
    strict_errors = tuple(
        type_.strict + error for error in (*type_.unknown(content), *document.repeated)
    )
    return Patch(type=type_, content=content, strict_errors=strict_errors, validation=validation)


def function_patch(change: Callable[[Tree], Tree], validation: FieldValidation) -> Patch:
    """Return a patch for calls within the server: a function of the object that returns the new
    one, and may change the one that it gets."""
    return Patch(type=_FUNCTION, content=change, strict_errors=(), validation=validation)


def _apply_patch(
    server: Server, caller: Caller, target: Target, patch: Patch, current: Tree
) -> Tree:
    """Return the object in the hub version, after patching it or its view. Raises InvalidObject."""
    scheme, view = server.scheme, target.view
    before = view.read_to_write(current) if view else in_version(scheme, current, target.version)
    type_ = scheme.type_of(target.kind)
    after = patch.type.apply(before, patch.content, type_)
    unknown: list[str] = []
    if not target.is_typed:
        _check_custom_kind(target, after)
    try:
        after = _check_kind(server, target, patch, after)
        tree = decode_tree(type_, after, unknown)
        errors = [*patch.strict_errors, *(f"unknown field {quote(path)}" for path in unknown)]
        check_strict(errors, patch.validation, caller.warnings)
    except (CodecError, BadObject, StrictErrors) as error:
        patch_text, problem = patch.type.shows(patch.content, after), str(error)
        if patch.type.strategic:
            problem = _of_unstructured(problem)
        raise InvalidObject(
            group="", kind="", name="", errors=[invalid(Path("patch"), patch_text, problem)]
        ) from None
    obj = to_hub(scheme, target, tree)
    check_namespace(target, obj)
    check_name(target, obj)
    return view.write(current, obj) if view else obj


_UNMARSHAL = re.compile(
    r"json: cannot unmarshal (\w+)(?: (\S+))? into Go .*of type ((\[\]|map\[)?\w+\S*)$"
)
_GO_KINDS = {"array": "slice", "object": "map", "number": "int64"}


def _of_unstructured(problem: str) -> str:
    """Return the message for a value of the wrong type as Go's converter of unstructured objects
    has it, which kube-apiserver uses for the result of a strategic merge patch."""
    match = _UNMARSHAL.match(problem)
    if match is None:
        return problem
    json_kind, number, type_, brackets = match.groups()
    kind = "float64" if number else _GO_KINDS.get(json_kind, json_kind)
    if brackets:
        return f"cannot restore {'map' if brackets == 'map[' else 'slice'} from {kind}"
    if "." in type_:
        return f"cannot restore struct from: {kind}"
    if number or (json_kind == "number" and type_ == "string"):
        return f"cannot convert {kind} to {type_}"
    return f"unrecognized type: {type_}"


def _check_kind(server: Server, target: Target, patch: Patch, after: Value) -> Tree:
    """Return the result of a patch if it is of the target's kind. A strategic merge patch cannot
    change the kind. Raises BadObject."""
    if not isinstance(after, dict):
        raise BadObject(f"couldn't get version/kind; json parse error: {target.kind.kind} expected")
    kind, version = target.kind.kind, target.kind.api_version
    kind_sent, version_sent = after.get("kind"), after.get("apiVersion")
    if kind_sent == kind and version_sent == version:
        return after
    has_own_kind = (kind_sent or kind, version_sent or version) == (kind, version)
    if patch.type.strategic or (target.is_typed and has_own_kind):
        return {**after, "kind": kind, "apiVersion": version}
    try:
        group_version = GroupVersion.parse(str(version_sent or ""))
    except ValueError as error:
        raise BadObject(str(error)) from None
    raise BadObject(
        unconvertible_message(server, target, group_version.with_kind(str(kind_sent or "")))
    )


def _check_custom_kind(target: Target, after: Value) -> None:
    """Raise InvalidObject if a patch changed the kind or apiVersion of a custom object."""
    members = after if isinstance(after, dict) else {}
    kind, version = members.get("kind"), members.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(version, str):
        return
    expected_kind, expected_version = target.kind.kind, target.kind.api_version
    errors = []
    if kind != expected_kind:
        errors.append(invalid(Path("kind"), kind, f"must be {expected_kind}"))
    if version != expected_version:
        errors.append(invalid(Path("apiVersion"), version, f"must be {expected_version}"))
    if errors:
        group = version.rpartition("/")[0]
        raise InvalidObject(group=group, kind=kind, name=target.key.name, errors=errors)
