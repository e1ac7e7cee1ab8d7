"""Kubernetes' Protobuf: the envelope of messages, and messages concatenated from encoded parts.

An encoded object is `k8s\\0` and a runtime.Unknown message, which contains the kind and the
object's message. Protobuf fields may be in any order and repeated messages are merged. So the
resource version is appended to a stored message, and a list is the concatenation of its items,
without decoding either. Knows no store. Mirrors
k8s.io/apimachinery/pkg/runtime/serializer/protobuf and runtime.Unknown.
"""

from __future__ import annotations

import functools

import orjson
from msgspec import Struct

from kapiserver.api.accessors import kind_of
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree, Type, Value
from kapiserver.codecs import json
from kapiserver.codecs.errors import (
    CodecError,
    Malformed,
    MissingKind,
    NotEncodable,
    UnsupportedEncoding,
    WrongValue,
)
from kapiserver.codecs.limits import UNLIMITED
from kapiserver.codecs.object_decoder import complete_kind, decode_object, registered_type
from kapiserver.codecs.protobuf.messages import message_decoder, message_encoder
from kapiserver.codecs.protobuf.wire import (
    BYTES,
    encode_delimited,
    encode_tag,
    encode_varint,
    read_varint,
    skip_field,
)
from kapiserver.codecs.serializer import Decoded

MAGIC = b"k8s\0"
"""The first bytes of every envelope."""
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_JSON = "application/json"
ENVELOPE_TAIL = encode_delimited(3, b"") + encode_delimited(4, b"")
"""The fields after the message: an empty content encoding and an empty content type."""

_TYPE_META, _RAW, _CONTENT_ENCODING, _CONTENT_TYPE = 1, 2, 3, 4
_METADATA, _ITEMS = 1, 2
_METADATA_TAG = encode_tag(_METADATA, BYTES)
_RESOURCE_VERSION_TAG = encode_tag(6, BYTES)
_EVENT_TYPE, _EVENT_OBJECT = 1, 2
_MAX_ENVELOPE_FIELDS = 100


class Envelope(Struct, frozen=True):
    """The fields of a runtime.Unknown message; missing parts of the kind are empty."""

    kind: GroupVersionKind
    raw: bytes
    content_type: str = ""
    content_encoding: str = ""


def envelope_head(kind: GroupVersionKind, length: int) -> bytes:
    """Return the envelope before a message of that length; ENVELOPE_TAIL comes after it."""
    return _head_before_length(kind) + encode_varint(length)


@functools.lru_cache(maxsize=4096)
def _head_before_length(kind: GroupVersionKind) -> bytes:
    type_meta = encode_delimited(1, kind.api_version.encode()) + encode_delimited(
        2, kind.kind.encode()
    )
    return MAGIC + encode_delimited(_TYPE_META, type_meta) + encode_tag(_RAW, BYTES)


def write_envelope(
    kind: GroupVersionKind, raw: bytes, content_type: str = "", content_encoding: str = ""
) -> bytes:
    """Return a message in its envelope."""
    tail = ENVELOPE_TAIL
    if content_type or content_encoding:
        encoding, type_ = content_encoding.encode(), content_type.encode()
        tail = encode_delimited(_CONTENT_ENCODING, encoding) + encode_delimited(
            _CONTENT_TYPE, type_
        )
    return b"%b%b%b" % (envelope_head(kind, len(raw)), raw, tail)


def read_envelope(data: bytes) -> Envelope:
    """Decode an envelope but not the message in it. Raises Malformed, WrongValue."""
    if not data.startswith(MAGIC):
        if not data:
            raise Malformed("empty data")
        raise Malformed(
            "provided data does not appear to be a protobuf message, expected prefix "
            f"[{' '.join(str(byte) for byte in MAGIC)}]"
        )
    if len(data) == len(MAGIC):
        raise Malformed("empty body")
    fields = _read_fields(data, len(MAGIC))
    type_meta = _read_fields(fields.get(_TYPE_META, b""), 0)
    try:
        version = GroupVersion.parse(type_meta.get(1, b"").decode())
        return Envelope(
            kind=version.with_kind(type_meta.get(2, b"").decode()),
            raw=fields.get(_RAW, b""),
            content_type=fields.get(_CONTENT_TYPE, b"").decode(),
            content_encoding=fields.get(_CONTENT_ENCODING, b"").decode(),
        )
    except UnicodeDecodeError as error:
        raise Malformed(str(error)) from None
    except ValueError as error:
        raise WrongValue(str(error)) from None


def _read_fields(data: bytes, at: int) -> dict[int, bytes]:
    # Returns the length-delimited fields of a message by number. A repeated TypeMeta is merged.
    fields: dict[int, bytes] = {}
    end, remaining = len(data), _MAX_ENVELOPE_FIELDS
    try:
        while at < end:
            remaining -= 1
            if remaining < 0:
                raise Malformed("proto: an envelope has too many fields")
            field_tag, at = read_varint(data, at)
            number = field_tag >> 3
            if field_tag & 7 != BYTES or not 1 <= number <= _CONTENT_TYPE:
                at = skip_field(data, at, field_tag, _ENVELOPE_FIELDS)
                continue
            length, at = read_varint(data, at)
            value = data[at : at + length]
            fields[number] = fields.get(number, b"") + value if number == _TYPE_META else value
            at += length
    except IndexError:
        at = end + 1
    if at != end:
        raise Malformed("unexpected EOF")
    return fields


_ENVELOPE_FIELDS = {1: "TypeMeta", 2: "Raw", 3: "ContentEncoding", 4: "ContentType"}


class ProtobufSerializer:
    """Encodes and decodes objects of declared types in envelopes."""

    identifier = "protobuf"

    def __init__(self, scheme: Scheme, *, max_values: int = UNLIMITED) -> None:
        self._scheme = scheme
        self._max_values = max_values

    def decode(self, data: bytes, *, defaults: GroupVersionKind | None = None) -> Decoded:
        """Decode one object. Raises CodecError."""
        envelope = read_envelope(data)
        kind = complete_kind(envelope.kind, defaults)
        try:
            _require_kind(kind)
            type_ = registered_type(self._scheme, kind)
            if envelope.content_type == _JSON and not envelope.content_encoding:
                return decode_object(
                    self._scheme,
                    _decode_json(envelope.raw, self._max_values),
                    defaults=kind,
                    source=envelope.raw,
                )
            tree = _decode_message(type_, envelope, self._max_values)
        except CodecError as error:
            error.kind = kind
            raise
        head = {"kind": kind.kind, "apiVersion": kind.api_version}
        if not type_.declares_fields:  # a custom kind, whose schema has more to say
            return decode_object(self._scheme, {**head, **tree}, defaults=kind, source=b"")
        return Decoded(object={**head, **tree}, kind=kind)

    def encode(self, obj: Tree) -> bytes:
        """Encode one object, which has `kind` and `apiVersion`. Raises NotEncodable."""
        try:
            kind = kind_of(obj)
            type_ = self._scheme.type_of(kind)
        except (NotRegistered, ValueError) as error:
            raise NotEncodable(str(error)) from None
        return write_envelope(kind, message_encoder(type_)(obj))

    def recognizes(self, data: bytes) -> bool:
        """Whether the data begins with the prefix of envelopes."""
        return data.startswith(MAGIC)


def _require_kind(kind: GroupVersionKind) -> None:
    for name, value in (("Kind", kind.kind), ("apiVersion", kind.version)):
        if not value:
            type_meta = f'runtime.TypeMeta{{APIVersion:"{kind.group_version}", Kind:"{kind.kind}"}}'
            raise MissingKind(f"Object '{name}' is missing in '{type_meta}'")


def _decode_json(raw: bytes, max_values: int) -> Value:
    json.check_value_count(raw, max_values)
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Malformed(str(error)) from None


def _decode_message(type_: type[Type], envelope: Envelope, max_values: int) -> Tree:
    if envelope.content_encoding:
        raise UnsupportedEncoding(f"unable to decode with encoding {envelope.content_encoding!r}")
    if envelope.content_type not in ("", MEDIA_TYPE):
        raise UnsupportedEncoding(f"unable to decode content type {envelope.content_type!r}")
    if not type_.wire:
        raise Malformed(f"{type_.__name__} has no protobuf message")
    return message_decoder(type_)(envelope.raw, max_values)


# --- messages concatenated from encoded parts


def with_resource_version(raw: bytes, revision: int) -> bytes:
    """Return the message of an object or a list item with another `metadata.resourceVersion`."""
    version = b"%d" % revision  # at most 19 digits, so each length is one byte
    return b"%b%b%c%b%c%b" % (
        raw,
        _METADATA_TAG,
        len(version) + 2,
        _RESOURCE_VERSION_TAG,
        len(version),
        version,
    )


def metadata_at_revision(message: bytes, revision: int) -> bytes | None:
    """Return the message of an object's metadata, with another `resourceVersion` unless the
    revision is 0; None if the object's message does not begin with its metadata. Raises IndexError
    if the message is truncated."""
    if message[:1] != _METADATA_TAG:
        return None
    length, start = read_varint(message, 1)
    end = start + length
    if end > len(message):
        raise IndexError("truncated metadata")
    if not revision:
        return message[start:end]
    version = b"%d" % revision  # at most 19 digits, so its length is one byte
    return b"%b%b%c%b" % (message[start:end], _RESOURCE_VERSION_TAG, len(version), version)


def list_item_head(length: int) -> bytes:
    """Return the tag and length before an item's message in the message of a list."""
    return encode_tag(_ITEMS, BYTES) + encode_varint(length)


def list_item_length(length: int) -> int:
    """Return the bytes that an item with a message of that length takes in a list."""
    return length + len(list_item_head(length))


def write_watch_event(type_: str, envelope: bytes) -> bytes:
    """Return the unframed message of a WatchEvent for an object in its envelope."""
    return encode_delimited(_EVENT_TYPE, type_.encode()) + encode_delimited(
        _EVENT_OBJECT, encode_delimited(1, envelope)
    )


class WatchEvent(Struct, frozen=True):
    """One event of a watch stream; `object` is an envelope."""

    type: str
    object: bytes


def read_watch_event(data: bytes) -> WatchEvent:
    """Decode the message of a WatchEvent. Raises Malformed."""
    fields = _read_fields(data, 0)
    try:
        event_type = fields.get(_EVENT_TYPE, b"").decode()
    except UnicodeDecodeError as error:
        raise Malformed(str(error)) from None
    return WatchEvent(event_type, _read_fields(fields.get(_EVENT_OBJECT, b""), 0).get(1, b""))
