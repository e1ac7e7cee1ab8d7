"""CodecFactory: creates the serializers and codecs of a scheme.

Creates each serializer at first use, once per factory. Knows no request and no store. Mirrors
k8s.io/apimachinery/pkg/runtime/serializer.CodecFactory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.codecs.codec import Codec, PlainCodec, VersioningCodec
from kapiserver.codecs.errors import Malformed
from kapiserver.codecs.json import PrettyJSONSerializer
from kapiserver.codecs.limits import MAX_VALUES
from kapiserver.codecs.media_types import CBOR, JSON, MEDIA_TYPES, PROTOBUF, YAML, MediaType
from kapiserver.codecs.serializer import Decoded, Serializer


class NegotiatedSerializer(Protocol):
    """The media types that negotiation chooses from, and their codecs."""

    media_types: tuple[MediaType, ...]

    def encoder_for_version(self, media: MediaType, version: GroupVersion) -> Codec:
        """Return a codec that encodes in a version."""

    def decoder_to_version(self, media: MediaType, version: GroupVersion | None) -> Codec:
        """Return a codec that decodes into a version; None: the hub version of each kind."""


class CodecFactory:
    """All serializers and codecs of one scheme."""

    def __init__(self, scheme: Scheme, media_types: Sequence[MediaType] = MEDIA_TYPES) -> None:
        self.scheme = scheme
        self.media_types = tuple(media_types)
        self._serializers: dict[str, Serializer] = {}
        self._limited_serializers: dict[str, Serializer] = {}
        self._pretty = PrettyJSONSerializer(scheme)
        self.custom_storage_media_type = CBOR if CBOR in self.media_types else JSON
        """The encoding in which custom objects are stored; JSON if CBOR is turned off."""
        self.universal_deserializer: Serializer = RecognizingSerializer(self)
        """Decodes any encoding, which it recognizes by the first bytes, without conversion."""

    def serializer_for(self, media: MediaType) -> Serializer:
        """Return the serializer of a media type, which neither defaults nor converts."""
        serializer = self._serializers.get(media.name)
        if serializer is None:
            serializer = self._serializers[media.name] = media.make_serializer(self.scheme)
        return serializer

    def limited_serializer_for(self, media: MediaType) -> Serializer:
        """Return a serializer for untrusted bodies: it decodes at most MAX_VALUES values."""
        serializer = self._limited_serializers.get(media.name)
        if serializer is None:
            serializer = media.make_serializer(self.scheme, max_values=MAX_VALUES)
            self._limited_serializers[media.name] = serializer
        return serializer

    def pretty_serializer_for(self, media: MediaType) -> Serializer:
        """Return the serializer with indentation, if the media type has one."""
        return self._pretty if media is JSON else self.serializer_for(media)

    def recognize_media_type(self, data: bytes) -> MediaType:
        """Return the encoding of one object by its first bytes; YAML if no other matches.

        Recognizes all encodings, including those that `media_types` does not offer to clients.
        """
        for media in (PROTOBUF, CBOR, JSON):
            if self.serializer_for(media).recognizes(data):
                return media
        return YAML

    def universal_decoder(self, version: GroupVersion | None = None) -> Codec:
        """Return a codec that decodes any encoding into a version; None: the hub version."""
        return VersioningCodec(self.scheme, self.universal_deserializer, decode_version=version)

    def codec_for_versions(
        self,
        media: MediaType,
        *,
        encode: GroupVersion | None = None,
        decode: GroupVersion | None = None,
    ) -> Codec:
        """Return a codec that encodes in one version (None: the object's own) and decodes into
        another (None: the hub version)."""
        return VersioningCodec(
            self.scheme,
            self.serializer_for(media),
            encode_version=encode,
            decode_version=decode,
        )

    def encoder_for_version(self, media: MediaType, version: GroupVersion) -> Codec:
        """Return a codec that encodes in a version."""
        return self.codec_for_versions(media, encode=version)

    def decoder_to_version(self, media: MediaType, version: GroupVersion | None) -> Codec:
        """Return a codec that decodes into a version; None: the hub version of each kind."""
        return self.codec_for_versions(media, decode=version)

    def without_conversion(self) -> NegotiatedSerializer:
        """Return codecs for clients, which neither default nor convert."""
        return _WithoutConversion(self)


class _WithoutConversion:
    def __init__(self, codecs: CodecFactory) -> None:
        self._codecs = codecs
        self.media_types = codecs.media_types

    def encoder_for_version(self, media: MediaType, version: GroupVersion) -> Codec:  # noqa: ARG002
        return PlainCodec(self._codecs.serializer_for(media))

    def decoder_to_version(self, media: MediaType, version: GroupVersion | None) -> Codec:  # noqa: ARG002
        return PlainCodec(self._codecs.serializer_for(media))


class RecognizingSerializer:
    """Decodes any encoding, which it recognizes by the first bytes; encodes JSON."""

    identifier = "json"

    def __init__(self, codecs: CodecFactory) -> None:
        self._codecs = codecs

    def decode(self, data: bytes, *, defaults: GroupVersionKind | None = None) -> Decoded:
        """Decode one object. Raises CodecError."""
        if not data:
            raise Malformed("no serializers found: the data is empty")
        media = self._codecs.recognize_media_type(data)
        return self._codecs.serializer_for(media).decode(data, defaults=defaults)

    def encode(self, obj: Tree) -> bytes:
        """Encode one object as JSON. Raises CodecError."""
        return self._codecs.serializer_for(JSON).encode(obj)

    def recognizes(self, data: bytes) -> bool:
        """Whether there are any bytes."""
        return bool(data)
