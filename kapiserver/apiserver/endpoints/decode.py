"""From a request's body to an object: media type, size, kind, unknown fields, place.

Mirrors the first half of the create and update handlers of k8s.io/apiserver: what is wrong, is
said in their words.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, cast

from kapiserver.api.accessors import metadata_of, name_of, namespace_of
from kapiserver.api.errors import ConversionFailed, InvalidObject, NotRegistered, Path, invalid
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.apiserver.caller import Warnings
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.target import Target
from kapiserver.codecs.errors import CodecError, MissingKind, UnknownKind
from kapiserver.codecs.media_types import PROTOBUF, MediaType
from kapiserver.codecs.negotiation import negotiate_input
from kapiserver.codecs.serializer import Decoded

FieldValidation: TypeAlias = Literal["Ignore", "Warn", "Strict"]

NAMESPACE_MISMATCH = (
    "the namespace of the provided object does not match the namespace sent on the request"
)
_SHOWN = 30


class Body(Protocol):
    """An object that a client sent, not yet read as its kind."""

    @property
    def data(self) -> bytes:
        """The bytes, which messages may show."""

    @property
    def size(self) -> int:
        """How many bytes have to be decoded; from some size on that happens in a thread."""

    def decode(self, server: Server, defaults: GroupVersionKind) -> Decoded:
        """Return the object in the version it names, or in the default one. May be called several
        times; nobody else has the tree. Raises CodecError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedBody:
    """The body of an HTTP request and its media type."""

    data: bytes
    media: MediaType

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.data)

    def decode(self, server: Server, defaults: GroupVersionKind) -> Decoded:
        """Decode the bytes. Raises CodecError."""
        serializer = server.codecs.limited_serializer_for(self.media)
        return serializer.decode(self.data, defaults=defaults)


def media_type_of(server: Server, request: Request, target: Target) -> MediaType:
    """The body's media type. Raises UnsupportedMediaType."""
    offered = server.codecs.media_types
    if not target.is_typed:
        offered = tuple(one for one in offered if one is not PROTOBUF)
    return negotiate_input(request.header("Content-Type"), offered)


async def read_body(server: Server, request: Request, target: Target) -> EncodedBody:
    """Read the body. Raises UnsupportedMediaType, BodyTooLarge."""
    media = media_type_of(server, request, target)
    started = time.perf_counter()
    data = await request.read_body(server.config.body_limit)
    request.add_latency("body", started)
    return EncodedBody(data=data, media=media)


_OTHER_VERSIONS = {GroupVersionKind("policy", "v1", "Eviction"): ("v1beta1",)}
"""Versions that bodies of a kind may be in beside that of their path: old clients drain nodes."""


def decode_object(
    server: Server, target: Target, body: Body, validation: FieldValidation, warnings: Warnings
) -> Tree:
    """The object in the hub version (of a view: its body), defaulted. Raises BadRequest."""
    try:
        decoded = body.decode(server, target.kind)
        check_strict(decoded.strict_errors, validation, warnings)
    except (CodecError, StrictErrors) as error:
        if isinstance(error, MissingKind | UnknownKind) and error.kind and not target.is_typed:
            raise another_kind(target, error.kind, error.name) from None
        kind = error.kind if isinstance(error, CodecError) else target.kind
        reason = str(error)
        if isinstance(error, UnknownKind):
            reason += _in_scheme(target)
        raise BadRequest(_cannot_be_handled(target, kind, reason, body.data)) from None
    found = decoded.kind
    if found != target.kind and not target.is_typed:
        raise another_kind(target, found, name_of(decoded.object))
    if found.kind != target.kind.kind or found.group != target.kind.group:
        raise BadRequest(_cannot_be_handled(target, found, _no_conversion(target, found), b""))
    versions = (target.kind.version, *_OTHER_VERSIONS.get(target.kind, ()))
    if found.version not in versions:
        raise BadRequest(_another_version(target, found))
    return to_hub(server.scheme, target, decoded.object)


def another_kind(target: Target, found: GroupVersionKind, name: str) -> Exception:
    """What is wrong with a custom object that does not say that it is of the target's kind."""
    if not found.kind:
        return BadRequest("Object 'Kind' is missing in 'unstructured object has no kind'")
    if found.group_version != target.kind.group_version:
        return BadRequest(_another_version(target, found))
    error = invalid(Path("kind"), found.kind, f"must be {target.kind.kind}")
    return InvalidObject(group=found.group, kind=found.kind, name=name, errors=[error])


def _another_version(target: Target, found: GroupVersionKind) -> str:
    return (
        f"the API version in the data ({found.group_version}) does not match the expected "
        f"API version ({target.kind.group_version})"
    )


def to_hub(scheme: Scheme, target: Target, tree: Tree) -> Tree:
    """A canonical tree in the target's version, defaulted and converted. Raises BadRequest."""
    scheme.default(tree)
    if target.view is not None:
        return tree
    hub = target.kind_info.hub
    if hub == target.version:
        return tree
    try:
        return scheme.convert(tree, hub)
    except (ConversionFailed, NotRegistered) as error:
        raise BadRequest(str(error)) from None


class StrictErrors(Exception):
    """Unknown or duplicate fields where the client asked for none."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__(f"strict decoding error: {', '.join(errors)}")


def check_strict(errors: Sequence[str], validation: FieldValidation, warnings: Warnings) -> None:
    """Let strict errors pass, warn of them or raise StrictErrors, as the client asked."""
    if not errors or validation == "Ignore":
        return
    if validation == "Strict":
        raise StrictErrors(errors)
    for error in errors:
        warnings.add(error)


def field_validation(options: Tree) -> FieldValidation:
    """How unknown fields are taken: `fieldValidation` of the options, Warn without."""
    return cast(FieldValidation, options.get("fieldValidation") or "Warn")


def place(target: Target, obj: Tree) -> None:
    """See that the object is in the request's namespace. Raises BadRequest."""
    found, wanted = namespace_of(obj), target.key.namespace
    if found == wanted:
        return
    metadata = metadata_of(obj)
    if not wanted:
        metadata.pop("namespace", None)
    elif not found:
        metadata["namespace"] = wanted
    else:
        raise BadRequest(NAMESPACE_MISMATCH)


def check_name(target: Target, obj: Tree) -> None:
    """See that the object has the name of the URL. Raises BadRequest."""
    name, wanted = name_of(obj), target.key.name
    if not name:
        raise BadRequest(
            f"the name of the object ({wanted} based on URL) was undeterminable: "
            "name must be provided"
        )
    if name != wanted:
        raise BadRequest(
            f"the name of the object ({name}) does not match the name on the URL ({wanted})"
        )


def _cannot_be_handled(
    target: Target, kind: GroupVersionKind | None, reason: str, data: bytes
) -> str:
    expected = target.kind.kind
    if kind is not None and kind.kind:
        return (
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {expected}: {reason}'
        )
    return (
        f"the object provided is unrecognized (must be of type {expected}): {reason} "
        f"({_summary(data)})"
    )


def not_of_kind(server: Server, target: Target, found: GroupVersionKind) -> str:
    """Why an object of another kind is none of the target's."""
    try:
        server.scheme.type_of(found)
    except NotRegistered as error:
        return f"{error}{_in_scheme(target)}"
    return _no_conversion(target, found)


def _in_scheme(target: Target) -> str:
    # Where kube-apiserver makes the scheme of all its own kinds.
    if target.kind.group in ("apiextensions.k8s.io", "apiregistration.k8s.io"):
        return ""
    return ' in scheme "pkg/api/legacyscheme/scheme.go:30"'


def _no_conversion(target: Target, found: GroupVersionKind) -> str:
    # Go's names of the two types.
    package = target.kind.group.partition(".")[0] or "core"
    return (
        f"converting ({found.version}.{found.kind}) to ({package}.{target.kind.kind}): "
        "unknown conversion"
    )


def _summary(data: bytes) -> str:
    if not data:
        return "<empty>"
    more = " ..." if len(data) > _SHOWN else ""
    head = data[:_SHOWN]
    return (head.decode("utf-8", "replace") if head[:1] == b"{" else head.hex()) + more
