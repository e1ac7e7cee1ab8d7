"""Fields that accept values of several types, and messages with lists and raw JSON."""

from __future__ import annotations

from typing import Any

import pytest

from kapiserver.api.apiextensions import v1, v1beta1
from kapiserver.api.authentication.v1 import ExtraValue
from kapiserver.api.runtime import Unknown
from kapiserver.api.types import Type, field
from kapiserver.codecs.errors import WrongValue
from kapiserver.codecs.protobuf.messages import message_decoder, message_encoder
from kapiserver.codecs.tree_decoder import decode_tree


class Sample(Type):
    """A type with each such field."""

    some: v1.JSONSchemaPropsOrArray | None = field(1)
    more: v1.JSONSchemaPropsOrBool | None = field(2)
    needs: dict[str, v1.JSONSchemaPropsOrStringArray] = field(3)
    free: list[v1.JSON] = field(4)
    extra: dict[str, ExtraValue] = field(5)
    body: Unknown | None = field(6)
    old: v1beta1.JSONSchemaPropsOrBool | None = field(7)


# (input, canonical value, bytes or "")
CASES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"more": True}, {"more": True}, "12020801"),
    ({"more": False}, {"more": False}, "12020800"),
    ({"old": True}, {"old": True}, "3a020801"),
    ({"more": {"minLength": 0, "id": ""}}, {"more": {"minLength": 0}}, ""),
    ({"more": None}, {}, ""),
    ({"some": {}}, {"some": {}}, ""),
    ({"some": [{"type": "string", "title": ""}]}, {"some": [{"type": "string"}]}, ""),
    ({"needs": {"b": ["x"], "a": None}}, {"needs": {"a": None, "b": ["x"]}},
     "1a050a016112001a080a0162120312" + "0178"),
    ({"needs": {"a": {"not": {"type": "null"}}}}, {"needs": {"a": {"not": {"type": "null"}}}}, ""),
    ({"free": [None, 1, "a"]}, {"free": [None, 1, "a"]}, "2200" + "22030a0131" + "22050a03226122"),
    ({"extra": {"k": ["v"]}}, {"extra": {"k": ["v"]}}, "2a080a016b12030a0176"),
    ({"body": {"b": 1, "a": 2}}, {"body": {"b": 1, "a": 2}},
     "32290a040a001200" + "120d7b2262223a312c2261223a327d"
     "1a00" + "22106170706c69636174696f6e2f6a736f6e"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "tree", "expected"), CASES)
def test_forms(value: dict[str, Any], tree: dict[str, Any], expected: str) -> None:
    """Each type of value decodes to its canonical form and round-trips through Protobuf."""
    assert decode_tree(Sample, value, []) == tree
    written = message_encoder(Sample)(tree)
    assert message_decoder(Sample)(written) == tree
    if expected:
        assert written.hex() == expected


def test_ignored_values() -> None:
    """Values of unexpected types become null where Go's decoder accepts any value."""
    assert decode_tree(Sample, {"some": "text"}, []) == {"some": None}
    assert decode_tree(Sample, {"needs": {"a": 1}}, []) == {"needs": {"a": None}}


WRONG = [
    ({"more": 1}, "boolean or JSON schema expected"),
    (
        {"more": {"items": {"minLength": "x"}}},
        "json: cannot unmarshal string into Go struct field JSONSchemaProps.minLength "
        "of type int64",
    ),
]


@pytest.mark.parametrize(("value", "words"), WRONG)
def test_wrong_values(value: dict[str, Any], words: str) -> None:
    """Values of wrong types are errors with the messages of Go's custom decoders."""
    with pytest.raises(WrongValue) as raised:
        decode_tree(Sample, value, [])
    assert str(raised.value) == words


def test_unknown_fields_inside_are_dropped() -> None:
    """Unknown fields within a value with a custom decoder are not reported."""
    unknown: list[str] = []
    tree = decode_tree(Sample, {"some": {"type": "x", "color": "red"}, "size": 1}, unknown)
    assert tree == {"some": {"type": "x"}}
    assert unknown == ["size"]
