"""Definitions made by Hypothesis: whatever their fields, they generate and convert."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.rpc.generator.rules import WELL_KNOWN_FILES
from tests.rpc.messages import messages
from tests.rpc.rpckit import Project

_NAMES = [
    "a", "b_c", "d1", "bytes", "int", "str", "list", "dict", "float", "bool", "self", "field",
    "source", "target", "rules", "types", "api_pb2", "conversion", "thing", "none",
    "match", "type", "message", "has_field", "clear", "values", "items", "keys", "name", "value",
]  # fmt: skip
_KEYS = ["int32", "uint64", "sint32", "fixed64", "bool", "string"]
_TYPES = [
    *_KEYS, "double", "float", "int64", "uint32", "sfixed32", "bytes",
    "Kind", "Thing", "Thing.Part", "Resource",
    "google.protobuf.Timestamp", "google.protobuf.Struct",
    "google.protobuf.Int64Value", "google.protobuf.StringValue", "google.protobuf.FloatValue",
]  # fmt: skip
_IMPORTS = "".join(f'import "{name}";\n' for name in sorted(WELL_KNOWN_FILES))


@st.composite
def _fields(draw: st.DrawFn) -> list[str]:
    """Draw fields without their numbers; those of a oneof begin with `oneof`."""
    fields = []
    for name in draw(st.lists(st.sampled_from(_NAMES), unique=True, min_size=1, max_size=8)):
        kind = draw(st.sampled_from(["", "optional", "repeated", "map", "oneof"]))
        type_name = draw(st.sampled_from(_TYPES))
        if kind == "map":
            type_name, kind = f"map<{draw(st.sampled_from(_KEYS))}, {type_name}>", ""
        fields.append(f"{kind} {type_name} {name}".strip())
    return fields


def _thing(fields: list[str], numbers: list[int]) -> str:
    lines = [f"{field} = {number};" for field, number in zip(fields, numbers, strict=True)]
    alone = "\n".join(line for line in lines if not line.startswith("oneof"))
    members = "\n".join(line[len("oneof") :] for line in lines if line.startswith("oneof"))
    choice = f"oneof choice {{\n{members}\n}}\n" * bool(members)
    part = "message Part { optional int32 size = 1; Kind kind = 2; }"
    return (
        f"message Thing {{\n{alone}\n{choice}{part}\n}}\nmessage Resource {{}}\n"
        "enum Kind { NONE = 0; SOME = 5; }\n"
    )


@given(data=st.data())
@settings(max_examples=25)
def test_two_versions_of_any_definition(data: st.DataObject) -> None:
    """A version with some of the fields of another, with other numbers, is derived from its types,
    and round trips of both lose nothing."""
    fields = data.draw(_fields())
    fewer = data.draw(st.lists(st.sampled_from(fields), unique=True, max_size=8))
    numbers = data.draw(st.permutations(range(1, len(fewer) + 1)))
    path = list(sys.path)
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder))
        project.messages("v1", _thing(fields, list(range(1, len(fields) + 1))), imports=_IMPORTS)
        assert project.problems() == []
        project.messages("v1beta1", _thing(fewer, list(numbers)), imports=_IMPORTS)
        assert project.problems() == []
        _round_trips(project, data)
    sys.path[:] = path


@given(data=st.data())
@settings(max_examples=10)
def test_a_group_that_begins_with_two_versions(data: st.DataObject) -> None:
    """The types that are written for two versions represent both, whichever has more fields."""
    fields = data.draw(_fields())
    parts = [data.draw(st.lists(st.sampled_from(fields), unique=True)) for _ in range(2)]
    path = list(sys.path)
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder))
        for version, part in zip(("v1", "v1beta1"), parts, strict=True):
            numbers = list(range(1, len(part) + 1))
            project.messages(version, _thing(part, numbers), imports=_IMPORTS)
        assert project.problems() == []
        _round_trips(project, data)
    sys.path[:] = path


def _round_trips(project: Project, data: st.DataObject) -> None:
    for version in ("v1", "v1beta1"):
        conversion = project.load(f"things.{version}.conversion_generated")
        descriptor = conversion.api_pb2.Thing.DESCRIPTOR
        message = data.draw(messages(descriptor))
        converted = conversion.to_pb_Thing(conversion.to_internal_Thing(message))
        assert converted.SerializeToString(deterministic=True) == (
            message.SerializeToString(deterministic=True)
        )
