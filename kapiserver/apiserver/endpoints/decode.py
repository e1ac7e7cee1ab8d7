"""Decode request bodies: check media type, size, kind, unknown fields, name and namespace.

Mirrors the first half of the create and update handlers of k8s.io/apiserver; error messages are
those of kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

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
from kapiserver.codecs.cost import cost_of
from kapiserver.codecs.errors import CodecError, MissingKind, UnknownKind, UnsupportedMediaType
from kapiserver.codecs.media_types import PROTOBUF, MediaType
from kapiserver.codecs.negotiation import negotiate_input
from kapiserver.codecs.serializer import Decoded
from kapiserver.spans import Span

FieldValidation: TypeAlias = Literal["Ignore", "Warn", "Strict"]

NAMESPACE_MISMATCH = (
    "the namespace of the provided object does not match the namespace sent on the request"
)
_SUMMARY_LENGTH = 30


class Body(Protocol):
    """An object that a client sent, not yet decoded."""

    @property
    def data(self) -> bytes:
        """The bytes, which error messages may quote."""

    @property
    def cost(self) -> int:
        """The cost of processing the object (`codecs/cost.py`)."""

    def decode(self, server: Server, defaults: GroupVersionKind) -> Decoded:
        """Return the object in the version it names, or in the default one. Each call returns a new
        tree, which the caller may change. Raises CodecError."""


class EncodedBody(Struct, frozen=True, kw_only=True):
    """The body of an HTTP request and its media type."""

    data: bytes
    media: MediaType

    @property
    def cost(self) -> int:
        """The cost of processing the object (`codecs/cost.py`)."""
        return cost_of(self.data)

    def decode(self, server: Server, defaults: GroupVersionKind) -> Decoded:
        """Decode the bytes. Raises CodecError."""
        serializer = server.codecs.limited_serializer_for(self.media)
        return serializer.decode(self.data, defaults=defaults)


def media_type_of(server: Server, request: Request, target: Target) -> MediaType:
    """Return the body's media type. Raises UnsupportedMediaType."""
    offered = server.codecs.media_types
    media = negotiate_input(request.header("Content-Type"), offered)
    if media is PROTOBUF and not target.has_protobuf:
        # kube-apiserver names Protobuf in this error, and closes the connection at such a body.
        raise UnsupportedMediaType([media.name for media in offered if media is not PROTOBUF])
    return media


async def read_body(server: Server, request: Request, target: Target) -> EncodedBody:
    """Read the body. Raises UnsupportedMediaType, BodyTooLarge."""
    media = media_type_of(server, request, target)
    started = perf_counter()
    data = await request.read_body(server.config.limits.body_limit)
    count_body(server, request, data)
    request.trace.add(Span("body", started, perf_counter()))
    return EncodedBody(data=data, media=media)


def count_body(server: Server, request: Request, data: bytes) -> None:
    """Count the size of a request's body."""
    info = request.info
    server.metrics.request_bytes.observe((info.version.group, info.resource, info.verb), len(data))


_OTHER_VERSIONS = {GroupVersionKind("policy", "v1", "Eviction"): ("v1beta1",)}
"""Versions that a body may be in besides the version of its path. Old versions of `kubectl drain`
send policy/v1beta1."""


def decode_object(
    server: Server, target: Target, body: Body, validation: FieldValidation, warnings: Warnings
) -> Tree:
    """Return the object in the hub version, with defaults set; the body of a view stays in its own
    version. Raises BadRequest, InvalidObject."""
    try:
        decoded = body.decode(server, target.kind)
        check_strict(decoded.strict_errors, validation, warnings)
    except (CodecError, StrictErrors) as error:
        kind = error.kind if isinstance(error, CodecError) else target.kind
        if (
            isinstance(error, MissingKind | UnknownKind)
            and kind is not None
            and kind.kind
            and not target.is_typed
        ):
            raise _kind_mismatch_error(target, kind, error.name) from None
        reason = str(error)
        if isinstance(error, UnknownKind):
            reason += _in_scheme(target)
        raise BadRequest(_cannot_be_handled(target, kind, reason, body.data)) from None
    if decoded.kind != target.kind:
        _check_other_kind(target, decoded)
    return to_hub(server.scheme, target, decoded.object)


def _check_other_kind(target: Target, decoded: Decoded) -> None:
    """Check that a body, whose kind or version is not that of the target, may have it. Raises
    BadRequest, InvalidObject."""
    kind = decoded.kind
    if not target.is_typed:
        raise _kind_mismatch_error(target, kind, name_of(decoded.object))
    if kind.kind != target.kind.kind or kind.group != target.kind.group:
        raise BadRequest(_cannot_be_handled(target, kind, _no_conversion(target, kind), b""))
    if kind.version not in _OTHER_VERSIONS.get(target.kind, ()):
        raise BadRequest(_version_mismatch(target, kind))


async def decode_body(
    server: Server, target: Target, body: Body, validation: FieldValidation, warnings: Warnings
) -> Tree:
    """Return `decode_object` of a body; a costly body is decoded in a thread. Raises BadRequest,
    InvalidObject, TooMuchWork."""
    run = server.offloader.run
    return await run(body.cost, decode_object, server, target, body, validation, warnings)


def _kind_mismatch_error(target: Target, kind: GroupVersionKind, name: str) -> Exception:
    """Return the error for a custom object whose kind or version is not that of the target."""
    if kind.group_version != target.kind.group_version:
        return BadRequest(_version_mismatch(target, kind))
    if target.key.name and name != target.key.name:
        return _name_mismatch(name, target.key.name)
    error = invalid(Path("kind"), kind.kind, f"must be {target.kind.kind}")
    return InvalidObject(group=kind.group, kind=kind.kind, name=name, errors=[error])


def _version_mismatch(target: Target, kind: GroupVersionKind) -> str:
    return (
        f"the API version in the data ({kind.group_version}) does not match the expected "
        f"API version ({target.kind.group_version})"
    )


def to_hub(scheme: Scheme, target: Target, tree: Tree) -> Tree:
    """Set the defaults of a tree in the target's version and return it in the hub version. Raises
    BadRequest."""
    if target.has_other_kind:
        scheme.default(tree)
    else:
        target.kind_info.default(tree)
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
    """Unknown or duplicate fields in a request with strict field validation."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__(f"strict decoding error: {', '.join(errors)}")


def check_strict(errors: Sequence[str], validation: FieldValidation, warnings: Warnings) -> None:
    """Ignore strict errors, add them to the warnings, or raise StrictErrors, as `validation`
    says."""
    if not errors or validation == "Ignore":
        return
    if validation == "Strict":
        raise StrictErrors(errors)
    for error in errors:
        add_strict_warnings(error, warnings)


_YAML_ERRORS = "yaml: unmarshal errors:\n"


def add_strict_warnings(error: str, warnings: Warnings) -> None:
    """Add a strict error to the warnings; each line of one about YAML is a warning of its own."""
    if error.startswith(_YAML_ERRORS):
        for line in error.removeprefix(_YAML_ERRORS).split("\n"):
            warnings.add(line.strip())
    else:
        warnings.add(error)


def field_validation(options: Tree) -> FieldValidation:
    """Return `fieldValidation` of the options; the default is Warn."""
    validation: FieldValidation = options.get("fieldValidation") or "Warn"
    return validation


def check_namespace(target: Target, obj: Tree) -> None:
    """Set the namespace of an object that has none to that of the request; remove it if the request
    has none. Raises BadRequest if the two differ."""
    namespace, expected = namespace_of(obj), target.key.namespace
    if namespace == expected:
        return
    metadata = metadata_of(obj)
    if not expected:
        metadata.pop("namespace", None)
    elif not namespace:
        metadata["namespace"] = expected
    else:
        raise BadRequest(NAMESPACE_MISMATCH)


def check_name(target: Target, obj: Tree) -> None:
    """Raise BadRequest unless the object has the name in the URL."""
    name = name_of(obj)
    if name != target.key.name:
        raise _name_mismatch(name, target.key.name)


def _name_mismatch(name: str, expected: str) -> BadRequest:
    if not name:
        return BadRequest(
            f"the name of the object ({expected} based on URL) was undeterminable: "
            "name must be provided"
        )
    return BadRequest(
        f"the name of the object ({name}) does not match the name on the URL ({expected})"
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


def unconvertible_message(server: Server, target: Target, kind: GroupVersionKind) -> str:
    """Return the message for an object whose kind cannot be converted to the target's."""
    try:
        server.scheme.type_of(kind)
    except NotRegistered as error:
        return f"{error}{_in_scheme(target)}"
    return _no_conversion(target, kind)


def _in_scheme(target: Target) -> str:
    # The file in which kube-apiserver creates the scheme of its own kinds.
    if target.kind.group in ("apiextensions.k8s.io", "apiregistration.k8s.io"):
        return ""
    return ' in scheme "pkg/api/legacyscheme/scheme.go:30"'


def _no_conversion(target: Target, kind: GroupVersionKind) -> str:
    # kube-apiserver prints the names of the two Go types.
    package = target.kind.group.partition(".")[0] or "core"
    return (
        f"converting ({kind.version}.{kind.kind}) to ({package}.{target.kind.kind}): "
        "unknown conversion"
    )


def _summary(data: bytes) -> str:
    if not data:
        return "<empty>"
    ellipsis = " ..." if len(data) > _SUMMARY_LENGTH else ""
    head = data[:_SUMMARY_LENGTH]
    return (head.decode("utf-8", "replace") if head[:1] == b"{" else head.hex()) + ellipsis
