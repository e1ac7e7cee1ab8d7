"""CBOR according to KEP-4222: accepted and rejected input, and the deterministic encoding."""

import contextlib
import math

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.codecs import json
from kapiserver.codecs.cbor import SELF_DESCRIBED_TAG, decode_value, encode_value
from kapiserver.codecs.errors import CodecError, Malformed, NotEncodable, WrongValue

READ = [
    ("a0", {}),
    ("d9d9f7a0", {}),
    ("d9d9f7d9d9f7a0", {}),
    ("a1416101", {"a": 1}),
    ("a1616101", {"a": 1}),
    ("a1616141 62".replace(" ", ""), {"a": "b"}),
    ("9f01ff", [1]),
    ("bf416101ff", {"a": 1}),
    ("5f41614162ff", "ab"),
    ("f4", False),
    ("f6", None),
    ("f93c00", 1.0),
    ("1b7fffffffffffffff", (1 << 63) - 1),
    ("3b7fffffffffffffff", -(1 << 63)),
    ("41ff", "\udcff"),
    ("c11a514b67b0", "2013-03-21T20:04:00Z"),
    ("c1fb41d452d9ed200000", "2013-03-21T20:04:04.5Z"),
    ("c074323031332d30332d32315432303a30343a30305a", "2013-03-21T20:04:00Z"),
    ("d64401020304", "AQIDBA=="),
    ("d541ff", "_w"),
    ("d741ff", "ff"),
    ("d7" * 200 + "41ff", "ff"),
    ("d6" * 200 + "41ff", "/w=="),
    ("d81c81d81d00", [0]),
    ("d81e820103", [1, 3]),
    ("c5820102", [1, 2]),
    ("d9010282d90102800 1".replace(" ", ""), [[], 1]),
    ("d903ec6a323031332d31302d3039", "2013-10-09"),
    ("d8236128", "("),
]


@pytest.mark.parametrize(("data", "value"), READ)
def test_read(data, value):
    """Text strings and byte strings decode to strings. Tags never produce values other than
    JSON's."""
    decoded = decode_value(bytes.fromhex(data))
    assert decoded == value
    assert type(decoded) is type(value)


REFUSED = [
    ("a2416101416102", Malformed),  # a duplicate key
    ("a2616101616102", Malformed),
    ("a2416101616102", Malformed),  # a duplicate key as byte string and as text string
    ("62ffff", Malformed),  # text that is not UTF-8
    ("a10102", Malformed),  # keys that are not strings
    ("a1a000", Malformed),
    ("a1c1416100", WrongValue),
    ("8000", Malformed),  # data after the item
    ("a0ff", Malformed),
    ("", Malformed),
    ("d9d9f7", Malformed),
    ("a1", Malformed),
    ("9affffffff", Malformed),
    ("5bffffffffffffffff", Malformed),
    ("9b7fffffffffffffff", Malformed),
    ("ff", Malformed),
    ("1c", Malformed),
    ("5f6161ff", Malformed),
    ("1b8000000000000000", WrongValue),  # beyond int64
    ("3bffffffffffffffff", WrongValue),
    ("c249010000000000000000", WrongValue),
    ("c349010000000000000000", WrongValue),
    ("f97e00", WrongValue),
    ("f97c00", WrongValue),
    ("fbfff0000000000000", WrongValue),
    ("f7", WrongValue),
    ("e0", WrongValue),
    ("f8ff", WrongValue),
    ("c1fb7ff8000000000000", WrongValue),
    ("c11b7fffffffffffffff", WrongValue),
    ("c14161", WrongValue),
    ("c000", WrongValue),
    ("81" * 100_000, Malformed),
    ("c6" * 100_000 + "00", Malformed),
    ("d81c" * 100_000 + "00", Malformed),
    ("9f" * 100_000, Malformed),
]


@pytest.mark.parametrize(("data", "error"), REFUSED, ids=[data[:24] for data, _ in REFUSED])
def test_refused(data, error):
    """Values without a JSON equivalent, duplicate keys and truncated items are errors."""
    with pytest.raises(error):
        decode_value(bytes.fromhex(data))


WRITTEN = [
    ({"b": 1, "a": 2, "aa": 3}, "a3416102416201426161 03".replace(" ", "")),
    ("é", "42c3a9"),
    ("\udcff", "41ff"),
    ("x" * 300, "59012c" + "78" * 300),
    (1.0, "f93c00"),
    (0.1, "fb3fb999999999999a"),
    (100000.0, "fa47c35000"),
    (1, "01"),
    (-1, "20"),
    (-(1 << 63), "3b7fffffffffffffff"),
    ([True, False, None], "83f5f4f6"),
    (1000, "1903e8"),
    (1 << 40, "1b0000010000000000"),
]


@pytest.mark.parametrize(("value", "data"), WRITTEN)
def test_written(value, data):
    """Text is written as byte strings, numbers in their shortest form, keys sorted by their encoded
    bytes."""
    assert encode_value(value).hex() == data
    assert decode_value(bytes.fromhex(data)) == value


def test_unpaired_surrogates():
    """An unpaired surrogate is encoded as U+FFFD, as in the other formats."""
    assert decode_value(encode_value("\ud800a")) == "\ufffda"


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, math.nan, math.inf, {1: 2}, object()])
def test_not_encodable(value):
    """Values that could not be decoded again are not encodable."""
    with pytest.raises(NotEncodable):
        encode_value({"a": [value]})


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=20,
)


def _types(value):
    if isinstance(value, dict):
        return {name: _types(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_types(item) for item in value]
    return type(value)


@settings(max_examples=150)
@given(VALUES)
def test_round_trip(value):
    """Integers and floats stay distinct, empty values stay apart from absent ones. The encoding
    does not depend on the order of keys."""
    data = encode_value(value)
    decoded = decode_value(data)
    assert decoded == value
    assert _types(decoded) == _types(value)
    if isinstance(value, dict):
        assert encode_value(dict(reversed(value.items()))) == data


def _as_text(value):
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {_as_text(name): _as_text(item) for name, item in value.items()}
    return [_as_text(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=100)
@given(VALUES)
def test_another_implementation(value):
    """cbor2 decodes our encoding and we decode that of cbor2."""
    assert _as_text(cbor2.loads(encode_value(value))) == value
    assert decode_value(cbor2.dumps(value)) == value
    assert encode_value(decode_value(cbor2.dumps(value, canonical=True))) == encode_value(value)


WHOLE = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=15,
)


@settings(max_examples=100)
@given(WHOLE)
def test_json_and_back(value):
    """The conversions from JSON to CBOR and back, and from CBOR to JSON and back, change
    nothing."""
    text = json.encode_value(value)
    back = decode_value(encode_value(json.decode_value(text)))
    assert json.decode_value(json.encode_value(back)) == json.decode_value(text) == value
    data = encode_value(value)
    assert encode_value(json.decode_value(json.encode_value(decode_value(data)))) == data


@settings(max_examples=200)
@given(st.one_of(st.binary(max_size=60), st.binary(max_size=40).map(lambda b: b"\xa1\x41a" + b)))
def test_any_bytes(data):
    """Any bytes decode to a value that can be encoded, or raise a CodecError."""
    for prefix in (b"", SELF_DESCRIBED_TAG):
        with contextlib.suppress(CodecError):
            assert decode_value(encode_value(decode_value(prefix + data))) is not Ellipsis
