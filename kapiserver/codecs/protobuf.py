"""Kubernetes' Protobuf: the envelope around a message, and documents put together from bytes.

An object is `k8s\\0` and a message Unknown of its kind and its own message. Since fields may come
in any order and a repeated struct is merged, stored bytes go out with a revision appended and
lists are their items one after the other: nothing is parsed. Knows no store. Mirrors
k8s.io/apimachinery/pkg/runtime/serializer/protobuf and runtime.Unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from kapiserver.api.accessors import kind_of
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree, Type, Value
from kapiserver.codecs import json
from kapiserver.codecs.bounds import UNBOUNDED
from kapiserver.codecs.document import build, complete, type_of
from kapiserver.codecs.errors import (
    CodecError,
    Malformed,
    MissingKind,
    NotEncodable,
    UnsupportedEncoding,
    WrongValue,
)
from kapiserver.codecs.serializer import Decoded
from kapiserver.codecs.varint import BYTES, delimited, read_varint, skip, tag, varint
from kapiserver.codecs.wire import decoder, encoder

MAGIC = b"k8s\0"
"""The first bytes of every envelope."""
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_JSON = "application/json"
ENVELOPE_TAIL = delimited(3, b"") + delimited(4, b"")
"""What follows the message: no content encoding, no content type."""

_TYPE_META, _RAW, _CONTENT_ENCODING, _CONTENT_TYPE = 1, 2, 3, 4
_METADATA, _ITEMS = 1, 2
_RESOURCE_VERSION = 6
_EVENT_TYPE, _EVENT_OBJECT = 1, 2
_MAX_PARTS = 100


@dataclass(frozen=True, slots=True)
class Envelope:
    """What an envelope says; parts of the kind that it does not say are empty."""

    kind: GroupVersionKind
    raw: bytes
    content_type: str = ""
    content_encoding: str = ""


def envelope_head(kind: GroupVersionKind, length: int) -> bytes:
    """What stands before a message of that length; ENVELOPE_TAIL comes after it."""
    meta = delimited(1, str(kind.group_version).encode()) + delimited(2, kind.kind.encode())
    return b"%b%b%b%b" % (MAGIC, delimited(_TYPE_META, meta), tag(_RAW, BYTES), varint(length))


def write_envelope(
    kind: GroupVersionKind, raw: bytes, content_type: str = "", content_encoding: str = ""
) -> bytes:
    """The envelope of a message."""
    tail = ENVELOPE_TAIL
    if content_type or content_encoding:
        encoding, type_ = content_encoding.encode(), content_type.encode()
        tail = delimited(_CONTENT_ENCODING, encoding) + delimited(_CONTENT_TYPE, type_)
    return b"%b%b%b" % (envelope_head(kind, len(raw)), raw, tail)


def read_envelope(data: bytes) -> Envelope:
    """Open an envelope; the message is taken as it is. Raises Malformed and WrongValue."""
    if not data.startswith(MAGIC):
        if not data:
            raise Malformed("empty data")
        raise Malformed(
            "provided data does not appear to be a protobuf message, expected prefix "
            f"[{' '.join(str(byte) for byte in MAGIC)}]"
        )
    found = _parts(data, len(MAGIC))
    meta = _parts(found.get(_TYPE_META, b""), 0)
    try:
        version = GroupVersion.parse(meta.get(1, b"").decode())
        return Envelope(
            kind=version.with_kind(meta.get(2, b"").decode()),
            raw=found.get(_RAW, b""),
            content_type=found.get(_CONTENT_TYPE, b"").decode(),
            content_encoding=found.get(_CONTENT_ENCODING, b"").decode(),
        )
    except UnicodeDecodeError as error:
        raise Malformed(str(error)) from None
    except ValueError as error:
        raise WrongValue(str(error)) from None


def _parts(data: bytes, at: int) -> dict[int, bytes]:
    # The byte fields of a message by number; a message that comes twice is merged.
    found: dict[int, bytes] = {}
    end, left = len(data), _MAX_PARTS
    try:
        while at < end:
            left -= 1
            if left < 0:
                raise Malformed("proto: an envelope has too many fields")
            mark, at = read_varint(data, at)
            number = mark >> 3
            if mark & 7 != BYTES or not 1 <= number <= _CONTENT_TYPE:
                at = skip(data, at, mark, _ENVELOPE_FIELDS)
                continue
            length, at = read_varint(data, at)
            value = data[at : at + length]
            found[number] = found.get(number, b"") + value if number == _TYPE_META else value
            at += length
    except IndexError:
        at = end + 1
    if at != end:
        raise Malformed("unexpected EOF")
    return found


_ENVELOPE_FIELDS = {1: "TypeMeta", 2: "Raw", 3: "ContentEncoding", 4: "ContentType"}


class ProtobufSerializer:
    """Objects of declared types in their envelopes."""

    identifier = "protobuf"

    def __init__(self, scheme: Scheme, *, max_values: int = UNBOUNDED) -> None:
        self._scheme = scheme
        self._max_values = max_values

    def decode(self, data: bytes, *, defaults: GroupVersionKind | None = None) -> Decoded:
        """Read one object. Raises CodecError."""
        envelope = read_envelope(data)
        kind = complete(envelope.kind, defaults)
        try:
            _require(kind)
            type_ = type_of(self._scheme, kind)
            if envelope.content_type == _JSON and not envelope.content_encoding:
                return build(
                    self._scheme,
                    _read_json(envelope.raw, self._max_values),
                    defaults=kind,
                    source=envelope.raw,
                )
            tree = _read_raw(type_, envelope, self._max_values)
        except CodecError as error:
            error.kind = kind
            raise
        head = {"kind": kind.kind, "apiVersion": str(kind.group_version)}
        return Decoded(object={**head, **tree}, kind=kind)

    def encode(self, obj: Tree) -> bytes:
        """Write one object, which names its kind. Raises NotEncodable."""
        try:
            kind = kind_of(obj)
            type_ = self._scheme.type_of(kind)
        except (NotRegistered, ValueError) as error:
            raise NotEncodable(str(error)) from None
        return write_envelope(kind, encoder(type_)(obj))

    def recognizes(self, data: bytes) -> bool:
        """Whether the data begins as an envelope does."""
        return data.startswith(MAGIC)


def _require(kind: GroupVersionKind) -> None:
    for name, value in (("Kind", kind.kind), ("apiVersion", kind.version)):
        if not value:
            meta = f'runtime.TypeMeta{{APIVersion:"{kind.group_version}", Kind:"{kind.kind}"}}'
            raise MissingKind(f"Object '{name}' is missing in '{meta}'")


def _read_json(raw: bytes, max_values: int) -> Value:
    json.check_values(raw, max_values)
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Malformed(str(error)) from None


def _read_raw(type_: type[Type], envelope: Envelope, max_values: int) -> Tree:
    if envelope.content_encoding:
        raise UnsupportedEncoding(f"unable to decode with encoding {envelope.content_encoding!r}")
    if envelope.content_type not in ("", MEDIA_TYPE):
        raise UnsupportedEncoding(f"unable to decode content type {envelope.content_type!r}")
    if not type_.wire:
        raise Malformed(f"{type_.__name__} has no protobuf message")
    return decoder(type_)(envelope.raw, max_values)


# --- documents put together from bytes


def with_resource_version(raw: bytes, revision: int) -> bytes:
    """The message of an object or a list item with another `metadata.resourceVersion`."""
    text = delimited(_RESOURCE_VERSION, b"%d" % revision)
    return raw + delimited(_METADATA, text)


def list_item_head(length: int) -> bytes:
    """What stands before each item's message of that length in the message of a list."""
    return tag(_ITEMS, BYTES) + varint(length)


def list_item_length(length: int) -> int:
    """The bytes that an item's message of that length takes in the message of a list."""
    return length + len(list_item_head(length))


def watch_event(type_: str, envelope: bytes) -> bytes:
    """The message of a WatchEvent, without its frame, around an object in its envelope."""
    return delimited(_EVENT_TYPE, type_.encode()) + delimited(_EVENT_OBJECT, delimited(1, envelope))


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event of a watch stream, its object in its envelope."""

    type: str
    object: bytes


def read_watch_event(data: bytes) -> WatchEvent:
    """Take apart the message of a WatchEvent. Raises Malformed."""
    found = _parts(data, 0)
    try:
        event = found.get(_EVENT_TYPE, b"").decode()
    except UnicodeDecodeError as error:
        raise Malformed(str(error)) from None
    return WatchEvent(event, _parts(found.get(_EVENT_OBJECT, b""), 0).get(1, b""))
