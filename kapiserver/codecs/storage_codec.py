"""Encodes and decodes objects for the store: the storage codec.

Declared kinds are stored as Protobuf and custom kinds as CBOR or JSON; all three are decoded. The
first bytes of a value tell its encoding, so a store may mix them: `k8s\\0` is a Protobuf envelope,
`d9d9f7` is CBOR, `{` is JSON. Knows no key and no revision. Mirrors the storage codec of
k8s.io/apiserver.
"""

from __future__ import annotations

import re

from kapiserver.api.accessors import kind_of
from kapiserver.api.group import GroupVersion, Resource
from kapiserver.api.types import Tree, Value
from kapiserver.codecs import cbor, json
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.custom_object_decoder import valid_metadata_fields
from kapiserver.codecs.errors import Malformed, WrongValue
from kapiserver.codecs.media_types import CBOR, JSON, PROTOBUF, MediaType
from kapiserver.codecs.serializer import Serializer
from kapiserver.codecs.tree_decoder import decode_tree

GO_SCHEME = '"pkg/runtime/scheme.go:111"'
"""How kube-apiserver 1.37.2 names its scheme in messages about stored values."""
_NO_BASE64 = re.compile(rb"[^A-Za-z0-9+/\r\n]")
STORAGE_MEDIA_TYPES = (PROTOBUF, CBOR, JSON)
"""The encodings of stored values, in the order in which they are tried."""


def storage_media_type(codecs: CodecFactory, data: bytes) -> MediaType:
    """Return the encoding of a stored value. Raises Malformed if it has none of these."""
    for media in STORAGE_MEDIA_TYPES:
        if codecs.serializer_for(media).recognizes(data):
            return media
    raise Malformed(f"illegal base64 data at input byte {_end_of_base64(data)}")


def unknown_conversion(tree: Tree, resource: Resource) -> WrongValue:
    """Return the error for a stored value of another kind than its resource, with kube-apiserver's
    names of the Go types."""
    version = GroupVersion.parse(tree["apiVersion"]).version
    package = resource.group.partition(".")[0] or "core"
    kinds = f"({version}.{tree['kind']}) to ({package}.{resource.kind})"
    return WrongValue(f"converting {kinds}: unknown conversion")


def _end_of_base64(data: bytes) -> int:
    """Return where data is not base64, which kube-apiserver tries last."""
    other_byte = _NO_BASE64.search(data)
    if other_byte is not None:
        return other_byte.start()
    digits = len(data) - data.count(b"\r") - data.count(b"\n")
    return len(data) - digits % 4


def encode_for_storage(codecs: CodecFactory, obj: Tree) -> bytes:
    """Encode an object, which is in its storage version. Equal objects give equal bytes.

    Raises NotEncodable.
    """
    if not codecs.scheme.is_typed(obj):
        if codecs.custom_storage_media_type is CBOR:
            return cbor.SELF_DESCRIBED_TAG + cbor.encode_value(obj)
        return codecs.serializer_for(codecs.custom_storage_media_type).encode(obj)
    return codecs.serializer_for(PROTOBUF).encode(obj)


def decode_from_storage(codecs: CodecFactory, data: bytes) -> Tree:
    """Decode a stored value in the version it was stored in, without defaulting.

    Raises CodecError.
    """
    try:
        return _storage_serializer(codecs, data).decode(data).object
    except WrongValue:
        obj = _decode_invalid_metadata(codecs, data)
        if obj is None:
            raise
        return obj


def _decode_invalid_metadata(codecs: CodecFactory, data: bytes) -> Tree | None:
    """Decode a custom object without its invalid metadata fields; None for a declared kind.

    Earlier versions of this server stored the metadata of custom objects unchecked.
    """
    if storage_media_type(codecs, data) is PROTOBUF:
        return None
    obj = parse_from_storage(codecs, data)
    if codecs.scheme.is_typed(obj):
        return None
    obj["metadata"] = valid_metadata_fields(obj.get("metadata"))
    return decode_tree(codecs.scheme.type_of(kind_of(obj)), obj, [])


def parse_from_storage(codecs: CodecFactory, data: bytes) -> Tree:
    """Parse a stored CBOR or JSON value without decoding it as its kind. Raises CodecError."""
    is_cbor = storage_media_type(codecs, data) is CBOR
    value = cbor.decode_value_unsorted(data) if is_cbor else json.decode_value(data)
    if not isinstance(value, dict):
        raise Malformed("the stored value is not an object")
    if is_cbor:
        _sort_managed_fields(value.get("metadata"))
    return value


def _sort_managed_fields(metadata: Value) -> None:
    """Sort the sets of managed fields, which encoders of metadata write as they are."""
    entries = metadata.get("managedFields") if isinstance(metadata, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and "fieldsV1" in entry:
            entry["fieldsV1"] = cbor.sort_keys(entry["fieldsV1"])


def _storage_serializer(codecs: CodecFactory, data: bytes) -> Serializer:
    return codecs.serializer_for(storage_media_type(codecs, data))
