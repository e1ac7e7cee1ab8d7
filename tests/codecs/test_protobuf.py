"""The Protobuf envelope, the serializer, and lists and watch events built from encoded items."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.codecs.errors import (
    CodecError,
    Malformed,
    MissingKind,
    NotEncodable,
    UnknownKind,
    UnsupportedEncoding,
    WrongValue,
)
from kapiserver.codecs.protobuf.messages import message_encoder
from kapiserver.codecs.protobuf.serializer import (
    ENVELOPE_TAIL,
    Envelope,
    ProtobufSerializer,
    WatchEvent,
    envelope_head,
    list_item_head,
    list_item_length,
    read_envelope,
    read_watch_event,
    with_resource_version,
    write_envelope,
    write_watch_event,
)
from kapiserver.codecs.protobuf.wire import encode_delimited, encode_tag
from tests import trees

SCHEME = Scheme()
SERIALIZER = ProtobufSerializer(SCHEME)
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
LEASE = GroupVersionKind("coordination.k8s.io", "v1", "Lease")


def config_map(name: str, **metadata: str) -> dict[str, Any]:
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": name, **metadata},
        "data": {"k": name},
    }


ENVELOPES = {
    "6b387300" "0a0f" "0a027631" "1209436f6e6669674d6170" "1203616263" "1a00" "2200": Envelope(
        CONFIG_MAP, b"abc"
    ),
    "6b387300" "0a04" "0a00" "1200" "1200" "1a00" "2200": Envelope(
        GroupVersionKind("", "", ""), b""
    ),
    "6b387300" "0a08" "0a03612f62" "120143" "1200" "1a0178" "220179": Envelope(
        GroupVersionKind("a", "b", "C"), b"", "y", "x"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("data", "envelope"), ENVELOPES.items())
def test_envelope(data: str, envelope: Envelope) -> None:
    """An envelope has all four fields, also empty ones, and round-trips."""
    written = write_envelope(
        envelope.kind, envelope.raw, envelope.content_type, envelope.content_encoding
    )
    assert written.hex() == data
    assert read_envelope(written) == envelope


def test_head_and_tail() -> None:
    """The head and the tail of an envelope can be written separately from the message."""
    raw = b"x" * 300
    assert envelope_head(LEASE, 300) + raw + ENVELOPE_TAIL == write_envelope(LEASE, raw)


def test_partial_envelope() -> None:
    """Fields of the envelope may be absent, in any order, or unknown. Repeated type metas are
    merged."""
    data = (
        b"k8s\0" + encode_delimited(2, b"raw")
        + encode_delimited(1, encode_delimited(1, b"v1")) + encode_tag(9, 0) + b"\x01"
        + encode_delimited(1, encode_delimited(2, b"ConfigMap"))
    )  # fmt: skip
    assert read_envelope(data) == Envelope(CONFIG_MAP, b"raw")


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"", Malformed, "empty data"),
        (b"k8s", Malformed, "expected prefix [107 56 115 0]"),
        (b"{}", Malformed, "provided data does not appear to be a protobuf message"),
        (b"k8s\0\x0a", Malformed, "unexpected EOF"),
        (b"k8s\0\x0a\x05a", Malformed, "unexpected EOF"),
        (b"k8s\0\x08\x01", Malformed, "proto: wrong wireType = 0 for field TypeMeta"),
        (b"k8s\0" + encode_delimited(1, b"\x0a\x09"), Malformed, "unexpected EOF"),
        (b"k8s\0" + encode_delimited(1, encode_delimited(1, b"\xff")), Malformed, "utf-8"),
        (b"k8s\0" + encode_delimited(4, b"\xff"), Malformed, "utf-8"),
        (
            b"k8s\0" + encode_delimited(1, encode_delimited(1, b"a/b/c")),
            WrongValue,
            "unexpected GroupVersion",
        ),
    ],
)
def test_malformed_envelope(data: bytes, error: type[CodecError], message: str) -> None:
    """A malformed envelope is an error with a message."""
    with pytest.raises(error) as caught:
        SERIALIZER.decode(data)
    assert message in str(caught.value)


def test_defaults() -> None:
    """The defaults supply a kind or apiVersion that the envelope omits."""
    raw = read_envelope(SERIALIZER.encode(config_map("a"))).raw
    nameless = write_envelope(GroupVersionKind("", "", ""), raw)
    decoded = SERIALIZER.decode(nameless, defaults=CONFIG_MAP)
    assert decoded.kind == CONFIG_MAP
    assert decoded.object == config_map("a")
    assert list(decoded.object) == ["kind", "apiVersion", "metadata", "data"]
    with pytest.raises(MissingKind, match="Object 'Kind' is missing in"):
        SERIALIZER.decode(nameless)
    with pytest.raises(MissingKind, match="Object 'apiVersion' is missing in"):
        SERIALIZER.decode(write_envelope(GroupVersionKind("", "", "Pod"), raw))


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (GroupVersionKind("", "v1", "Nothing"), UnknownKind),
        (GroupVersionKind("", "v9", "Pod"), UnknownKind),
        (GroupVersionKind("autoscaling", "__internal", "HorizontalPodAutoscaler"), UnknownKind),
        (GroupVersionKind("", "v1", "Table"), Malformed),
    ],
)
def test_kinds_without_a_message(kind: GroupVersionKind, error: type[CodecError]) -> None:
    """An unknown kind, or a kind without a Protobuf message, is an error with the kind."""
    with pytest.raises(error) as caught:
        SERIALIZER.decode(write_envelope(kind, b""))
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("type_", "encoding"), [("application/cbor", ""), ("", "gzip"), ("application/json", "gzip")]
)
def test_other_contents(type_: str, encoding: str) -> None:
    """Compressed contents and contents of other types are errors."""
    with pytest.raises(UnsupportedEncoding):
        SERIALIZER.decode(write_envelope(CONFIG_MAP, b"", type_, encoding))


def test_content_type_of_protobuf() -> None:
    """The contentType may name Protobuf."""
    raw = read_envelope(SERIALIZER.encode(config_map("a"))).raw
    data = write_envelope(CONFIG_MAP, raw, "application/vnd.kubernetes.protobuf")
    assert SERIALIZER.decode(data).object == config_map("a")


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"kind": "ConfigMap"},
        {"kind": "ConfigMap", "apiVersion": "a/b/c"},
        {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": None, "rows": None},
        {"kind": "ConfigMap", "apiVersion": "v1", "data": 1},
    ],
)
def test_not_encodable(obj: dict[str, Any]) -> None:
    """An object without a kind, without a Protobuf message or with invalid values is not
    encodable."""
    with pytest.raises(NotEncodable):
        SERIALIZER.encode(obj)


def test_json_contents() -> None:
    """Contents with the contentType JSON are decoded as JSON."""
    text = b'{"metadata": {"name": "a"}, "data": {"k": "a"}, "x": 1}'
    decoded = SERIALIZER.decode(write_envelope(CONFIG_MAP, text, "application/json"))
    assert decoded.object == config_map("a")
    assert decoded.strict_errors == ('unknown field "x"',)
    with pytest.raises(Malformed):
        SERIALIZER.decode(write_envelope(CONFIG_MAP, b"{", "application/json"))


def test_recognizes() -> None:
    """An envelope is recognized by its prefix."""
    assert SERIALIZER.recognizes(SERIALIZER.encode(config_map("a")))
    assert not SERIALIZER.recognizes(b'{"kind": "k8s"}')
    assert not SERIALIZER.recognizes(b"k8s")


def test_with_resource_version() -> None:
    """The appended resourceVersion replaces that of the stored bytes."""
    raw = read_envelope(SERIALIZER.encode(config_map("a", resourceVersion="5"))).raw
    data = write_envelope(CONFIG_MAP, with_resource_version(raw, 2**63 - 1))
    assert SERIALIZER.decode(data).object == config_map("a", resourceVersion=str(2**63 - 1))


@settings(max_examples=50)
@given(st.lists(trees.trees(SCHEME.type_of(CONFIG_MAP)), max_size=3))
def test_list_of_items(items: list[dict[str, Any]]) -> None:
    """A list joined from encoded items equals the list that the serializer encodes."""
    kind = CONFIG_MAP._replace(kind="ConfigMapList")
    meta = {"resourceVersion": "9", "continue": "c", "remainingItemCount": 0}
    whole = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": meta, "items": items or None}
    first = read_envelope(SERIALIZER.encode({**whole, "items": []})).raw
    messages = [message_encoder(SCHEME.type_of(CONFIG_MAP))(item) for item in items]
    length = len(first) + sum(list_item_length(len(message)) for message in messages)
    parts = [list_item_head(len(message)) + message for message in messages]
    data = envelope_head(kind, length) + first + b"".join(parts) + ENVELOPE_TAIL
    assert data == SERIALIZER.encode(whole)
    assert SERIALIZER.decode(data).object == whole


def test_spliced_items_of_a_list() -> None:
    """The resourceVersion of an item is inserted into its encoding in a list."""
    raw = read_envelope(SERIALIZER.encode(config_map("a"))).raw
    item = with_resource_version(raw, 7)
    data = write_envelope(
        CONFIG_MAP._replace(kind="ConfigMapList"), list_item_head(len(item)) + item
    )
    (item,) = SERIALIZER.decode(data).object["items"]
    assert item == {"metadata": {"name": "a", "resourceVersion": "7"}, "data": {"k": "a"}}


def test_watch_event() -> None:
    """A watch event has the object in its envelope, within a RawExtension."""
    envelope = SERIALIZER.encode(config_map("a"))
    data = write_watch_event("ADDED", envelope)
    assert data == encode_delimited(1, b"ADDED") + encode_delimited(
        2, encode_delimited(1, envelope)
    )
    assert read_watch_event(data) == WatchEvent("ADDED", envelope)


@pytest.mark.parametrize(
    "data", [b"\x0a", encode_delimited(1, b"\xff"), encode_delimited(2, b"\x0a\x05")]
)
def test_bad_watch_event(data: bytes) -> None:
    """A truncated event, or one with invalid UTF-8, is an error."""
    with pytest.raises(Malformed):
        read_watch_event(data)


WHOLE = SERIALIZER.encode(
    {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", **trees.filled(SCHEME.type_of(LEASE))}
)


@settings(max_examples=200)
@given(st.binary(max_size=64) | st.integers(0, len(WHOLE)), st.integers(0, 8 * len(WHOLE) - 1))
def test_hostile(cut: bytes | int, flip: int) -> None:
    """Random bytes, truncated envelopes and flipped bits decode to an object or raise
    CodecError."""
    data = bytearray(b"k8s\0" + cut if isinstance(cut, bytes) else WHOLE[:cut])
    if flip // 8 < len(data):
        data[flip // 8] ^= 1 << flip % 8
    try:
        SERIALIZER.decode(bytes(data))
    except CodecError:
        return
