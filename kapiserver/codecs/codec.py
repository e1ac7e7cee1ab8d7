"""A serializer with what lies around it: defaulting and conversion to the version asked for.

Knows no media type by name. Mirrors k8s.io/apimachinery/pkg/runtime/serializer/versioning.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from kapiserver.api.accessors import kind_of
from kapiserver.api.errors import ConversionFailed, NotRegistered
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.codecs.errors import CodecError, NotEncodable, UnknownKind, WrongValue
from kapiserver.codecs.serializer import Decoded, Serializer

_META_MODULE = "kapiserver.api.meta.v1"


class Codec(Protocol):
    """Objects from bytes and back, in the versions it was made for."""

    def decode(self, data: bytes, *, defaults: GroupVersionKind | None = None) -> Decoded:
        """Read one object; `defaults` completes what the bytes leave out. Raises CodecError."""

    def encode(self, obj: Tree) -> bytes:
        """Write one object, which names its kind. Raises CodecError."""


class VersioningCodec:
    """Reads any version a group serves, defaults it, and hands out the one asked for; writes an
    object of any version in the one asked for.

    encode_version      what is written; None: the object's own
    decode_version      what is handed out; None: the hub of the object's group
    """

    def __init__(
        self,
        scheme: Scheme,
        serializer: Serializer,
        *,
        encode_version: GroupVersion | None = None,
        decode_version: GroupVersion | None = None,
    ) -> None:
        self._scheme = scheme
        self._serializer = serializer
        self._encode_version = encode_version
        self._decode_version = decode_version

    def decode(self, data: bytes, *, defaults: GroupVersionKind | None = None) -> Decoded:
        """Read one object, default and convert it; `kind` is what the bytes said.

        Raises CodecError.
        """
        decoded = self._serializer.decode(data, defaults=defaults)
        try:
            return replace(decoded, object=self._convert_decoded(decoded))
        except CodecError as error:
            error.kind = decoded.kind
            raise

    def _convert_decoded(self, decoded: Decoded) -> Tree:
        if is_unversioned_kind(self._scheme, decoded.kind):
            return decoded.object
        self._scheme.default(decoded.object)
        try:
            kind = decoded.kind
            target = self._decode_version or self._scheme.hub_version(kind.group, kind.kind)
            return convert(self._scheme, decoded.object, target)
        except ConversionFailed as error:
            raise WrongValue(str(error)) from None
        except NotRegistered as error:
            raise UnknownKind(str(error)) from None

    def encode(self, obj: Tree) -> bytes:
        """Convert and write one object. Raises NotEncodable."""
        version = self._encode_version
        try:
            if version is not None and not is_unversioned_kind(self._scheme, kind_of(obj)):
                obj = convert(self._scheme, obj, version)
        except (ConversionFailed, NotRegistered) as error:
            raise NotEncodable(str(error)) from None
        return self._serializer.encode(obj)


class PlainCodec:
    """Reads and writes objects as they are: for clients, which convert and default nothing."""

    def __init__(self, serializer: Serializer) -> None:
        self._serializer = serializer

    def decode(self, data: bytes, *, defaults: GroupVersionKind | None = None) -> Decoded:
        """Read one object. Raises CodecError."""
        return self._serializer.decode(data, defaults=defaults)

    def encode(self, obj: Tree) -> bytes:
        """Write one object. Raises CodecError."""
        return self._serializer.encode(obj)


def is_unversioned_kind(scheme: Scheme, kind: GroupVersionKind) -> bool:
    """Whether it is one of meta/v1 (Status, DeleteOptions, Table): the same in every version."""
    return scheme.type_of(kind).__module__ == _META_MODULE


def convert(scheme: Scheme, obj: Tree, version: GroupVersion) -> Tree:
    """The object in that version: itself when it is in it, or else a new tree.

    Raises ConversionFailed.
    """
    if obj.get("apiVersion") == str(version):
        return obj
    return scheme.convert(obj, version)
