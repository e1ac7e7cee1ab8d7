"""CodecFactory: creates the serializers of a scheme.

Creates each serializer at first use, once per factory. Knows no request and no store. Mirrors
k8s.io/apimachinery/pkg/runtime/serializer.CodecFactory.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.codecs.errors import Malformed
from kapiserver.codecs.json import PrettyJSONSerializer
from kapiserver.codecs.limits import MAX_VALUES
from kapiserver.codecs.media_types import CBOR, JSON, MEDIA_TYPES, PROTOBUF, YAML, MediaType
from kapiserver.codecs.serializer import Decoded, Serializer


class CodecFactory:
    """All serializers of one scheme."""

    def __init__(self, scheme: Scheme, media_types: Sequence[MediaType] = MEDIA_TYPES) -> None:
        self.scheme = scheme
        self.media_types = tuple(media_types)
        self._serializers: dict[str, Serializer] = {}
        self._limited_serializers: dict[str, Serializer] = {}
        self._pretty = PrettyJSONSerializer(scheme)
        self.custom_storage_media_type = CBOR if CBOR in self.media_types else JSON
        """The encoding in which custom objects are stored; JSON if CBOR is turned off."""

    @property
    def universal_deserializer(self) -> Serializer:
        """Decodes any encoding, which it recognizes by the first bytes, without conversion."""
        return RecognizingSerializer(self)

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
