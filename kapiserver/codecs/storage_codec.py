"""The bytes of an object in the store: Protobuf for declared kinds, CBOR or JSON for custom ones,
all three read.

Values carry their encoding in their first bytes, mixed freely: `k8s\\0` Protobuf in its envelope,
`d9d9f7` CBOR, `{` JSON. Knows no key and no revision. Mirrors the storage codec of
k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.api.accessors import kind_of
from kapiserver.api.types import Tree
from kapiserver.codecs import cbor, json
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.custom_object_decoder import valid_metadata_fields
from kapiserver.codecs.errors import Malformed, WrongValue
from kapiserver.codecs.media_types import CBOR, JSON, PROTOBUF, MediaType
from kapiserver.codecs.serializer import Serializer
from kapiserver.codecs.tree_decoder import decode_tree

STORAGE_MEDIA_TYPES = (PROTOBUF, CBOR, JSON)
"""What a stored value may be, by its first bytes."""


def storage_media_type(codecs: CodecFactory, data: bytes) -> MediaType:
    """The encoding of a stored value. Raises Malformed when it is none of those."""
    for media in STORAGE_MEDIA_TYPES:
        if codecs.serializer_for(media).recognizes(data):
            return media
    raise Malformed("the stored value is in no encoding that is known here")


def encode_for_storage(codecs: CodecFactory, obj: Tree) -> bytes:
    """The stored value of an object in its storage version; equal objects give equal bytes.

    Raises NotEncodable.
    """
    if not codecs.scheme.is_typed(obj):
        if codecs.custom_storage_media_type is CBOR:
            return cbor.SELF_DESCRIBED_TAG + cbor.encode_value(obj)
        return codecs.serializer_for(codecs.custom_storage_media_type).encode(obj)
    return codecs.serializer_for(PROTOBUF).encode(obj)


def decode_from_storage(codecs: CodecFactory, data: bytes) -> Tree:
    """The object of a stored value, in the version it was stored in, nothing defaulted.

    Raises CodecError.
    """
    try:
        return _storage_serializer(codecs, data).decode(data).object
    except WrongValue:
        mended = _decode_invalid_metadata(codecs, data)
        if mended is None:
            raise
        return mended


def _decode_invalid_metadata(codecs: CodecFactory, data: bytes) -> Tree | None:
    """A custom object of an old server, which did not look at metadata, without what is none."""
    if storage_media_type(codecs, data) is PROTOBUF:
        return None
    found = parse_from_storage(codecs, data)
    if codecs.scheme.is_typed(found):
        return None
    found["metadata"] = valid_metadata_fields(found.get("metadata"))
    return decode_tree(codecs.scheme.type_of(kind_of(found)), found, [])


def parse_from_storage(codecs: CodecFactory, data: bytes) -> Tree:
    """The same in CBOR or JSON without looking at what its kind is. Raises CodecError."""
    read = (
        cbor.decode_value_unsorted
        if storage_media_type(codecs, data) is CBOR
        else json.decode_value
    )
    found = read(data)
    if not isinstance(found, dict):
        raise Malformed("the stored value is no object")
    return found


def _storage_serializer(codecs: CodecFactory, data: bytes) -> Serializer:
    return codecs.serializer_for(storage_media_type(codecs, data))
