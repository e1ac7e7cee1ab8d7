"""Where every layer gets its serializers and codecs from.

Serializers are made at first use, once per factory. Knows no request and no store. Mirrors
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
    """What negotiation chooses from, and the codecs of what it chose."""

    media_types: tuple[MediaType, ...]

    def encoder_for_version(self, media: MediaType, version: GroupVersion) -> Codec:
        """Writes objects in that version."""

    def decoder_to_version(self, media: MediaType, version: GroupVersion | None) -> Codec:
        """Reads objects and hands them out in that version; None: in the hub of their group."""


class CodecFactory:
    """All serializers and codecs over one scheme."""

    def __init__(self, scheme: Scheme, media_types: Sequence[MediaType] = MEDIA_TYPES) -> None:
        self.scheme = scheme
        self.media_types = tuple(media_types)
        self._serializers: dict[str, Serializer] = {}
        self._limited_serializers: dict[str, Serializer] = {}
        self._pretty = PrettyJSONSerializer(scheme)
        self.custom_storage_media_type = CBOR if CBOR in self.media_types else JSON
        """The encoding in which custom objects are stored; JSON if CBOR is turned off."""
        self.universal_deserializer: Serializer = RecognizingSerializer(self)
        """Reads any encoding by its first bytes and hands objects out as they are."""

    def serializer_for(self, media: MediaType) -> Serializer:
        """The serializer of a media type: no defaulting, no conversion."""
        serializer = self._serializers.get(media.name)
        if serializer is None:
            serializer = self._serializers[media.name] = media.make_serializer(self.scheme)
        return serializer

    def limited_serializer_for(self, media: MediaType) -> Serializer:
        """The same for what anyone may send: it reads at most MAX_VALUES values."""
        serializer = self._limited_serializers.get(media.name)
        if serializer is None:
            serializer = media.make_serializer(self.scheme, max_values=MAX_VALUES)
            self._limited_serializers[media.name] = serializer
        return serializer

    def pretty_serializer_for(self, media: MediaType) -> Serializer:
        """The form for human eyes, where the media type has one."""
        return self._pretty if media is JSON else self.serializer_for(media)

    def recognize_media_type(self, data: bytes) -> MediaType:
        """The encoding of one object by its first bytes; YAML when nothing else.

        All that this factory can read, whether a client is offered it or not.
        """
        for media in (PROTOBUF, CBOR, JSON):
            if self.serializer_for(media).recognizes(data):
                return media
        return YAML

    def universal_decoder(self, version: GroupVersion | None = None) -> Codec:
        """Reads any encoding, defaults, and hands out that version; None: the hub."""
        return VersioningCodec(self.scheme, self.universal_deserializer, decode_version=version)

    def codec_for_versions(
        self,
        media: MediaType,
        *,
        encode: GroupVersion | None = None,
        decode: GroupVersion | None = None,
    ) -> Codec:
        """Writes in one version (None: as the object is) and hands out another (None: hub)."""
        return VersioningCodec(
            self.scheme,
            self.serializer_for(media),
            encode_version=encode,
            decode_version=decode,
        )

    def encoder_for_version(self, media: MediaType, version: GroupVersion) -> Codec:
        """Writes objects in that version."""
        return self.codec_for_versions(media, encode=version)

    def decoder_to_version(self, media: MediaType, version: GroupVersion | None) -> Codec:
        """Reads objects and hands them out in that version; None: in the hub of their group."""
        return self.codec_for_versions(media, decode=version)

    def without_conversion(self) -> NegotiatedSerializer:
        """The same encodings for a client: nothing is defaulted or converted."""
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
    """Reads whatever encoding the first bytes speak of; writes JSON."""

    identifier = "json"

    def __init__(self, codecs: CodecFactory) -> None:
        self._codecs = codecs

    def decode(self, data: bytes, *, defaults: GroupVersionKind | None = None) -> Decoded:
        """Read one object. Raises CodecError."""
        if not data:
            raise Malformed("no serializers found: the data is empty")
        media = self._codecs.recognize_media_type(data)
        return self._codecs.serializer_for(media).decode(data, defaults=defaults)

    def encode(self, obj: Tree) -> bytes:
        """Write one object as JSON. Raises CodecError."""
        return self._codecs.serializer_for(JSON).encode(obj)

    def recognizes(self, data: bytes) -> bool:
        """Any bytes but none."""
        return bool(data)
