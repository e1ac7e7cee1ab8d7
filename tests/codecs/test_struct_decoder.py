"""Decoding JSON-shaped values by declared types."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.scalar_types import IntOrString, Quantity, RawExtension, StringList, Time
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Kind, Type, double, field, int32, int64
from kapiserver.codecs.errors import CodecError, Malformed, WrongValue
from kapiserver.codecs.first_error import first_error
from kapiserver.codecs.limits import MAX_DEPTH, MAX_STRICT_ERRORS
from kapiserver.codecs.tree_decoder import decode_tree, is_strictly_typed
from tests import trees

SCHEME = Scheme()
KINDS = list(trees.kinds(SCHEME))
VERSIONS = trees.kinds_by_version(SCHEME)


class Part(Type):
    """A struct in the kind below."""

    name: str = field(1, always=True)
    size: int32 = field(2)
    parts: list[Part] = field(3)


class Head(Type):
    """An embedded struct."""

    first: str = field(1)
    second: str | None = field(2)


class Sample(Kind):
    """A type with a field of each type."""

    text: str = field(1)
    text_pointer: str | None = field(2, json="textPointer")
    text_always: str = field(3, json="textAlways", always=True)
    flag: bool = field(4)
    flag_always: bool = field(5, json="flagAlways", always=True)
    small: int32 = field(6)
    small_pointer: int32 | None = field(7, json="smallPointer")
    large: int64 = field(8)
    ratio: double = field(9)
    data: bytes = field(10)
    free: Any = field(11)
    part: Part = field(12)
    part_pointer: Part | None = field(13, json="partPointer")
    part_zero: Part = field(14, json="partZero", omit_zero=True)
    head: Head = field(15, inline=True)
    texts: list[str] = field(16)
    texts_always: list[str] = field(17, json="textsAlways", always=True)
    parts: list[Part] = field(18)
    labels: dict[str, str] = field(19)
    sizes: dict[str, Quantity] = field(20)
    files: dict[str, bytes] = field(21)
    since: Time = field(22, omit_zero=True)
    until: Time | None = field(23)
    at: Time = field(24)
    port: IntOrString | None = field(25)
    raw: RawExtension | None = field(26)
    verbs: StringList = field(27)


# The canonical Sample without any field set.
BARE = {
    "kind": "", "apiVersion": "", "textAlways": "", "flagAlways": False, "part": {"name": ""},
    "textsAlways": None, "at": None,
}  # fmt: skip


def read(value: Any) -> dict[str, Any]:
    unknown: list[str] = []
    tree = decode_tree(Sample, value, unknown)
    assert unknown == []
    return tree


def test_zero_values() -> None:
    """Structs and `always` fields are present even if the input omits them."""
    assert read({}) == BARE


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"text": ""}, {}),
        ({"text": None}, {}),
        ({"textPointer": ""}, {"textPointer": ""}),
        ({"flag": False}, {}),
        ({"small": 0}, {}),
        ({"smallPointer": 0}, {"smallPointer": 0}),
        ({"smallPointer": None}, {}),
        ({"small": -(2**31)}, {"small": -(2**31)}),
        ({"large": 2**63 - 1}, {"large": 2**63 - 1}),
        ({"ratio": 3}, {"ratio": 3.0}),
        ({"data": "AAE="}, {"data": "AAE="}),
        ({"data": "AA\r\nE=\n"}, {"data": "AAE="}),
        ({"data": "AAF="}, {"data": "AAE="}),
        ({"free": {"b": [1, None], "a": 1}}, {"free": {"b": [1, None], "a": 1}}),
        ({"part": None}, {}),
        ({"part": {"size": 1}}, {"part": {"name": "", "size": 1}}),
        ({"partPointer": {}}, {"partPointer": {"name": ""}}),
        ({"partZero": {}}, {}),
        ({"partZero": {"name": ""}}, {}),
        ({"partZero": {"size": 1}}, {"partZero": {"name": "", "size": 1}}),
        ({"first": "a", "second": ""}, {"first": "a", "second": ""}),
        ({"texts": []}, {}),
        ({"texts": ["a", None, ""]}, {"texts": ["a", "", ""]}),
        ({"textsAlways": []}, {"textsAlways": []}),
        ({"parts": [None, {"name": "a"}]}, {"parts": [{"name": ""}, {"name": "a"}]}),
        ({"labels": {}}, {}),
        ({"labels": {"b": "1", "a": None}}, {"labels": {"a": "", "b": "1"}}),
        ({"sizes": {"cpu": "0.5"}}, {"sizes": {"cpu": "500m"}}),
        ({"files": {"b": None, "a": "AA=="}}, {"files": {"a": "AA==", "b": ""}}),
        ({"since": None}, {}),
        ({"since": "0001-01-01T00:00:00Z"}, {}),
        ({"until": "2020-01-01T01:00:00+01:00"}, {"until": "2020-01-01T00:00:00Z"}),
        ({"port": 80}, {"port": 80}),
        ({"raw": {"b": 1, "a": 2}}, {"raw": {"b": 1, "a": 2}}),
        ({"raw": None}, {}),
        ({"verbs": []}, {}),
        ({"verbs": ["get"]}, {"verbs": ["get"]}),
    ],
)
def test_canonical(value: dict[str, Any], expected: dict[str, Any]) -> None:
    """The decoder returns what Go's encoder writes after Go's decoder has read the input."""
    tree = read(value)
    assert tree == {**BARE, **expected}
    assert json.dumps(read(tree)) == json.dumps(tree)


def test_order() -> None:
    """Keys have the declared order, and those of maps are sorted."""
    value = {
        "labels": {"b": "", "a": ""},
        "second": "",
        "text": "x",
        "first": "y",
        "kind": "Sample",
    }
    assert list(read(value)) == [
        "kind", "apiVersion", "text", "textAlways", "flagAlways", "part", "first", "second",
        "textsAlways", "labels", "at",
    ]  # fmt: skip
    assert list(read(value)["labels"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("value", "type_of_value", "place", "type_"),
    [
        ({"text": 1}, "number", "Sample.text", "string"),
        ({"flag": "true"}, "string", "Sample.flag", "bool"),
        ({"small": 2**31}, "number 2147483648", "Sample.small", "int32"),
        ({"small": 1.5}, "number 1.5", "Sample.small", "int32"),
        ({"small": 1.0}, "number 1.0", "Sample.small", "int32"),
        ({"small": True}, "bool", "Sample.small", "int32"),
        ({"large": 2**63}, "number 9223372036854775808", "Sample.large", "int64"),
        ({"data": 1}, "number", "Sample.data", "[]uint8"),
        ({"part": []}, "array", "Sample.part", "test_struct_decoder.Part"),
        ({"part": {"size": "1"}}, "string", "Part.part.size", "int32"),
        ({"parts": {}}, "object", "Sample.parts", "[]test_struct_decoder.Part"),
        ({"parts": [1]}, "number", "Sample.parts", "test_struct_decoder.Part"),
        ({"parts": [{"parts": [{"size": ""}]}]}, "string", "Part.parts.parts.size", "int32"),
        ({"texts": [1]}, "number", "Sample.texts", "string"),
        ({"labels": {"a": 1}}, "number", "Sample.labels", "string"),
        ({"labels": []}, "array", "Sample.labels", "map[string]string"),
        ({"at": 1}, "number", "Sample.at", "string"),
        ({"port": 1.5}, "number 1.5", "Sample.port", "int32"),
    ],
)
def test_wrong_types(value: Any, type_of_value: str, place: str, type_: str) -> None:
    """A value of the wrong type is an error with Go's message, with the struct and the path."""
    with pytest.raises(WrongValue) as caught:
        read(value)
    message = f"json: cannot unmarshal {type_of_value} into Go struct field {place} of type {type_}"
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "json: cannot unmarshal array into Go value of type test_struct_decoder.Sample"),
        ("x", "json: cannot unmarshal string into Go value of type test_struct_decoder.Sample"),
        ({"data": "!A=="}, "illegal base64 data at input byte 0"),
        ({"data": "AAE"}, "illegal base64 data at input byte 0"),
        ({"data": "AA=A"}, "illegal base64 data at input byte 3"),
        ({"sizes": {"cpu": "1 k"}}, "quantities must match the regular expression .*"),
    ],
)
def test_wrong_texts(value: Any, message: str) -> None:
    """A text that does not parse is an error with the message of its type, without a path."""
    with pytest.raises(WrongValue, match=f"^{message}$"):
        read(value)


def test_unknown_fields() -> None:
    """Unknown fields are dropped and their paths reported. Names are case-sensitive."""
    unknown: list[str] = []
    value = {"Text": "x", "part": {"q": 1}, "parts": [{}, {"q": {"z": 1}, "parts": [{"r": None}]}]}
    tree = decode_tree(Sample, value, unknown)
    assert tree == {**BARE, "parts": [{"name": ""}, {"name": "", "parts": [{"name": ""}]}]}
    assert unknown == ["Text", "part.q", "parts[1].q", "parts[1].parts[0].r"]


def test_many_unknown_fields() -> None:
    """The number of reported unknown fields is limited."""
    unknown: list[str] = []
    part = {f"q{number}": 1 for number in range(60)}
    decode_tree(Sample, {"parts": [part, part, part]}, unknown)
    assert unknown[-1] == "parts[1].q39"
    assert len(unknown) == MAX_STRICT_ERRORS


@pytest.mark.parametrize("depth", [MAX_DEPTH, 5000])
def test_depth(depth: int) -> None:
    """The nesting of recursive types is limited."""
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"parts": [value]}
    with pytest.raises(Malformed, match="exceeded max depth"):
        decode_tree(Sample, value, [])


def test_input_is_not_changed() -> None:
    """The decoder does not change its input, and the tree shares no list or map with it."""
    value = {"part": {"size": 1}, "labels": {"a": "b"}, "texts": ["x"], "parts": [{}]}
    before = json.dumps(value)
    tree = read(value)
    tree["labels"]["c"] = "d"
    tree["texts"].append("y")
    tree["part"]["size"] = 2
    tree["parts"][0]["name"] = "z"
    assert json.dumps(value) == before
    assert read({}) == BARE


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (Part, True),
        (Sample, False),
        (SCHEME.type_of(GroupVersionKind("", "v1", "Pod")), True),
        (SCHEME.type_of(GroupVersionKind("apps", "v1", "Deployment")), True),
        (SCHEME.type_of(GroupVersionKind("apps", "v1", "ControllerRevision")), False),
    ],
)
def test_strict_types(type_: type[Type], expected: bool) -> None:
    """A double and free JSON may have floating-point numbers; other types have none."""
    assert is_strictly_typed(type_) is expected


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_filled_trees_stay(version: GroupVersion) -> None:
    """Decoding a tree with every field set returns an equal tree. Without free JSON it is a copy of
    all but sets of managed fields."""
    for kind in VERSIONS[version]:
        type_ = SCHEME.type_of(kind)
        tree = {"kind": kind.kind, "apiVersion": str(version), **trees.filled(type_)}
        decoded = decode_tree(type_, tree, [])
        assert json.dumps(decoded) == json.dumps(tree), kind
        if is_strictly_typed(type_):
            assert not _containers(tree) & _containers(decoded), kind


def _containers(value: Any) -> set[int]:
    """Return the identities of the lists and maps in a tree, without sets of managed fields."""
    pending, identities = [value], set()
    while pending:
        part = pending.pop()
        if isinstance(part, list | dict):
            identities.add(id(part))
        if isinstance(part, dict):
            pending += [below for name, below in part.items() if name != "fieldsV1"]
        elif isinstance(part, list):
            pending += part
    return identities


@settings(max_examples=2)
@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_canonical_trees_stay(kind: GroupVersionKind, data: st.DataObject) -> None:
    """Decoding a canonical tree of any kind returns an equal tree, with the same order of keys."""
    tree = data.draw(trees.objects(SCHEME, kind))
    unknown: list[str] = []
    decoded_twice = decode_tree(SCHEME.type_of(kind), tree, unknown)
    assert json.dumps(decoded_twice) == json.dumps(tree)
    assert unknown == []


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | trees.TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "spec", "status", "containers", "labels", "name", "ports", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@settings(max_examples=200)
@given(_ANY)
def test_any_value(value: Any) -> None:
    """Any value decodes to a tree or raises CodecError, and decoding the tree changes nothing.
    There is a first error in Go's order exactly if there is one."""
    pod = SCHEME.type_of(GroupVersionKind("", "v1", "Pod"))
    try:
        tree = decode_tree(pod, value, [])
    except CodecError:
        assert first_error(pod, value) is not None
        return
    assert first_error(pod, value) is None
    assert decode_tree(pod, tree, []) == tree
