"""Messages of every field type as trees: round trips, hostile trees, schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Type
from kapiserver.apiserver.discovery.openapi_schemas import schemas_of
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.protobuf.messages import message_decoder, message_encoder
from kapiserver.codecs.tree_decoder import decode_tree
from kapiserver.rpc.http_messages import to_message, to_tree
from kapiserver.rpc.http_types import TypeMaker
from tests.rpc.messages import messages
from tests.rpc.rpckit import Project
from tests.rpc.test_conversion import EVERY_FIELD

NAMES = ("Thing", "WellKnown", "GetRequest", "GetResponse")


@pytest.fixture(scope="module", name="pb")
def _pb(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The messages of a version with a field of each kind."""
    project = Project(tmp_path_factory.mktemp("everything"))
    text = EVERY_FIELD.read_text().replace("project.things", f"{project.name}.things")
    project.write("things/v1/api.proto", text)
    project.generate()
    return project.load("things.v1.api_pb2")


@pytest.fixture(scope="module", name="types")
def _types(pb: Any) -> dict[str, type[Type]]:
    maker = TypeMaker("kapiserver.rpc.everything.v1", "test.everything.v1", {})
    descriptors = pb.DESCRIPTOR.message_types_by_name
    return {name: maker.message_type(descriptors[name]) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=40)
def test_round_trip(pb: Any, types: Any, name: str, data: st.DataObject) -> None:
    """A message that becomes JSON, a canonical tree and a message again is the same; the same in
    Kubernetes' Protobuf."""
    message = data.draw(messages(pb.DESCRIPTOR.message_types_by_name[name]))
    try:
        tree = to_tree(message)
    except ValueError:
        return  # JSON has no NaN, and no time after the year 9999
    text = json.dumps(tree)
    assume("-0.0" not in text)  # the JSON of Go structs does not tell it from 0
    canonical = decode_tree(types[name], json.loads(text), [])
    message_copy = to_message(canonical, type(message))
    assert to_tree(message_copy) == tree
    if "WellKnown" not in name and "Response" not in name:
        assert _bytes(message_copy) == _bytes(message)
    encoded = message_encoder(types[name])(canonical)
    assert type(message).FromString(encoded) == message_copy
    assert message_decoder(types[name])(encoded) == tree


def _bytes(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["GREY", "WHEEL", "1970-01-01T00:00:00Z", "1s", "AAAA", "a.b", "@type"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=3) | st.sampled_from(["1", "true", "@type", "value"]),
                      inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@pytest.mark.parametrize("name", ["Thing", "WellKnown"])
@given(data=st.data())
def test_no_tree_is_an_internal_error(pb: Any, types: Any, name: str, data: st.DataObject) -> None:
    """A tree is refused by the decoder, or by the conversion with a ValueError, or accepted."""
    fields = pb.DESCRIPTOR.message_types_by_name[name].fields
    names = st.sampled_from([field.json_name for field in fields])
    tree = data.draw(st.dictionaries(names, _VALUES, max_size=3))
    try:
        canonical = decode_tree(types[name], tree, [])
        message = to_message(canonical, getattr(pb, name))
        to_tree(message)
    except (CodecError, ValueError):
        pass


def test_numbers_of_64_bits(types: Any, pb: Any) -> None:
    """They are numbers, not texts as in the JSON of protobuf, and exact."""
    greatest = {"oneInt64": 2**63 - 1, "oneUint64": 2**64 - 1, "manyFixed64": [2**64 - 1]}
    message = to_message(decode_tree(types["Thing"], greatest, []), pb.Thing)
    assert (message.one_int64, message.one_uint64) == (2**63 - 1, 2**64 - 1)
    assert to_tree(message) == greatest


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"oneUint32": -1}, "cannot unmarshal number -1 into Go struct field Thing.oneUint32 of "
         "type uint32"),
        ({"oneUint64": 2**64}, "of type uint64"),
        ({"colour": "PINK"}, "'PINK' is not a value of the enum"),
        ({"choiceInt": 1, "choiceText": "x"},
         "choiceText: must not be set together with choiceInt"),
        ({"oneFloat": 1e39}, "oneFloat: 1e+39 does not fit into a float of 32 bits"),
        ({"byInt32": {"x": 1}}, "byInt32: "),
        ({"byInt32": {"4294967296": 1}}, "byInt32: "),
        ({"byBool": {"yes": True}}, "byBool: the key 'yes' is neither true nor false"),
        ({"inner": {"inner": {"byBool": {"1": True}}}}, "inner: inner: byBool: the key '1'"),
    ],
)  # fmt: skip
def test_refused(types: Any, pb: Any, tree: Any, words: str) -> None:
    with pytest.raises((CodecError, ValueError)) as raised:
        to_message(decode_tree(types["Thing"], tree, []), pb.Thing)
    assert words in str(raised.value)


def test_schemas(types: Any) -> None:
    """OpenAPI describes every field in both dialects."""
    for dialect in ("v2", "v3"):
        schemas = schemas_of(Scheme(), dialect, []).collect(types.values())
        thing = schemas["test.everything.v1.Thing"]["properties"]
        assert thing["oneInt64"]["format"] == "int64"
        assert thing["byString"]["additionalProperties"]["type"] == "string"
        assert thing["children"]["type"] == "array"
        assert "test.everything.v1.Thing_Part" in schemas
        assert all(field["description"] for field in thing.values())


def test_bytes_and_unknown_enums(pb: Any) -> None:
    """Bytes are base64; a value of an enum that this server does not know is its number."""
    message = pb.Thing(one_bytes=b"\0\1", colour=77)
    assert to_tree(message) == {"oneBytes": "AAE=", "colour": 77}
    assert to_message(to_tree(message), pb.Thing) == message
