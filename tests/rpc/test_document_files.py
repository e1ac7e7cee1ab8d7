"""The rules of csi-proxy's API document on generated files; each is the name of a test."""

from __future__ import annotations

import asyncio

from examples.rpc.dummy.server import Server
from examples.rpc.dummy.types import ComputeDoubleRequest
from kapiserver.rpc.loading import load_groups
from kapiserver.rpc.registration import Call
from tests.rpc.dummy import CONVERSION, FUNCTIONS, V1, V1ALPHA1
from tests.rpc.rpckit import Project


def test_groups_are_subdirectories_or_packages_with_a_comment(project: Project) -> None:
    """A package deeper down is a group if its `__init__.py` has the comment."""
    project.write("deep/down/dummy/__init__.py", "# +kapiserver-rpc\n")
    lines = f'syntax = "proto3";\npackage {project.name}.dummy.v1;\n{V1}'
    project.write("deep/down/dummy/v1/api.proto", lines)
    project.generate()
    assert [group.name for group in load_groups(project.root)] == ["dummy"]
    project.write("deep/down/dummy/__init__.py", "")
    assert "a protobuf file must be" in project.problems()[0]


def test_an_existing_types_file_is_checked_for_the_top_level_structs(dummy: Project) -> None:
    """Each request and response needs a class."""
    dummy.write("dummy/types.py", "")
    assert [problem for problem in dummy.problems() if "for" in problem] == [
        f"dummy/types.py:1: write the class {name}, for {dummy.root}/dummy/{version}/api.proto"
        for name in ("ComputeDoubleRequest", "ComputeDoubleResponse")
        for version in ("v1", "v1alpha1")
    ]


def test_missing_types_of_a_group_with_one_version_copy_the_protobuf_structs(
    project: Project,
) -> None:
    """The new `types.py` has the same classes and fields."""
    project.proto("v1", V1, group="dummy")
    assert "dummy/types.py" in project.generate()
    types = project.load("dummy.types")
    assert types.ComputeDoubleRequest() == types.ComputeDoubleRequest(input=0)
    assert types.ComputeDoubleResponse() == types.ComputeDoubleResponse(response=0, overflow=False)


def test_missing_types_of_a_group_with_several_versions_represent_all(project: Project) -> None:
    """The new `types.py` has the fields of all versions, so that no conversion is missing."""
    project.proto("v1", V1, group="dummy")
    project.proto("v1alpha1", V1ALPHA1, group="dummy")
    assert "dummy/types.py" in project.generate()
    types = project.load("dummy.types")
    assert types.ComputeDoubleRequest() == types.ComputeDoubleRequest(input=0, input32=0)
    assert types.ComputeDoubleResponse() == types.ComputeDoubleResponse(
        response=0, overflow=False, response32=0
    )
    for version in ("v1", "v1alpha1"):
        conversion = project.load(f"dummy.{version}.conversion_generated")
        field = "input" if version == "v1" else "input32"
        request = conversion.api_pb2.ComputeDoubleRequest(**{field: 5})
        internal = types.ComputeDoubleRequest(**{field: 5})
        assert conversion.to_internal_ComputeDoubleRequest(request) == internal
        assert conversion.to_pb_ComputeDoubleRequest(internal) == request


def test_missing_types_of_versions_that_differ_are_those_of_the_newest(project: Project) -> None:
    """A field or enum with another type in an older version is converted by hand; one that is
    optional in one version is optional."""
    project.messages(
        "v1",
        "message Thing { string size = 1; int32 count = 2; Kind kind = 3; Part part = 4; }\n"
        "message Part { string a = 1; } enum Kind { NONE = 0; SOME = 1; }",
    )
    project.messages(
        "v1beta1",
        "message Thing { int32 size = 1; optional int32 count = 2; Kind kind = 3; Part part = 4; } "
        "enum Part { NOTHING = 0; } enum Kind { NONE = 0; SOME = 1; MORE = 2; }",
    )
    (problem,) = project.problems()
    assert problem.startswith(
        "things/v1beta1/conversion.py:1: write the conversion of Thing "
        "(size: types.Thing.size is str, not int or int | None; "
        "part: types.Thing.part is Part | None, not "
    )
    types = project.load("things.types")
    assert types.Thing() == types.Thing(size="", count=None, kind=0, part=None)
    assert [*types.Kind] == [types.Kind.NONE, types.Kind.SOME, types.Kind.MORE]


def test_types_generated_has_the_list_of_callbacks(dummy: Project) -> None:
    """The interface of the server."""
    interface = dummy.load("dummy.types_generated").Server
    assert callable(interface.compute_double)


def test_a_skeleton_of_a_missing_server_is_generated(project: Project) -> None:
    """Its calls are not implemented. It is not generated again."""
    project.proto("v1", V1, group="dummy")
    assert "dummy/server.py" in project.generate()
    text = (project.root / "dummy/server.py").read_text()
    assert 'raise RPCError("UNIMPLEMENTED", "ComputeDouble is not implemented")' in text
    project.write("dummy/server.py", f"{text}\n# edited\n")
    assert project.generate() == []


def test_existing_conversion_functions_are_looked_for(dummy: Project) -> None:
    """A function that belongs to no message is a problem: its name is misspelt, or out of date."""
    text = CONVERSION.replace(
        "ComputeDoubleRequest_to_internal", "ComputeTripleRequest_to_internal"
    )
    dummy.write("dummy/v1alpha1/conversion.py", text)
    problems = dummy.problems()
    assert (
        "dummy/v1alpha1/conversion.py:6: convert_pb_ComputeTripleRequest_to_internal converts no "
        "message that types.py has a class for"
    ) in problems
    assert f"def {FUNCTIONS[0]}" in "\n".join(problems)


def test_missing_conversion_functions_are_generated(dummy: Project) -> None:
    """v1 has four of them, none by hand."""
    conversion = dummy.load("dummy.v1.conversion_generated")
    internal = conversion.to_internal_ComputeDoubleRequest(
        conversion.api_pb2.ComputeDoubleRequest(input=5)
    )
    assert conversion.to_pb_ComputeDoubleRequest(internal).input == 5


def test_a_hand_written_function_completes_a_derived_conversion(dummy: Project) -> None:
    """A function that is not needed is called all the same, after the derived conversion."""
    text = """
def convert_pb_ComputeDoubleRequest_to_internal(source, target):
    assert target.input == source.input
    target.input = abs(target.input)
"""
    dummy.write("dummy/v1/conversion.py", text)
    dummy.generate()
    method = dummy.group("dummy").versions[0].methods[0]
    assert method.to_internal(method.request(input=-3)).input == 3


def test_the_files_of_a_group(dummy: Project) -> None:
    """The document's listing, with Python's names and protoc's files beside."""
    version = ["__init__.py", "api.proto", "api_pb2.py", "api_pb2.pyi", "client_generated.py"]
    version += ["conversion_generated.py"]
    assert set(dummy.files()) == {
        "__init__.py",
        *(f"dummy/{name}" for name in (
            "__init__.py", "client_generated.py", "registration_generated.py", "server.py",
            "types.py", "types_generated.py",
        )),
        *(f"dummy/v1/{name}" for name in version),
        *(f"dummy/v1alpha1/{name}" for name in [*version, "conversion.py"]),
    }  # fmt: skip


def test_a_server_of_the_example_can_be_made_without_arguments() -> None:
    """As the document's `Server{}`."""
    response = asyncio.run(
        Server().compute_double(ComputeDoubleRequest(input=1), Call(version="v1"))
    )
    assert response.response == 2
