"""Codecs: a serializer combined with defaulting and version conversion.

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
    """Encodes and decodes objects in certain versions."""

    def decode(self, data: bytes, *, defaults: GroupVersionKind | None = None) -> Decoded:
        """Decode one object. `defaults` fills in a missing kind or version. Raises CodecError."""

    def encode(self, obj: Tree) -> bytes:
        """Encode one object, which has `kind` and `apiVersion`. Raises CodecError."""


class VersioningCodec:
    """Decodes any served version, defaults the object and converts it; encodes in a given version.

    encode_version      the version to encode in; None: the object's own
    decode_version      the version to decode into; None: the hub version of the kind
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
        """Decode one object, default and convert it. `kind` of the result is that of the bytes.

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
        """Convert and encode one object. Raises NotEncodable."""
        version = self._encode_version
        try:
            if version is not None and not is_unversioned_kind(self._scheme, kind_of(obj)):
                obj = convert(self._scheme, obj, version)
        except (ConversionFailed, NotRegistered) as error:
            raise NotEncodable(str(error)) from None
        return self._serializer.encode(obj)


class PlainCodec:
    """Encodes and decodes without defaulting and conversion, for clients."""

    def __init__(self, serializer: Serializer) -> None:
        self._serializer = serializer

    def decode(self, data: bytes, *, defaults: GroupVersionKind | None = None) -> Decoded:
        """Decode one object. Raises CodecError."""
        return self._serializer.decode(data, defaults=defaults)

    def encode(self, obj: Tree) -> bytes:
        """Encode one object. Raises CodecError."""
        return self._serializer.encode(obj)


def is_unversioned_kind(scheme: Scheme, kind: GroupVersionKind) -> bool:
    """Whether a kind belongs to meta/v1 (Status, Table, ...) and is the same in all versions."""
    return scheme.type_of(kind).__module__ == _META_MODULE


def convert(scheme: Scheme, obj: Tree, version: GroupVersion) -> Tree:
    """Return the object in a version: the same object if it is in it, otherwise a new tree.

    Raises ConversionFailed.
    """
    if obj.get("apiVersion") == str(version):
        return obj
    return scheme.convert(obj, version)
