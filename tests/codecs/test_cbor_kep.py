"""The unit and fuzz tests that KEP-4222 lists, as far as no other test covers them."""

import contextlib
import itertools
import json

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.codecs import cbor
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.errors import CodecError, Malformed, WrongValue
from kapiserver.codecs.json import decode_value as read_json
from kapiserver.codecs.media_types import CBOR, JSON, PROTOBUF
from kapiserver.codecs.protobuf.serializer import write_envelope
from kapiserver.codecs.protobuf.wire import encode_delimited
from tests.traced_memory import trace
from tests.trees import filled, kinds_by_version, objects

SCHEME = Scheme()
CODECS = CodecFactory(SCHEME)
VERSIONS = kinds_by_version(SCHEME)
CONFIG_MAP = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}}
REVISION = GroupVersionKind("apps", "v1", "ControllerRevision")

# RFC 8949, appendix A: the encoding and its value, or the error if JSON has no such value.
EXAMPLES = [
    ("00", 0), ("0a", 10), ("17", 23), ("1818", 24), ("1903e8", 1000), ("1a000f4240", 1000000),
    ("1b000000e8d4a51000", 1000000000000), ("1bffffffffffffffff", WrongValue),
    ("c249010000000000000000", WrongValue), ("3bffffffffffffffff", WrongValue),
    ("c349010000000000000000", WrongValue), ("20", -1), ("29", -10), ("3863", -100),
    ("3903e7", -1000), ("f90000", 0.0), ("f98000", -0.0), ("f93c00", 1.0),
    ("fb3ff199999999999a", 1.1), ("f93e00", 1.5), ("f97bff", 65504.0), ("fa47c35000", 100000.0),
    ("fa7f7fffff", 3.4028234663852886e38), ("fb7e37e43c8800759c", 1.0e300),
    ("f90001", 5.960464477539063e-8), ("f90400", 0.00006103515625), ("f9c400", -4.0),
    ("fbc010666666666666", -4.1), ("f97c00", WrongValue), ("f97e00", WrongValue),
    ("f9fc00", WrongValue), ("fa7f800000", WrongValue), ("fb7ff0000000000000", WrongValue),
    ("f4", False), ("f5", True), ("f6", None), ("f7", WrongValue), ("f0", WrongValue),
    ("f8ff", WrongValue), ("c074323031332d30332d32315432303a30343a30305a", "2013-03-21T20:04:00Z"),
    ("c11a514b67b0", "2013-03-21T20:04:00Z"), ("c1fb41d452d9ed200000", "2013-03-21T20:04:04.5Z"),
    ("d74401020304", "01020304"), ("d818456449455446", "dIETF"),
    ("d82076687474703a2f2f7777772e6578616d706c652e636f6d", "http://www.example.com"),
    ("40", ""), ("60", ""), ("6161", "a"), ("6449455446", "IETF"), ("62225c", '"\\'),
    ("62c3bc", "\u00fc"), ("63e6b0b4", "\u6c34"), ("64f0908591", "\U00010151"), ("80", []),
    ("83010203", [1, 2, 3]), ("8301820203820405", [1, [2, 3], [4, 5]]), ("a0", {}),
    ("a201020304", Malformed), ("a26161016162820203", {"a": 1, "b": [2, 3]}),
    ("826161a161626163", ["a", {"b": "c"}]), ("5f42010243030405ff", "\x01\x02\x03\x04\x05"),
    ("7f657374726561646d696e67ff", "streaming"), ("9fff", []),
    ("9f018202039f0405ffff", [1, [2, 3], [4, 5]]), ("83018202039f0405ff", [1, [2, 3], [4, 5]]),
    ("bf61610161629f0203ffff", {"a": 1, "b": [2, 3]}),
    ("bf6346756ef563416d7421ff", {"Amt": -2, "Fun": True}),
]  # fmt: skip


@pytest.mark.parametrize(("data", "value"), EXAMPLES, ids=[data for data, _ in EXAMPLES])
def test_examples_of_the_specification(data, value):
    """The examples of RFC 8949 decode to its values. Values without a JSON equivalent are
    errors."""
    if isinstance(value, type):
        with pytest.raises(value):
            cbor.decode_value(bytes.fromhex(data))
        return
    decoded = cbor.decode_value(bytes.fromhex(data))
    assert (decoded, type(decoded), str(decoded)) == (value, type(value), str(value))


@pytest.mark.parametrize("part", [b"\xa2\x44data\xa0\x44data\xa0", b"\xa2\x44data\xa0\x64data\xa0"])
def test_duplicate_fields_of_an_object(part):
    """A duplicate field is an error even if validation is not strict."""
    with pytest.raises(Malformed, match=r"(?i)duplicate"):
        CODECS.serializer_for(CBOR).decode(part, defaults=GroupVersionKind("", "v1", "ConfigMap"))


def test_fields_differ_by_case():
    """Field names are case-sensitive. A name in another case is reported as unknown and dropped."""
    data = cbor.encode_value({**CONFIG_MAP, "Data": {"a": "b"}, "DATA": {}})
    decoded = CODECS.serializer_for(CBOR).decode(data)
    assert decoded.object == CONFIG_MAP
    assert set(decoded.strict_errors) == {'unknown field "Data"', 'unknown field "DATA"'}


@pytest.mark.parametrize("value", [None, [], {}, {"a": None}, {"a": []}, {"a": {}}, [None, [], {}]])
def test_absent_null_and_empty(value):
    """Untyped values keep null, empty and absent values apart."""
    obj = {"kind": "ControllerRevision", "apiVersion": "apps/v1", "metadata": {"name": "x"}}
    tree = {**obj, "data": {"value": value}, "revision": 1}
    serializer = CODECS.serializer_for(CBOR)
    assert serializer.decode(serializer.encode(tree)).object["data"] == {"value": value}
    assert cbor.decode_value(cbor.encode_value({"a": value})) == {"a": value}


def test_bytes_are_bytes():
    """Fields of type bytes are encoded as byte strings with tag 22; text in untyped values and
    labels is not tagged. The decoder accepts the tag, base64 in a byte string and base64 text."""
    config = {**CONFIG_MAP, "data": {"t": "AAE="}, "binaryData": {"b": "AAH/"}}
    serializer = CODECS.serializer_for(CBOR)
    data = serializer.encode(config)
    assert b"\x41b\xd6\x43\x00\x01\xff" in data
    assert b"\x41t\x44AAE=" in data
    assert serializer.decode(data).object == config
    assert serializer.decode(cbor.encode_value(config)).object == config
    assert serializer.decode(cbor2.dumps(config)).object == config
    rows = [{"cells": ["x"], "object": config}]
    table = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {},
             "columnDefinitions": [], "rows": rows}  # fmt: skip
    assert b"\x41b\xd6\x43\x00\x01\xff" in serializer.encode(table)
    listed = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": [config]}
    assert b"\x41b\xd6\x43\x00\x01\xff" in serializer.encode(listed)
    free = {"kind": REVISION.kind, "apiVersion": "apps/v1", "data": config, "revision": 1}
    assert b"\x41b\x44AAH/" in serializer.encode(free)


def test_order_of_keys():
    """Equal objects may have different bytes in responses. `encode_value`, used for storage, sorts
    the keys."""
    config = {**CONFIG_MAP, "data": {"bb": "1", "a": "2"}}
    reordered = {"data": {"a": "2", "bb": "1"}, **CONFIG_MAP}
    serializer = CODECS.serializer_for(CBOR)
    assert serializer.encode(config) != serializer.encode(reordered)
    assert serializer.decode(serializer.encode(config)) == serializer.decode(
        serializer.encode(reordered)
    )
    assert cbor.encode_value(config) == cbor.encode_value(reordered)


RAW = {"a": [1, 1.5, None, {"b": "\u00e9"}]}
FREE = {"kind": REVISION.kind, "apiVersion": "apps/v1", "metadata": {}, "data": RAW, "revision": 1}


@pytest.mark.parametrize("outer", [JSON, CBOR, PROTOBUF], ids=lambda media: media.extension)
@pytest.mark.parametrize("inner", [JSON, CBOR], ids=lambda media: media.extension)
def test_raw_extensions(outer, inner):
    """A RawExtension is encoded in the format of the object around it; in Protobuf it is JSON."""
    raw = CODECS.serializer_for(inner)
    first = cbor.SELF_DESCRIBED_TAG + cbor.encode_value(RAW) if inner is CBOR else json.dumps(RAW)
    if outer is PROTOBUF:
        text = first if isinstance(first, bytes) else first.encode()
        message = (
            encode_delimited(1, b"") + encode_delimited(2, encode_delimited(1, text)) + b"\x18\x01"
        )
        tree = CODECS.serializer_for(PROTOBUF).decode(write_envelope(REVISION, message)).object
    else:
        tree = raw.decode(raw.encode(FREE)).object
    assert tree["data"] == RAW
    written = CODECS.serializer_for(outer).encode(tree)
    assert CODECS.serializer_for(outer).decode(written).object["data"] == RAW
    if outer is PROTOBUF:
        assert b'{"a":[1,1.5,null,{"b":"\xc3\xa9"}]}' in written


@pytest.mark.own_process("memory")
def test_no_memory_leak():
    """The codec keeps neither large objects nor their keys after encoding and decoding."""
    serializer = CODECS.serializer_for(CBOR)
    serializer.decode(serializer.encode(CONFIG_MAP))
    runs = itertools.count()

    def run() -> None:
        prefix = f"{next(runs)}-{'n' * 1000}"
        large = {f"{prefix}{number}": "v" * 1000 for number in range(1000)}
        serializer.decode(serializer.encode({**CONFIG_MAP, "data": large}))

    assert trace(run).retained < 200_000


HOSTILE = {
    "long array": b"\x9b\x00\x00\x00\x00\xff\xff\xff\xff",
    "long map": b"\xbb\x00\x00\x00\x00\xff\xff\xff\xff",
    "long text": b"\x7b\x00\x00\x00\x00\xff\xff\xff\xff",
    "long bytes": b"\x5b\x00\x00\x00\x00\xff\xff\xff\xff",
    "arrays": b"\x9a\x7f\xff\xff\xff" * 50,
    "chunks": b"\x5f" + b"\x40" * 10_000,
    "empty maps": b"\x99\x27\x10" + b"\xa0" * 10_000,
    "tags": b"\xd9\xd9\xf7" * 10_000,
}


@pytest.mark.own_process("memory")
@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_memory_of_decoding(data):
    """The memory for decoding is limited by the length of the input, not by the lengths that it
    claims."""
    with contextlib.suppress(CodecError):
        cbor.decode_value(b"\x80" if not data else data[:20])

    def run() -> None:
        with contextlib.suppress(CodecError):
            cbor.decode_value(data)

    assert trace(run).peak < 100_000 + 300 * len(data)


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_json_and_cbor_agree(version):
    """An object with every field set decodes to the same untyped value from JSON and from CBOR."""
    for kind in VERSIONS[version]:
        _same({"kind": kind.kind, "apiVersion": str(version), **filled(SCHEME.type_of(kind))})


SAMPLE = [GroupVersionKind("", "v1", "Pod"), GroupVersionKind("", "v1", "Secret"), REVISION]


@settings(max_examples=20)
@pytest.mark.parametrize("kind", SAMPLE, ids=map(str, SAMPLE))
@given(data=st.data())
def test_json_and_cbor_agree_on_any_object(kind, data):
    """A random object decodes to the same untyped value from JSON and from CBOR."""
    _same(data.draw(objects(SCHEME, kind)))


def _same(tree):
    by_json = read_json(CODECS.serializer_for(JSON).encode(tree))
    assert cbor.decode_value(CODECS.serializer_for(CBOR).encode(tree)) == by_json


def _plain_types(value):
    if type(value) is dict:
        return all(type(name) is str and _plain_types(item) for name, item in value.items())
    if type(value) is list:
        return all(map(_plain_types, value))
    return value is None or type(value) in (bool, str, int, float)


@settings(max_examples=200)
@given(
    st.integers(0, 300), st.binary(max_size=12), st.sampled_from([b"", b"\x82\x01", b"\xa1\x41a"])
)
def test_tags(tag, data, before):
    """A tagged item decodes to a JSON value or is an error; it never becomes a Python datetime,
    Decimal or set."""
    head = cbor2.dumps(cbor2.CBORTag(tag, 0))[:-1]
    with contextlib.suppress(CodecError):
        assert _plain_types(cbor.decode_value(before + head + data))
