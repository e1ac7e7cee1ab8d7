"""YAML 1.1 as sigs.k8s.io/yaml decodes and encodes it."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.codecs.errors import CodecError, Malformed, TooLarge
from kapiserver.codecs.limits import MAX_VALUES
from kapiserver.codecs.yaml import decode_value, decode_values, encode_value
from kapiserver.codecs.yaml_scalars import needs_quotes, resolve

SCALARS = [
    ("yes", True), ("on", True), ("y", True), ("True", True), ("no", False), ("Off", False),
    ("n", False), ("~", None), ("null", None), ("", None), ("1", 1), ("-5", -5), ("+5", 5),
    ("010", 8), ("0o17", 15), ("0x1F", 31), ("0b11", 3), ("1_000", 1000), ("08", 8.0),
    ("1.5", 1.5), (".5", 0.5), ("1e3", 1000.0), ("12:30", "12:30"), ("2001-01-01", "2001-01-01"),
    ("2001-01-01T00:00:00Z", "2001-01-01T00:00:00Z"), ("1.2.3", "1.2.3"), ("v1", "v1"),
    ("1e400", "1e400"), ("tRue", "tRue"), ("=", "="), ("+", "+"), ("-", "-"), (".", "."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), SCALARS)
def test_scalars(text, value):
    """An unquoted scalar has the type that YAML 1.1 and Go give it. Text that looks like another
    type is quoted."""
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)
    assert needs_quotes(text) == (not isinstance(value, str) or text[:2] in ("12", "20"))


READ = [
    ("a: 1.0\nb: 1e3\nc: 1.5", {"a": 1, "b": 1000, "c": 1.5}),
    ("010: 1\n1.5: 2\ntrue: 3", {"8": 1, "1.5": 2, "true": 3}),
    ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
    (
        "a: !!binary aGk=\nb: !!int '5'\nc: !!str 5\nd: !x y",
        {"a": "hi", "b": 5, "c": "5", "d": "y"},
    ),
    ("a: '1'\nb: \"yes\"\nc: |\n  1\n", {"a": "1", "b": "yes", "c": "1\n"}),
    ("p: &b {a: 1, b: 2}\nq: {<<: *b, b: 3}", {"p": {"a": 1, "b": 2}, "q": {"a": 1, "b": 3}}),
    (
        "p: &b {a: 1}\nq: {<<: [*b, {a: 2, c: 3}], d: 4}",
        {"p": {"a": 1}, "q": {"a": 1, "c": 3, "d": 4}},
    ),
    ('{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
    ("a: 9223372036854775808", {"a": 9223372036854775808.0}),
    ("", None),
    ("# nothing", None),
    ("---\na: 1\n---\n: ][", {"a": 1}),
]


@pytest.mark.parametrize(("text", "value"), READ)
def test_read(text, value):
    """Values equal those of Go's conversion of YAML to JSON. Only the first document is decoded."""
    assert decode_value(text.encode()) == value


MALFORMED = [
    ("a: [1,2", "yaml: line 1: did not find expected ',' or ']'"),
    ("a:\n\t- b", "yaml: line 2: found character that cannot start any token"),
    ("a: b\n  c: d\n", "yaml: line 2: mapping values are not allowed in this context"),
    ("a: b: c", "yaml: mapping values are not allowed in this context"),
    ("b: *x", "yaml: unknown anchor 'x' referenced"),
    ("a: &x [*x]", "yaml: anchor 'x' value contains itself"),
    ("{[a]: 1}", "unsupported map key of type: []interface {}"),
    ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
    ("a: .nan", "json: unsupported value: NaN"),
    ("a\0b", "yaml: control characters are not allowed"),
    ("<<: 1", "yaml: map merge requires map or sequence of maps as the value"),
    ("[" * 100_000, "yaml: exceeded max depth of 250"),
    ("- " * 100_000, "yaml: exceeded max depth of 250"),
]


@pytest.mark.parametrize(("text", "message"), MALFORMED, ids=[t[:12] for t, _ in MALFORMED])
def test_malformed(text, message):
    """Errors have the messages of Go's yaml package."""
    with pytest.raises(Malformed) as caught:
        decode_value(text.encode())
    assert str(caught.value) == message


def test_alias_bombs():
    """The size of expanded aliases is limited before they are expanded; documents with a few
    aliases are fine."""
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
    for level in range(1, 12):
        bomb += f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 9)}]\n"
    with pytest.raises(Malformed, match="excessive aliasing"):
        decode_value(bomb.encode())
    deep = "a0: &a0 " + "[" * 200 + "]" * 200 + "\n" + "a1: &a1 " + "[" * 100 + "*a0" + "]" * 100
    with pytest.raises(Malformed, match="max depth"):
        decode_value(deep.encode())
    honest = "a: &a []\n" + "".join(f"k{n}: *a\n" for n in range(500))
    assert len(decode_value(honest.encode())) == 501


def test_very_many_values():
    """A document with very many values is refused before it is parsed to its end."""
    with pytest.raises(TooLarge):
        decode_value(b"[" + b"1," * (MAX_VALUES + 1) + b"]")


def test_aliases_are_copies():
    """Each alias is a separate copy."""
    tree = decode_value(b"a: &x {b: [1]}\nc: *x\n")
    tree["a"]["b"].append(2)
    assert tree["c"] == {"b": [1]}


def test_many_documents():
    """All documents of a stream are decoded, without empty ones."""
    assert decode_values(b"---\na: 1\n---\n# no\n---\nb: 2\n...\n") == [{"a": 1}, {"b": 2}]


WRITTEN = """\
apiVersion: v1
kind: Pod
metadata:
  labels:
    a-b: x
    a2: "yes"
    a10: "true"
    ab: ""
    c: |
      two
      lines
    d: ' lead'
    e: 'x: y'
    f: "2020-01-01T00:00:00Z"
    "n": "\\x01"
    o: a'b"c
    r: '*a'
    t: "1e3"
    v: "~"
    z: "12:30:45"
spec:
  empty: {}
  list:
  - a: 1
    b:
    - 1
    - 2
  - - 1.5
    - 1e+21
    - null
  none: []
"""


def test_written():
    """Keys are sorted as by Go's yaml package, lists are not indented, and quotes are written where
    necessary."""
    value = decode_value(WRITTEN.encode())
    assert encode_value(value).decode() == WRITTEN
    assert value["metadata"]["labels"]["a2"] == "yes"


def test_broken_text():
    """Invalid Unicode becomes U+FFFD."""
    assert encode_value({"a\ud800": "\udcff"}) == "a\ufffd: \ufffd\n".encode()


def test_long_lines_stay_whole():
    """Long lines are not folded."""
    text = "word " * 100 + "end"
    assert encode_value({"a": text}) == f"a: {text}\n".encode()


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | TEXT
    | st.sampled_from([text for text, _ in SCALARS])
    | st.floats(-(1 << 53), 1 << 53),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=200)
@given(VALUES)
def test_round_trip(value):
    """Encoded values decode to equal values."""
    assert decode_value(encode_value({"a": value})) == {"a": value}


@settings(max_examples=200)
@given(st.one_of(st.binary(max_size=40), st.text("&*![]{}:,-?|>'\"%@`#<~ \n\tax1.", max_size=40)))
def test_any_bytes(data):
    """Any bytes decode to a value or raise CodecError."""
    with contextlib.suppress(CodecError):
        decode_values(data if isinstance(data, bytes) else data.encode())


def test_order_of_very_many_keys():
    """The keys of a large map are in the order of a small one: numbers by value, letters last."""
    keys = ["-", "a", "a-1", "a1", "a2", "a10", "a-b", "b", "B"]
    order = list(decode_in_order(encode_value(dict.fromkeys(keys, 1))))
    document = encode_value(dict.fromkeys([*keys, *(f"z{n}" for n in range(2000))], 1))
    assert decode_in_order(document)[: len(keys)] == order
    assert decode_in_order(document)[len(keys) :] == [f"z{n}" for n in range(2000)]


def decode_in_order(document: bytes) -> list[str]:
    """The keys of a document, one a line, as they stand in it."""
    return [line.partition(b":")[0].decode().strip('"') for line in document.splitlines()]
