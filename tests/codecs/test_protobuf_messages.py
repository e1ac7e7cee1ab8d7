"""Protobuf messages of declared types: exact bytes, comparison with Google's runtime, and malformed
input."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api import idl
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.meta.v1 import Table
from kapiserver.api.scalar_types import (
    IntOrString,
    MicroTime,
    Quantity,
    RawExtension,
    StringList,
    Time,
)
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import (
    ListOf,
    MapOf,
    Message,
    ScalarType,
    Type,
    double,
    field,
    int32,
    int64,
)
from kapiserver.codecs.errors import CodecError, Malformed, NotEncodable
from kapiserver.codecs.limits import MAX_DEPTH
from kapiserver.codecs.protobuf.messages import message_decoder, message_encoder
from kapiserver.codecs.protobuf.wire import encode_delimited, encode_tag, encode_varint
from tests import trees

SCHEME = Scheme()
KINDS = list(trees.kinds(SCHEME, wire=True))
VERSIONS = trees.kinds_by_version(SCHEME, wire=True)


class Part(Type):
    """A struct in the sample below."""

    name: str = field(1, always=True)
    size: int32 | None = field(2)
    parts: list[Part] = field(3)


class Head(Type):
    """An embedded struct."""

    first: str = field(1)
    second: str | None = field(2)


class Sample(Type):
    """A type with a field of each type."""

    text: str = field(1)
    textPointer: str | None = field(2)
    flag: bool | None = field(3)
    small: int32 | None = field(4)
    large: int64 | None = field(5)
    ratio: double | None = field(6)
    data: bytes = field(7)
    part: Part | None = field(8)
    head: Head | None = field(16, inline=True)
    texts: list[str] = field(17)
    numbers: list[int64] = field(18)
    parts: list[Part] = field(19)
    labels: dict[str, str] = field(20)
    counts: dict[str, int32] = field(21)
    sizes: dict[str, Quantity] = field(22)
    files: dict[str, bytes] = field(23)
    at: Time | None = field(24)
    exactly: MicroTime | None = field(25)
    port: IntOrString | None = field(26)
    raw: RawExtension | None = field(27)
    verbs: StringList = field(2047)
    ratios: list[double] = field(2048)


# (tree, bytes after the empty `text`)
CASES: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"textPointer": ""}, "1200"),
    ({"textPointer": "\u00e9"}, "1202c3a9"),
    ({"flag": False}, "1800"),
    ({"flag": True}, "1801"),
    ({"small": 0}, "2000"),
    ({"small": -1}, "20ffffffffffffffffff01"),
    ({"small": -(2**31)}, "2080808080f8ffffffff01"),
    ({"small": 2**31 - 1}, "20ffffffff07"),
    ({"large": 300}, "28ac02"),
    ({"large": -(2**63)}, "2880808080808080808001"),
    ({"ratio": 1.0}, "31000000000000f03f"),
    ({"data": "AAE="}, "3a020001"),
    ({"part": {"name": ""}}, "42020a00"),
    ({"part": {"name": "a", "size": 0}}, "42050a01611000"),
    ({"second": ""}, "8201040a001200"),
    ({"second": "x"}, "8201050a00120178"),
    ({"texts": ["", "a"]}, "8a01008a010161"),
    ({"numbers": [0, -1]}, "9001009001ffffffffffffffffff01"),
    ({"parts": [{"name": ""}, {"name": "b", "parts": [{"name": ""}]}]},
     "9a01020a009a01070a01621a020a00"),
    ({"labels": {"a": "", "b": "c"}}, "a201050a01611200a201060a0162120163"),
    ({"counts": {"a": -1}}, "aa010e0a016110ffffffffffffffffff01"),
    ({"sizes": {"cpu": "1"}}, "b2010a0a0363707512030a0131"),
    ({"files": {"a": ""}}, "ba01050a01611200"),
    ({"at": "1970-01-01T00:00:01Z"}, "c2010408011000"),
    ({"exactly": "1970-01-01T00:00:01.000002Z"}, "ca0105080110d00f"),
    ({"port": 80}, "d20106080010501a00"),
    ({"port": "a"}, "d20107080110001a0161"),
    ({"raw": {"a": 1}}, "da01090a077b2261223a317d"),
    ({"verbs": ["get"]}, "fa7f050a03676574"),
    ({"ratios": [0.5]}, "818001000000000000e03f"),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "expected"), CASES)
def test_bytes(tree: dict[str, Any], expected: str) -> None:
    """A field of each type has the bytes that gogo/protobuf writes, and round-trips."""
    written = message_encoder(Sample)(tree)
    assert written.hex() == "0a00" + expected
    assert message_decoder(Sample)(written) == tree


# Written by hand from the field tables: a string, number or struct that is not a pointer is
# written even if it is zero.
META = "0a0012001a0022002a00320038004200"
POD_SPEC = "1a00320042004a005200580060006800" + "8201008a01009a0100c20100"
POD_STATUS = "0a001a0022002a0032004a005a007200880100"
OBJECTS = {
    "Pod": (
        {"metadata": {}, "spec": {"containers": None}, "status": {}},
        f"0a10{META}121c{POD_SPEC}1a13{POD_STATUS}",
    ),
    "ConfigMap": (
        {"metadata": {"name": "a"}, "data": {"k": "v"}, "immutable": False},
        "0a11" + META.replace("0a00", "0a0161", 1) + "1206" + "0a016b120176" + "2000",
    ),
    "Deployment": (
        {
            "metadata": {},
            "spec": {
                "replicas": 0,
                "selector": None,
                "template": {"metadata": {}, "spec": {"containers": None}},
                "strategy": {},
            },
            "status": {},
        },
        f"0a10{META}123c" + "0800" + f"1a300a10{META}121c{POD_SPEC}" + "22020a00" + "2800" + "3800"
        "1a0c" + "080010001800200028003800",
    ),
    "Event": (
        {
            "metadata": {},
            "involvedObject": {},
            "source": {},
            "firstTimestamp": None,
            "lastTimestamp": "1970-01-01T00:00:01Z",
            "eventTime": "1970-01-01T00:00:01.000002Z",
            "reportingComponent": "",
            "reportingInstance": "",
        },
        f"0a10{META}120e0a0012001a0022002a0032003a00" + "1a00" + "2200" + "2a040a001200" + "3200"
        "3a0408011000" + "4000" + "4a00" + "52050801" + "10d00f" + "6200" + "7200" + "7a00",
    ),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects(name: str) -> None:
    """Nearly empty objects have the bytes that Go writes."""
    group = "apps" if name == "Deployment" else ""
    type_ = SCHEME.type_of(GroupVersionKind(group, "v1", name))
    tree, expected = OBJECTS[name]
    written = message_encoder(type_)(tree)
    assert written.hex() == expected
    assert message_decoder(type_)(written) == tree


# --- every kind


@settings(max_examples=3)
@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_round_trip(kind: GroupVersionKind, data: st.DataObject) -> None:
    """A canonical tree of any kind round-trips, with the order of its keys."""
    type_ = SCHEME.type_of(kind)
    tree = data.draw(trees.trees(type_))
    written = message_encoder(type_)(tree)
    assert json.dumps(message_decoder(type_)(written)) == json.dumps(tree)
    same_message(proto(type_, written), tree, type_)


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_filled(version: GroupVersion) -> None:
    """A tree with every field set round-trips. Google's runtime decodes the same values and encodes
    the same bytes."""
    for kind in VERSIONS[version]:
        type_ = SCHEME.type_of(kind)
        tree = trees.filled(type_)
        written = message_encoder(type_)(tree)
        assert json.dumps(message_decoder(type_)(written)) == json.dumps(tree), kind
        parsed = proto(type_, written)
        same_message(parsed, tree, type_)
        assert parsed.SerializeToString(deterministic=True) == written, kind


def has_metadata(kind: GroupVersionKind) -> bool:
    fields = SCHEME.type_of(kind).fields()
    return any(field_.name == "metadata" and field_.number == 1 for field_ in fields)


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_appended_metadata(version: GroupVersion) -> None:
    """A repeated struct field is merged, field by field."""
    for kind in filter(has_metadata, VERSIONS[version]):
        type_ = SCHEME.type_of(kind)
        tree = trees.filled(type_)
        number = 2 if "continue" in tree["metadata"] else 6
        revision = encode_delimited(1, encode_delimited(number, b"77"))
        tree["metadata"] = {**tree["metadata"], "resourceVersion": "77"}
        written = message_encoder(type_)(trees.filled(type_))
        assert message_decoder(type_)(written + revision) == tree, kind


@functools.cache
def pool() -> descriptor_pool.DescriptorPool:
    """A descriptor pool of Google's runtime with the IDL of the declared types."""
    result = descriptor_pool.DescriptorPool()
    open_ = list(idl.proto_files(SCHEME))
    done: set[str] = set()
    while open_:
        file = next(file for file in open_ if done.issuperset(file.imports))
        result.Add(idl.file_descriptor(file))
        open_.remove(file)
        done.add(file.path)
    return result


def proto(type_: type[Type], data: bytes) -> ProtoMessage:
    """The message as Google's runtime decodes it."""
    name = f"{idl.package_of(type_)}.{type_.__name__}"
    class_ = message_factory.GetMessageClass(pool().FindMessageTypeByName(name))
    return class_.FromString(data)


def same_message(message: Any, tree: Any, type_: type[Type]) -> None:
    """Assert that a parsed message and a canonical value have the same fields."""
    assert len(UnknownFieldSet(message)) == 0
    if issubclass(type_, ScalarType):
        tree = type_.to_message(tree)
    for field_ in type_.fields():
        if field_.number is None:
            continue
        parsed = getattr(message, field_.proto)
        value = tree if field_.options.inline else tree.get(field_.name)
        shape = field_.shape
        if isinstance(shape, ListOf):
            assert len(parsed) == len(value or [])
            for part, expected in zip(parsed, value or [], strict=True):
                same_value(part, expected, shape.item)
        elif isinstance(shape, MapOf):
            assert set(parsed) == set(value or {})
            for key, expected in (value or {}).items():
                same_value(parsed[key], expected, shape.value)
        elif message.HasField(field_.proto):
            same_value(parsed, value, shape)
        else:
            assert value is None
            assert field_.pointer or (field_.shape, value) == (shape, None)


def same_value(parsed: Any, value: Any, shape: Any) -> None:
    if isinstance(shape, Message):
        same_message(parsed, value if value is not None else {}, shape.type)
    elif shape.name == "bytes":
        import base64

        assert base64.b64encode(parsed).decode() == (value or "")
    else:
        assert parsed == (value if value is not None else type(parsed)())


# --- messages of other encoders


def test_fields_in_any_order() -> None:
    """Fields may come in any order, and unknown fields are skipped."""
    unknown = (
        encode_tag(900, 0)
        + encode_varint(1 << 63)
        + encode_tag(901, 1)
        + bytes(8)
        + encode_tag(902, 5)
        + bytes(4)
    )
    group = (
        encode_tag(903, 3)
        + encode_tag(1, 3)
        + encode_delimited(5, b"x")
        + encode_tag(1, 4)
        + encode_tag(903, 4)
    )
    data = (
        encode_delimited(19, encode_delimited(1, b"a")) + unknown
        + encode_delimited(8, b"") + encode_delimited(1, b"first")
        + encode_delimited(8, encode_tag(2, 0) + b"\x05") + group + encode_delimited(1, b"last")
        + encode_delimited(19, encode_delimited(1, b"b"))
        + encode_delimited(8, encode_delimited(1, b"n"))
    )  # fmt: skip
    assert message_decoder(Sample)(data) == {
        "text": "last",
        "part": {"name": "n", "size": 5},
        "parts": [{"name": "a"}, {"name": "b"}],
    }


def test_packed_numbers() -> None:
    """Repeated numbers may be packed."""
    data = (
        encode_tag(18, 0)
        + b"\x07"
        + encode_delimited(18, encode_varint(1) + encode_varint(-1))
        + encode_tag(18, 0)
        + b"\x08"
    )
    assert message_decoder(Sample)(data) == {"numbers": [7, 1, -1, 8]}
    packed = encode_delimited(2048, bytes.fromhex("000000000000e03f"))
    assert message_decoder(Sample)(packed) == {"ratios": [0.5]}


def test_map_entries() -> None:
    """Key and value of a map entry may be absent or in reverse order. The last entry of a key
    wins."""
    entries = [
        b"",
        encode_delimited(2, b"v") + encode_delimited(1, b"k"),
        encode_delimited(1, b"k"),
        encode_tag(7, 0) + b"\1",
    ]
    data = b"".join(encode_delimited(20, entry) for entry in entries)
    assert message_decoder(Sample)(data) == {"labels": {"": "", "k": ""}}


HOSTILE = {
    "field 0": b"\x00\x01",
    "tag of eleven bytes": b"\x80" * 10 + b"\x01",
    "value of eleven bytes": encode_tag(4, 0) + b"\xff" * 10 + b"\x01",
    "length of eleven bytes": encode_tag(1, 2) + b"\xff" * 10 + b"\x01",
    "length beyond everything": encode_tag(1, 2) + b"\xff" * 9 + b"\x01",
    "length beyond the end": encode_delimited(1, b"abc")[:-1],
    "no length": encode_tag(1, 2),
    "no value": encode_tag(4, 0),
    "half a double": encode_tag(6, 1) + bytes(7),
    "not a number": encode_tag(6, 1) + b"\xff" * 8,
    "not UTF-8": encode_delimited(1, b"\xff"),
    "surrogate": encode_delimited(1, b"\xed\xa0\x80"),
    "number for a string": encode_tag(1, 0) + b"\x01",
    "string for a number": encode_delimited(4, b"x"),
    "wire type 6": encode_tag(900, 6),
    "end of no group": encode_tag(900, 4),
    "end of another group": encode_tag(900, 3) + encode_tag(901, 4),
    "group without an end": encode_tag(900, 3),
    "groups in groups": encode_tag(900, 3) * 10_000,
    "unknown beyond the end": encode_tag(900, 5) + b"\x00",
    "key of a number": encode_delimited(20, encode_tag(1, 0) + b"\x01"),
    "entry cut off": encode_delimited(20, b"\x0a\x05a"),
    "inner message cut off": encode_delimited(8, b"\x0a\x05a"),
    "raw that is not JSON": encode_delimited(27, encode_delimited(1, b"{")),
    "time beyond the calendar": encode_delimited(24, encode_tag(1, 0) + encode_varint(1 << 62)),
    "bad quantity": encode_delimited(22, encode_delimited(2, encode_delimited(1, b"x"))),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_malformed(data: bytes) -> None:
    """Malformed bytes raise Malformed."""
    with pytest.raises(Malformed):
        message_decoder(Sample)(data)


@pytest.mark.parametrize("depth", [300, 5000])
def test_depth(depth: int) -> None:
    """The nesting of recursive messages is limited."""
    data = b""
    for _ in range(depth):
        data = encode_delimited(3, data)
    with pytest.raises(Malformed):
        message_decoder(Part)(data)


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH, 2000])
def test_raw_depth(depth: int) -> None:
    """Raw JSON within an object has the depth limit of JSON."""
    data = encode_delimited(27, encode_delimited(1, b"[" * depth + b"]" * depth))
    if depth < MAX_DEPTH:
        assert message_encoder(Sample)(message_decoder(Sample)(data)) == b"\x0a\x00" + data
        return
    with pytest.raises(Malformed):
        message_decoder(Sample)(data)


POD: Any = SCHEME.type_of(GroupVersionKind("", "v1", "Pod"))
WHOLE = message_encoder(POD)(trees.filled(POD))


def _reads_or_refuses(data: bytes) -> None:
    try:
        tree = message_decoder(POD)(data)
    except CodecError:
        return
    message_encoder(POD)(tree)


def test_truncated() -> None:
    """A truncated message is Malformed or decodes to a message."""
    step = max(1, len(WHOLE) // 1500)
    for end in (*range(300), *range(300, len(WHOLE), step)):
        _reads_or_refuses(WHOLE[:end])


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 7)), min_size=1))
def test_flipped(flips: list[tuple[int, int]]) -> None:
    """A message with flipped bits is Malformed or decodes to a message."""
    data = bytearray(WHOLE)
    for position, bit in flips:
        data[position] ^= 1 << bit
    _reads_or_refuses(bytes(data))


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_random_bytes(data: bytes) -> None:
    """Random bytes are Malformed or decode to a message."""
    _reads_or_refuses(data)


@pytest.mark.parametrize(
    "tree",
    [
        {"text": 1}, {"text": "\ud800"}, {"small": "x"}, {"data": "!"}, {"part": [1]},
        {"labels": {"a": 1}}, {"at": "x"}, {"ratio": "x"}, {"texts": 5},
    ],
)  # fmt: skip
def test_wrong_trees(tree: dict[str, Any]) -> None:
    """A tree that does not match its type is NotEncodable."""
    with pytest.raises(NotEncodable):
        message_encoder(Sample)(tree)


def test_no_protobuf() -> None:
    """A type without Protobuf tags raises an error."""
    with pytest.raises(NotEncodable, match=r"object \*v1.Table does not implement the protobuf"):
        message_encoder(Table)
