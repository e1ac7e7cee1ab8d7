"""The transcoder from Protobuf to JSON gives the same text as decoding and encoding a tree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.embedded_type_meta import add_type_meta
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree, Type
from kapiserver.codecs.json import encode_value
from kapiserver.codecs.protobuf import to_json as protobuf_to_json
from kapiserver.codecs.protobuf.messages import message_decoder, message_encoder
from kapiserver.codecs.protobuf.to_json import TRANSCODE_ERRORS, transcoder
from kapiserver.codecs.protobuf.wire import encode_delimited, encode_tag, encode_varint
from tests import trees
from tests.codecs.test_protobuf_messages import CASES, Sample
from tests.traced_memory import trace

SCHEME = Scheme()
KINDS = [kind for kind in trees.kinds(SCHEME, wire=True) if not kind.kind.endswith("List")]


def by_tree(type_: type[Type], message: bytes) -> bytes:
    """The text by way of a tree."""
    tree = message_decoder(type_)(message)
    add_type_meta(type_, tree)
    return encode_value(tree)


@settings(max_examples=1)
@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_every_kind(kind: GroupVersionKind, data: Any) -> None:
    """Random and complete objects of each kind have the text of their tree."""
    type_ = SCHEME.type_of(kind)
    for tree in (data.draw(trees.trees(type_)), trees.filled(type_)):
        message = message_encoder(type_)(tree)
        for _ in range(2):  # the second call uses the cache
            assert transcoder(type_)(message) == by_tree(type_, message)


@pytest.mark.parametrize(("tree", "_hex"), CASES)
def test_every_field_type(tree: Tree, _hex: str) -> None:
    """Absent, zero and set values of each field type."""
    message = message_encoder(Sample)(tree)
    assert transcoder(Sample)(message) == by_tree(Sample, message)


MESSAGES = {
    "fields out of order": encode_delimited(17, b"b")
    + encode_delimited(1, b"a")
    + encode_delimited(17, b"c"),
    "a struct in two parts": encode_delimited(8, encode_delimited(1, b"a"))
    + encode_delimited(8, encode_tag(2, 0) + encode_varint(7)),
    "unknown fields": encode_delimited(999, b"x")
    + encode_delimited(1, b"a")
    + encode_tag(998, 0)
    + encode_varint(1),
    "packed numbers": encode_delimited(18, b"\1\2\3"),
    "packed nothing": encode_delimited(18, b""),
    "numbers too large for their type": encode_tag(4, 0)
    + encode_varint((1 << 40) + 5)
    + encode_tag(5, 0)
    + encode_varint(-3),
    "what Go escapes": encode_delimited(1, '<&>\u2028\u2029"\\\n\0é'.encode()),
    "a key twice in a map": 2
    * encode_delimited(20, encode_delimited(1, b"k") + encode_delimited(2, b"v")),
    "raw JSON with spaces and floats": encode_delimited(
        27, encode_delimited(1, b'{"a": [1.0, 2e30, "<"]}')
    ),
    "a whole float": encode_tag(6, 1) + b"\0\0\0\0\0\0\xf0\x3f",
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_messages_of_other_encoders(message: bytes) -> None:
    """Messages with fields in another order, packed numbers or merged structs have the text of
    their tree."""
    assert transcoder(Sample)(message) == by_tree(Sample, message)


BROKEN = {
    "cut off": encode_delimited(1, b"abc")[:-1] + b"",
    "cut off within a tag": b"\x80",
    "no UTF-8": encode_delimited(1, b"\xff"),
    "no JSON": encode_delimited(27, encode_delimited(1, b"{")),
    "not a number": encode_tag(6, 1) + b"\0\0\0\0\0\0\xf8\x7f",
    "a wrong wire type": encode_tag(1, 0) + b"\1",
}


@pytest.mark.parametrize("message", BROKEN.values(), ids=BROKEN)
def test_malformed(message: bytes) -> None:
    """Malformed messages raise one of TRANSCODE_ERRORS."""
    with pytest.raises(TRANSCODE_ERRORS):
        transcoder(Sample)(message)


def test_cache_size_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unused entries of the cache are evicted; entries in use stay."""
    memory = protobuf_to_json._TextCache()
    monkeypatch.setattr(protobuf_to_json, "_text_cache", memory)
    monkeypatch.setattr(protobuf_to_json, "CACHE_BYTES", 10_000)
    often = encode_delimited(1, b"often")
    for number in range(200):
        part = encode_delimited(1, b"%d" % number)
        message = encode_delimited(19, often) + encode_delimited(19, part)
        assert transcoder(Sample)(message) == by_tree(Sample, message)
        for held in (memory.young, memory.old):
            assert (
                sum(
                    len(k[1]) + len(v) + protobuf_to_json.CACHE_ENTRY_OVERHEAD
                    for k, v in held.items()
                )
                <= 10_000
            )
    assert memory.old
    assert any(key[1] == often for key in (*memory.young, *memory.old))


@pytest.mark.own_process
def test_cache_entries_take_the_counted_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts of scalar values, which orjson writes, take as much memory as the cache counts."""
    memory = protobuf_to_json._TextCache()
    monkeypatch.setattr(protobuf_to_json, "_text_cache", memory)
    write = transcoder(Sample)
    messages = [
        encode_delimited(24, encode_tag(1, 0) + encode_varint(number))
        for number in range(1000, 2000)
    ]
    write(messages[0])

    def run() -> None:
        memory.young.clear()
        memory.size = 0
        for message in messages:
            write(message)

    assert trace(run).retained < 2 * memory.size
    assert len(memory.young) == len(messages)
