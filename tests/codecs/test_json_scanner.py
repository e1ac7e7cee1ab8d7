"""Malformed JSON, duplicate keys and the JSON encoder, compared with Go's encoding/json."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.go_format import format_float
from kapiserver.codecs.errors import CodecError, Malformed, NotEncodable, WrongValue
from kapiserver.codecs.json import decode_value, encode_value
from kapiserver.codecs.json_scanner import find_keys

END = "unexpected end of JSON input"
MALFORMED = [
    (b"", END),
    (b"  ", END),
    (b"{", END),
    (b'{"a"', END),
    (b'{"a":', END),
    (b'{"a":1', END),
    (b"[", END),
    (b"tru", END),
    (b"-", END),
    (b"1e+", END),
    (b'"abc', END),
    (b'"abc\\', END),
    (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
    (b"{a:1}", "invalid character 'a' looking for beginning of object key string"),
    (b"[1,]", "invalid character ']' looking for beginning of value"),
    (b"apiVersion: v1", "invalid character 'a' looking for beginning of value"),
    (b"NaN", "invalid character 'N' looking for beginning of value"),
    (b"\xff", "invalid character 'ÿ' looking for beginning of value"),
    (b"\x00", r"invalid character '\x00' looking for beginning of value"),
    (b"'a'", r"invalid character '\'' looking for beginning of value"),
    (b'{"a" 1}', "invalid character '1' after object key"),
    (b'{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
    (b'{"a":01}', "invalid character '1' after object key:value pair"),
    (b"[1 2]", "invalid character '2' after array element"),
    (b"{}}", "invalid character '}' after top-level value"),
    (b"-x", "invalid character 'x' in numeric literal"),
    (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
    (b"1ex", "invalid character 'x' in exponent of numeric literal"),
    (b"trux", "invalid character 'x' in literal true (expecting 'e')"),
    (b"nuul", "invalid character 'u' in literal null (expecting 'l')"),
    (b'"a\nb"', r"invalid character '\n' in string literal"),
    (b'"\\x"', "invalid character 'x' in string escape code"),
    (b'"\\u12g4"', r"invalid character 'g' in \u hexadecimal character escape"),
    (b"[" * 100_000, "exceeded max depth"),
    (b'{"a":' * 100_000, "exceeded max depth"),
    (b"[" * 300 + b"]" * 300, "exceeded max depth"),
    (b'{"a":' * 900 + b"1" + b"}" * 900, "exceeded max depth"),
]


@pytest.mark.parametrize(("data", "message"), MALFORMED, ids=[repr(d[:20]) for d, _ in MALFORMED])
def test_malformed(data, message):
    """The error has the message of Go's decoder, with the first invalid byte and its context."""
    with pytest.raises(Malformed) as caught:
        decode_value(data)
    assert str(caught.value) == message


LENIENT = [
    (b'"\\ud800"', "\ufffd"),
    (b'"a\xffb"', "a\ufffdb"),
    (b'{"\\udc00":1}', {"\ufffd": 1}),
    (b'{"a":1,"a":2}', {"a": 2}),
    (b"-0", 0),
    (b"9223372036854775807", 9223372036854775807),
    (b'[{"a": 9223372036854775808}]', [{"a": 9223372036854775808.0}]),
    (
        b'[{"a": 9223372036854775808}, "\\"0000000000000000000"]',
        [{"a": 9223372036854775808.0}, '"0000000000000000000'],
    ),
    (b'["00000000000000000000", 9223372036854775807]', ["0" * 20, 9223372036854775807]),
    (b"123456789012345678901234567890", 1.2345678901234568e29),
    (b'["\\ud800", 18446744073709551616, 1]', ["\ufffd", 18446744073709551616.0, 1]),
]


@pytest.mark.parametrize(("data", "value"), LENIENT)
def test_what_go_accepts(data, value):
    """Invalid UTF-8 becomes U+FFFD and large integers become floats, as in Go."""
    decoded = decode_value(data)
    assert decoded == value
    assert type(decoded) is type(value)
    if isinstance(decoded, list) and isinstance(decoded[0], dict):
        assert type(decoded[0]["a"]) is float


def test_a_number_beyond_a_float_is_refused():
    """A number beyond float64, such as 1e400, is an error."""
    with pytest.raises(WrongValue, match="cannot unmarshal number 1e400 into Go value"):
        decode_value(b'{"a": 1e400}')


DUPLICATES = [
    (b'{"a":1,"b":{"c":1,"c":2},"a":3}', ["b.c", "a"]),
    (b'{"a":[{"x":1},{"x":1,"x":2}]}', ["a[1].x"]),
    (b'{"a":[[{"x":1,"x":2}]]}', ["a[0][0].x"]),
    (b'{"a":1,"\\u0061":2}', ["a"]),
    (b'{"a" : 1 , "a" : 2}', ["a"]),
    (b'{"a":"x:y","b":":"}', []),
    (b'{"\\n\xff":1,"\\u000a\xff":2}', ["\n\ufffd"]),
]


@pytest.mark.parametrize(("data", "paths"), DUPLICATES)
def test_duplicates(data, paths):
    """Each duplicate key is reported once with its full path, in the order of the text."""
    assert find_keys(data, []).duplicates == paths


def test_reports_are_bounded():
    """The number and the total length of reported duplicates are limited."""
    many = b"{" + b",".join(b'"k%d":1,"k%d":2' % (n, n) for n in range(5000)) + b"}"
    assert 100 <= len(find_keys(many, []).duplicates) <= 200
    long = b'{"' + b"x" * 100_000 + b'":{' + b",".join([b'"a":1'] * 2000) + b"}}"
    assert sum(map(len, find_keys(long, []).duplicates)) < 1 << 20


def test_texts_of_many_values():
    """Errors after very many values are found in a short time."""
    many = b"[" + b"1," * 400_000
    for end in (b"x]", b"NaN]", b""):
        with pytest.raises(Malformed, match="invalid character"):
            decode_value(many + end)
    assert decode_value(many + b'"\xff"]')[-1] == "\ufffd"
    assert not find_keys(many + b'{"a":1,"a":2}]', []).complete


FLOATS = [
    (1.0, "1"),
    (-0.0, "-0"),
    (0.1, "0.1"),
    (1e20, "100000000000000000000"),
    (1e21, "1e+21"),
    (1.5e300, "1.5e+300"),
    (1e-6, "0.000001"),
    (1.234e-05, "0.00001234"),
    (1e-7, "1e-7"),
    (5e-324, "5e-324"),
    (123456789012345680.0, "123456789012345680"),
    (-2.5e25, "-2.5e+25"),
]


@pytest.mark.parametrize(("value", "text"), FLOATS)
def test_floats(value, text):
    """Floats are written as Go writes them."""
    assert format_float(value) == text
    assert encode_value({"a": value, "b": [value, "x", value]}) == (
        f'{{"a":{text},"b":[{text},"x",{text}]}}'.encode()
    )
    assert float(text) == value


WRITTEN = [
    ("<a>&b\u2028\u2029", rb'"\u003ca\u003e\u0026b\u2028\u2029"'),
    ("é\u007f\b\f\n\t\x01", '"é\u007f\\b\\f\\n\\t\\u0001"'.encode()),
    ("\ud800x", '"\ufffdx"'.encode()),
    ({"image": "nginx:1.25", "b": [1, 2]}, b'{"image":"nginx:1.25","b":[1,2]}'),
]


@pytest.mark.parametrize(("value", "text"), WRITTEN)
def test_written(value, text):
    """Text is escaped as Go's encoder does."""
    assert encode_value(value) == text


@pytest.mark.parametrize("value", [1 << 64, -(1 << 64), object()])
def test_not_encodable(value):
    """Values without a JSON equivalent are not encodable."""
    with pytest.raises(NotEncodable):
        encode_value({"a": value})


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=8)
    | st.floats(-(1 << 53), 1 << 53) | st.floats(1e21, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=150)
@given(JSON_VALUES)
def test_round_trip(value):
    """Encoded values decode to equal values with our decoder and with Python's."""
    text = encode_value(value)
    assert decode_value(text) == value
    assert json.loads(text) == value


@settings(max_examples=200)
@given(st.one_of(st.binary(max_size=40), st.text('{}[]:,"\\u0aeE+-.tnf x', max_size=40)))
def test_any_bytes(data):
    """The decoder accepts exactly the texts that Python's parser accepts as strict JSON."""
    data = data if isinstance(data, bytes) else data.encode()
    try:
        value = decode_value(data)
    except CodecError:
        with pytest.raises((ValueError, RecursionError)):
            json.loads(data.decode("utf-8", "replace"), parse_constant=int)
        return
    assert value == json.loads(data.decode("utf-8", "replace")) or "\\u" in repr(data)
