"""Re-encodes an object or a stored value in another encoding, without defaulting and conversion.

Implements `kapiserver recode`, which does for this store what auger does for etcd. Knows no file.
"""

from __future__ import annotations

from collections.abc import Callable

from kapiserver.api.types import Value
from kapiserver.codecs import cbor, json, yaml
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.errors import UnknownKind, UnsupportedMediaType
from kapiserver.codecs.media_types import CBOR, JSON, MEDIA_TYPES, YAML, MediaType
from kapiserver.codecs.negotiation import media_type_name

_DECODERS: dict[str, Callable[[bytes], Value]] = {
    JSON.name: json.decode_value,
    YAML.name: yaml.decode_value,
    CBOR.name: cbor.decode_value,
}
_ENCODERS: dict[str, Callable[[Value], bytes]] = {
    JSON.name: lambda value: json.encode_value(value) + b"\n",
    YAML.name: yaml.encode_value,
    CBOR.name: lambda value: cbor.SELF_DESCRIBED_TAG + cbor.encode_value(value),
}


def recode(data: bytes, from_: str | None, to: str, *, codecs: CodecFactory) -> bytes:
    """Return the objects of `data` in another encoding.

    `from_` and `to` are media types or their short names (`json yaml protobuf cbor`); if `from_` is
    None, the encoding is recognized by the first bytes. Several YAML documents become several
    objects, delimited as in a stream of the target encoding. Raises CodecError.
    """
    source = media_type_by_name(from_) if from_ else codecs.recognize_media_type(data)
    target = media_type_by_name(to)
    bodies = [_recode_body(body, source, target, codecs) for body in _split_documents(data, source)]
    if len(bodies) == 1:
        return bodies[0]
    if target.framing is None:
        return b"---\n".join(bodies)
    return b"".join(target.framing.frame(body) for body in bodies)


def media_type_by_name(name: str) -> MediaType:
    """Return the media type with a short or full name. Raises UnsupportedMediaType."""
    for media in MEDIA_TYPES:
        if name.lower() == media.extension or media_type_name(name) == media.name:
            return media
    raise UnsupportedMediaType([media.extension for media in MEDIA_TYPES])


def _split_documents(data: bytes, source: MediaType) -> list[bytes]:
    if source is not YAML:
        return [data]
    documents = yaml.decode_values(data)
    if len(documents) <= 1:
        return [data]
    return [yaml.encode_value(document) for document in documents]


def _recode_body(data: bytes, source: MediaType, target: MediaType, codecs: CodecFactory) -> bytes:
    try:
        decoded = codecs.serializer_for(source).decode(data)
    except UnknownKind:
        # Self-describing encodings need no type, so unknown kinds are copied as values.
        if source.name not in _DECODERS or target.name not in _ENCODERS:
            raise
        return _ENCODERS[target.name](_DECODERS[source.name](data))
    return codecs.serializer_for(target).encode(decoded.object)
