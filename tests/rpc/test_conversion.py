"""Derived conversions: each rule, and round trips of generated messages."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.rpc.dummy.registration_generated import GROUP as DUMMY
from examples.rpc.shelf.registration_generated import GROUP as SHELF
from kapiserver.rpc.registration import ConversionError
from tests.rpc.messages import messages
from tests.rpc.rpckit import Project

EVERY_FIELD = Path(__file__).parent / "every_field.proto"


def _bytes(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


@pytest.fixture(scope="module", name="things")
def _things(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModuleType, ModuleType, ModuleType]:
    """A version with a field of each kind: its messages, internal types and conversions."""
    project = Project(tmp_path_factory.mktemp("things"))
    text = EVERY_FIELD.read_text().replace("project.things", f"{project.name}.things")
    project.write("things/v1/api.proto", text)
    project.generate()
    modules = ("v1.api_pb2", "types", "v1.conversion_generated")
    pb, types, conversion = (project.load(f"things.{name}") for name in modules)
    return pb, types, conversion


@pytest.mark.parametrize("name", ["Thing", "WellKnown", "GetRequest", "GetResponse"])
@given(data=st.data())
@settings(max_examples=40)
def test_round_trip_of_every_field(
    things: tuple[ModuleType, ModuleType, ModuleType], name: str, data: st.DataObject
) -> None:
    """A message that becomes an internal value and a message again is the same."""
    pb, _, conversion = things
    message = data.draw(messages(pb.DESCRIPTOR.message_types_by_name[name]))
    internal = getattr(conversion, f"to_internal_{name}")(message)
    assert _bytes(getattr(conversion, f"to_pb_{name}")(internal)) == _bytes(message)


@pytest.mark.parametrize(
    "file", [version.file_descriptor for group in (DUMMY, SHELF) for version in group.versions],
    ids=lambda file: file.package,
)  # fmt: skip
@given(data=st.data())
def test_round_trip_of_examples(file: Any, data: st.DataObject) -> None:
    """The same for all messages of the examples, hand-written conversions included."""
    import importlib

    group, version = file.name.split("/")[1:3]
    conversion = importlib.import_module(f"examples.rpc.{group}.{version}.conversion_generated")
    descriptor = data.draw(st.sampled_from(list(file.message_types_by_name.values())))
    message = data.draw(messages(descriptor))
    internal = getattr(conversion, f"to_internal_{descriptor.name}")(message)
    assert _bytes(getattr(conversion, f"to_pb_{descriptor.name}")(internal)) == _bytes(message)


def _refused(convert: Callable[[Any], Any], value: Any) -> str:
    with pytest.raises(ConversionError) as raised:
        convert(value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"one_int32": 2**31}, "one_int32: 2147483648 does not fit into int32"),
        ({"one_sint32": -(2**31) - 1}, "one_sint32: -2147483649 does not fit into int32"),
        ({"one_sfixed64": 2**63}, "one_sfixed64: 9223372036854775808 does not fit into int64"),
        ({"maybe_uint32": -1}, "maybe_uint32: -1 does not fit into uint32"),
        ({"one_uint32": 2**32}, "one_uint32: 4294967296 does not fit into uint32"),
        ({"one_fixed64": 2**64}, "one_fixed64: 18446744073709551616 does not fit into uint64"),
        ({"one_float": 1e39}, "one_float: 1e+39 does not fit into float"),
        ({"many_int32": [0, 2**31]}, "many_int32[1]: 2147483648 does not fit into int32"),
        ({"by_int32": {3: 2**31}}, "by_int32[3]: 2147483648 does not fit into int32"),
        ({"by_uint32": {-1: 3}}, "by_uint32[-1]: -1 does not fit into uint32"),
        ({"colour": 2**31}, "colour: 2147483648 does not fit into int32"),
        ({"map_colour": {"a": 2**31}}, "map_colour[a]: 2147483648 does not fit into int32"),
        ({"choice_int": 1, "choice_text": ""}, "choice: only one of choice_int and choice_text"),
        ({"choice_value": 2**31}, "choice_value.value: 2147483648 does not fit into int32"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit(
    things: tuple[ModuleType, ModuleType, ModuleType], fields: dict[str, Any], message: str
) -> None:
    """A value outside of a field's range raises with the path, at each depth."""
    _, types, conversion = things
    thing = types.Thing(**fields)
    path, _, reason = message.partition(":")
    for parent, prefix in (
        (thing, ""),
        (types.Thing(inner=thing), "inner."),
        (types.Thing(children=[types.Thing(), thing]), "children[1]."),
        (types.Thing(named={"a": types.Thing(inner=thing)}), "named[a].inner."),
    ):
        assert _refused(conversion.to_pb_Thing, parent).startswith(f"{prefix}{path}:{reason}")


def test_floats_of_32_bits(things: tuple[ModuleType, ModuleType, ModuleType]) -> None:
    """Infinity, NaN and the greatest float fit."""
    _, types, conversion = things
    greatest = float.fromhex("0x1.fffffep+127")
    for value in (math.inf, -math.inf, greatest, -greatest):
        assert conversion.to_pb_Thing(types.Thing(one_float=value)).one_float == value
    assert math.isnan(conversion.to_pb_Thing(types.Thing(one_float=math.nan)).one_float)


def test_presence(things: tuple[ModuleType, ModuleType, ModuleType]) -> None:
    """An optional field that is set to its default is not an unset field."""
    pb, _, conversion = things
    assert conversion.to_internal_Thing(pb.Thing()).maybe_int32 is None
    assert conversion.to_internal_Thing(pb.Thing(maybe_int32=0)).maybe_int32 == 0
    assert conversion.to_internal_Thing(pb.Thing(shape=pb.Shape())).shape is not None
    assert conversion.to_internal_Thing(pb.Thing(choice_text="")).choice_text == ""


def test_enums(things: tuple[ModuleType, ModuleType, ModuleType]) -> None:
    """Known numbers equal the members of the internal enum; unknown numbers stay."""
    pb, types, conversion = things
    assert conversion.to_internal_Thing(pb.Thing(mood=pb.Thing.GLAD)).mood == types.Thing.Mood.GLAD
    assert conversion.to_internal_Thing(pb.Thing(colour=99)).colour == 99
    assert conversion.to_pb_Thing(types.Thing(colour=types.Colour.GREY)).colour == pb.GRAY


def test_well_known_types(things: tuple[ModuleType, ModuleType, ModuleType]) -> None:
    """A wrapper is its value, and another well-known type is protobuf's own class."""
    pb, types, conversion = things
    packed = AnyMessage()
    packed.Pack(Timestamp(seconds=1, nanos=1))
    message = pb.WellKnown(one_int64value={"value": 0}, one_any=packed)
    internal = conversion.to_internal_WellKnown(message)
    assert (internal.one_int64value, internal.one_int32value) == (0, None)
    assert internal.one_any.Is(Timestamp.DESCRIPTOR)
    assert conversion.to_pb_WellKnown(types.WellKnown(by_timestamp={1: Timestamp(nanos=1)})) == (
        pb.WellKnown(by_timestamp={1: Timestamp(nanos=1)})
    )


V1 = "message Thing { int64 size = 1; string name = 2; optional bool ready = 3; }"


def _two_versions(project: Project, newer: str, older: str) -> tuple[Any, Any]:
    """Return the conversions of the newer version, whose types the internal types copy, and of the
    older one."""
    project.messages("v1", newer)
    project.generate()
    project.messages("v1beta1", older)
    project.generate()
    return tuple(project.load(f"things.{name}.conversion_generated") for name in ("v1", "v1beta1"))  # type: ignore[return-value]


def test_wider_integers(project: Project) -> None:
    """An int32 becomes an int64 and back, if the value fits."""
    v1, v1beta1 = _two_versions(project, V1, V1.replace("int64", "int32"))
    thing = project.load("things.types").Thing
    small = v1beta1.api_pb2.Thing(size=-5)
    assert v1.to_pb_Thing(v1beta1.to_internal_Thing(small)).size == -5
    assert _refused(v1beta1.to_pb_Thing, thing(size=2**31)) == (
        "size: 2147483648 does not fit into int32"
    )


def test_fields_that_only_one_version_has(project: Project) -> None:
    """A field that a version does not have keeps its default, and is dropped on the way back."""
    _, v1beta1 = _two_versions(project, V1, "message Thing { string name = 7; }")
    thing = project.load("things.types").Thing
    assert v1beta1.to_internal_Thing(v1beta1.api_pb2.Thing(name="a")) == thing(name="a")
    converted = v1beta1.to_pb_Thing(thing(name="a", size=3, ready=True))
    assert converted == v1beta1.api_pb2.Thing(name="a")


def test_presence_that_only_one_version_has(project: Project) -> None:
    """A field that is optional in one version alone is derived; None becomes the default."""
    _, v1beta1 = _two_versions(project, V1, "message Thing { bool ready = 3; }")
    thing = project.load("things.types").Thing
    assert v1beta1.to_internal_Thing(v1beta1.api_pb2.Thing()) == thing(ready=False)
    assert v1beta1.to_pb_Thing(thing(ready=None)) == v1beta1.api_pb2.Thing()


def test_renumbered_and_reordered_fields(project: Project) -> None:
    """Fields are matched by their names, whatever their numbers."""
    older = "message Thing { optional bool ready = 9; string name = 4; int64 size = 2; }"
    v1, v1beta1 = _two_versions(project, V1, older)
    message = v1beta1.api_pb2.Thing(ready=True, name="a", size=2)
    converted = v1.to_pb_Thing(v1beta1.to_internal_Thing(message))
    assert converted == v1.api_pb2.Thing(ready=True, name="a", size=2)


def test_oneof_whose_members_are_fields_of_another_version(project: Project) -> None:
    """A oneof becomes optional fields; a version with the oneof refuses two of them."""
    newer = "message Thing { optional string a = 1; optional string b = 2; }"
    older = "message Thing { oneof which { string a = 1; string b = 2; } }"
    v1, v1beta1 = _two_versions(project, newer, older)
    message = v1beta1.api_pb2.Thing(b="x")
    assert v1.to_pb_Thing(v1beta1.to_internal_Thing(message)) == v1.api_pb2.Thing(b="x")
    both = v1.to_internal_Thing(v1.api_pb2.Thing(a="x", b="y"))
    assert _refused(v1beta1.to_pb_Thing, both) == "which: only one of a and b may be set"


def test_oneof_with_a_renamed_member(project: Project) -> None:
    """Members that are derived exclude each other; the renamed one is converted by hand."""
    project.messages("v1", "message Thing { oneof which { string name = 1; int32 a = 2; } }")
    project.generate()
    older = "message Thing { oneof which { string title = 1; int32 a = 2; } }"
    project.messages("v1beta1", older)
    project.write("things/v1beta1/conversion.py", ONEOF)
    project.generate()
    v1beta1 = project.load("things.v1beta1.conversion_generated")
    thing = project.load("things.types").Thing
    for message, internal in (
        (v1beta1.api_pb2.Thing(title=""), thing(name="")),
        (v1beta1.api_pb2.Thing(a=0), thing(a=0)),
    ):
        assert v1beta1.to_internal_Thing(message) == internal
        assert v1beta1.to_pb_Thing(internal) == message


ONEOF = """
def convert_pb_Thing_to_internal(source, target):
    if source.HasField("title"):
        target.name = source.title


def convert_internal_Thing_to_pb(source, target):
    if source.name is not None:
        target.title = source.name
"""

HAND_WRITTEN = """
from .. import types
from . import api_pb2


def convert_pb_Thing_to_internal(source: api_pb2.Thing, target: types.Thing) -> None:
    target.name = source.title


def convert_internal_Thing_to_pb(source: types.Thing, target: api_pb2.Thing) -> None:
    target.title = source.name
"""


def test_renamed_field(project: Project) -> None:
    """A hand-written function converts a renamed field; the other fields are derived."""
    project.messages("v1", V1)
    project.generate()
    project.messages("v1beta1", "message Thing { int64 size = 1; string title = 2; }")
    project.write("things/v1beta1/conversion.py", HAND_WRITTEN)
    project.generate()
    v1beta1 = project.load("things.v1beta1.conversion_generated")
    thing = project.load("things.types").Thing
    message = v1beta1.api_pb2.Thing(size=3, title="a")
    assert v1beta1.to_internal_Thing(message) == thing(size=3, name="a")
    assert v1beta1.to_pb_Thing(thing(size=3, name="a")) == message
    request = v1beta1.api_pb2.GetRequest(thing=message)
    assert v1beta1.to_internal_GetRequest(request).thing == thing(size=3, name="a")


@pytest.mark.parametrize(
    ("older", "reason"),
    [
        ("string size = 1;", "size: types.Thing.size is int, not str or str | None"),
        ("optional int64 size = 1;", "size: types.Thing.size is int, not int | None"),
        ("repeated string name = 1;", "name: types.Thing.name is str, not list[str]"),
        ("map<string, string> name = 1;", "name: types.Thing.name is str, not dict[str, str]"),
        ("bytes name = 1;", "name: types.Thing.name is str, not bytes or bytes | None"),
        ("float size = 1;", "size: types.Thing.size is int, not float or float | None"),
        ("string title = 1;", "title: types.Thing has no field title"),
        ("Kind kind = 1;", "kind: types.Thing has no field kind"),
    ],
)
def test_fields_that_are_not_derived(project: Project, older: str, reason: str) -> None:
    """A field whose values an internal field cannot hold must be converted by hand."""
    project.messages("v1", V1)
    project.generate()
    project.messages("v1beta1", f"message Thing {{ {older} }} enum Kind {{ NONE = 0; }}")
    (problem,) = project.problems()
    assert f"({reason})" in problem


def test_enum_values_with_other_numbers(project: Project) -> None:
    """An enum whose values have other numbers in a version must be converted by hand."""
    enum = "message Thing { Kind kind = 1; } enum Kind { NONE = 0; BIG = 1; }"
    project.messages("v1", enum)
    project.generate()
    project.messages("v1beta1", enum.replace("BIG = 1", "BIG = 2"))
    (problem,) = project.problems()
    assert "kind: the value BIG of types.Kind is 1, not 2" in problem
    project.messages("v1beta1", enum.replace("BIG = 1", "HUGE = 1"))
    (problem,) = project.problems()
    assert "kind: the value HUGE of types.Kind is missing, not 1" in problem


def test_paths_of_errors_in_hand_written_functions(project: Project) -> None:
    """A function that refuses a value names the field; the path to its message is added."""
    shelf = "message Shelf { Thing one = 1; repeated Thing many = 2; map<int32, Thing> by = 3; }"
    project.messages("v1", f"{V1} {shelf}")
    project.generate()
    project.messages("v1beta1", f"message Thing {{ string title = 2; }} {shelf}")
    refusal = 'raise ConversionError("title", "is too long")'
    text = HAND_WRITTEN.replace("target.name = source.title", refusal)
    text = f"from kapiserver.rpc.registration import ConversionError\n{text}"
    project.write("things/v1beta1/conversion.py", text)
    project.generate()
    v1beta1 = project.load("things.v1beta1.conversion_generated")
    pb = v1beta1.api_pb2
    for shelf_message, path in (
        (pb.Shelf(one=pb.Thing()), "one.title"),
        (pb.Shelf(many=[pb.Thing()]), "many[0].title"),
        (pb.Shelf(by={7: pb.Thing()}), "by[7].title"),
    ):
        assert _refused(v1beta1.to_internal_Shelf, shelf_message) == f"{path}: is too long"
