"""The first half of csi-proxy's API document: each test is named after a rule.

The others are in `test_document_serving.py`, `test_document_deprecation.py` and
`test_document_files.py`.
"""

from __future__ import annotations

import ast
import asyncio
from typing import Any

import pytest

from examples.rpc.dummy.registration_generated import GROUP as DUMMY
from kapiserver.rpc.registration import Call, ConversionError
from tests.rpc.dummy import CONVERSION, FUNCTIONS, TYPES, V1, V1ALPHA1
from tests.rpc.rpckit import Project


def _call_dummy(version: str, value: int) -> Any:
    """Call the example's server in a version and return the response of that version."""
    (method,) = next(each for each in DUMMY.versions if each.name == version).methods
    request = method.request(**{"input32" if version == "v1alpha1" else "input": value})
    server = DUMMY.server_class()
    call = Call(version=version, method=method.name)
    response = asyncio.run(getattr(server, method.server_method)(method.to_internal(request), call))
    return method.from_internal(response)


# Overview


def test_a_number_of_api_groups_all_independent_of_each_other(dummy: Project) -> None:
    """No module of a group imports another group, and a group that is removed leaves no trace."""
    before = dummy.files()
    dummy.proto("v1", V1.replace("Dummy", "Other"), group="other")
    dummy.generate()
    files = dummy.files()
    assert {path: files[path] for path in before} == before
    for path, text in files.items():
        if path.startswith("other/") and path.endswith(".py"):
            imported = {
                name.name
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.ImportFrom)
                for name in node.names
            }
            assert "dummy" not in imported


def test_each_api_group_has_one_or_more_versions(dummy: Project) -> None:
    """A directory without versions is no group, and a group has all versions of its directory."""
    (dummy.root / "empty").mkdir()
    assert dummy.generate() == []
    versions = dummy.group("dummy").versions
    assert [version.name for version in versions] == ["v1", "v1alpha1"]


def test_apis_are_defined_by_protobuf_files_in_group_and_version_directories(
    dummy: Project,
) -> None:
    """`GROUP/VERSION/api.proto` is the place of a definition; others are refused."""
    dummy.write("dummy/v1/other.proto", 'syntax = "proto3";')
    (problem,) = dummy.problems()
    assert "a protobuf file must be" in problem
    assert problem.endswith("GROUP/VERSION/api.proto")


@pytest.mark.parametrize("count", [0, 2])
def test_each_proto_file_should_define_exactly_one_rpc_service(
    project: Project, count: int
) -> None:
    """None and two are refused."""
    body = "message A {}" if not count else f"{V1}\nservice Second {{}}"
    project.proto("v1", body, group="dummy")
    (problem,) = project.problems()
    assert f"the file must define exactly one service, not {count}" in problem


def test_only_one_server_per_api_group_handles_all_the_versions(dummy: Project) -> None:
    """All versions name methods of one class."""
    group = dummy.group("dummy")
    methods = {method.server_method for version in group.versions for method in version.methods}
    assert methods == {"compute_double"}
    assert hasattr(group.server_class, "compute_double")


def test_types_contain_the_internal_types_of_the_various_protobuf_types(dummy: Project) -> None:
    """A class that is missing is a problem."""
    dummy.write("dummy/types.py", TYPES.replace("ComputeDoubleResponse", "SomethingElse"))
    problems = dummy.problems()
    assert (
        len([problem for problem in problems if "write the class ComputeDoubleResponse" in problem])
        == 2
    )


def test_internal_structures_must_be_able_to_represent_all_versions(dummy: Project) -> None:
    """A field that the internal class lacks must be converted by hand, or added to the class."""
    dummy.write("dummy/types.py", TYPES.replace("    overflow: bool = False\n", ""))
    (problem,) = dummy.problems()
    assert "overflow: types.ComputeDoubleResponse has no field overflow" in problem


def test_the_example_computes_doubles_in_both_versions() -> None:
    """The document's server, called in both versions."""
    assert _call_dummy("v1", 2**40).response == 2**41
    assert _call_dummy("v1", 2**62).overflow
    assert _call_dummy("v1alpha1", -21).response32 == -42


def test_the_server_needs_the_callbacks_of_all_api_versions(dummy: Project) -> None:
    """A call without a method is a problem, which shows the signature."""
    dummy.write("dummy/server.py", "class Server:\n    pass\n")
    (problem,) = dummy.problems()
    assert problem.startswith("dummy/server.py:1: the class Server needs these methods:")
    assert "async def compute_double(" in problem
    assert "request: types.ComputeDoubleRequest, call: Call" in problem
    assert "-> types.ComputeDoubleResponse:" in problem


def test_boilerplate_to_listen_for_each_versions_requests_is_generated(dummy: Project) -> None:
    """The registration has each version with its service and the classes of its messages."""
    for version in dummy.group("dummy").versions:
        assert version.full_service == f"{dummy.name}.dummy.{version.name}.Dummy"
        assert version.file_descriptor.package == version.package
        assert version.methods[0].request.DESCRIPTOR.full_name.startswith(version.package)


def test_boilerplate_to_convert_versioned_requests_to_internal_is_generated(
    dummy: Project,
) -> None:
    """Requests of all versions become the same internal type."""
    v1, v1alpha1 = (version.methods[0] for version in dummy.group("dummy").versions)
    assert v1.to_internal(v1.request(input=3)) == v1alpha1.to_internal(v1alpha1.request(input32=3))


def test_boilerplate_to_convert_internal_responses_back_is_generated(dummy: Project) -> None:
    """A response becomes that of the version called."""
    v1, v1alpha1 = (version.methods[0] for version in dummy.group("dummy").versions)
    response = v1.internal_response(response=6)
    assert v1.from_internal(response) == v1.response(response=6)
    assert v1alpha1.from_internal(response) == v1alpha1.response(response32=6)


def test_clients_of_the_api_group_and_its_versions_are_generated(dummy: Project) -> None:
    """One client a version, and one of the group."""
    for module in ("dummy.v1", "dummy.v1alpha1", "dummy"):
        assert dummy.load(f"{module}.client_generated").DummyClient.__name__ == "DummyClient"


def test_conversions_that_cannot_be_made_trivially_need_functions(dummy: Project) -> None:
    """The command names each missing function with its signature, and fails until it is written."""
    text = (dummy.root / "dummy/v1alpha1/conversion.py").read_text()
    (dummy.root / "dummy/v1alpha1/conversion.py").unlink()
    problems = dummy.problems()
    assert len(problems) == 2
    for function in FUNCTIONS:
        assert f"def {function}" in "\n".join(problems)
    first = text.partition("def convert_internal_ComputeDoubleRequest")[0]
    dummy.write("dummy/v1alpha1/conversion.py", first)
    problems = dummy.problems()
    assert f"def {FUNCTIONS[0]}" not in "\n".join(problems)
    assert f"def {FUNCTIONS[1]}" in "\n".join(problems)
    dummy.write("dummy/v1alpha1/conversion.py", text)
    assert dummy.problems() == []


def test_the_conversion_file_is_otherwise_optional(dummy: Project) -> None:
    """v1 has none."""
    assert not (dummy.root / "dummy/v1/conversion.py").exists()


def test_the_examples_conversion_refuses_an_overflow() -> None:
    """`int32 overflow`, in the document's conversion."""
    with pytest.raises(ConversionError, match="response32: 4294967294 does not fit into int32"):
        _call_dummy("v1alpha1", 2**31 - 1)


# How to change the API


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int64 input = 2;", "int64 input = 4;"),
        ("int64 input = 2;", "int64 number = 2;"),
        ("int64 input = 2;", "int64 input = 2; bool more = 3;"),
        ("bool overflow = 3;", ""),
        ("returns (ComputeDoubleResponse)", "returns (stream ComputeDoubleResponse)"),
        ("message ComputeDoubleRequest{", "message Extra {} message ComputeDoubleRequest{"),
    ],
)
def test_existing_api_versions_are_immutable(dummy: Project, old: str, new: str) -> None:
    """A version that a release published cannot change; before it could."""
    dummy.release("1.0")
    dummy.proto("v1", V1.replace(old, new), group="dummy")
    assert (
        "dummy/v1/api.proto:1: dummy/v1 was published in release 1.0 and is immutable; "
        "make the change in a new version"
    ) in dummy.problems()
    (dummy.root / "rpc.lock").unlink()
    assert "immutable" not in "\n".join(dummy.problems())


def test_comments_of_an_existing_version_may_change(dummy: Project) -> None:
    """Comments and formatting are no part of the API."""
    dummy.release("1.0")
    dummy.proto("v1", f"// New.\n{V1.replace('// we changed', '// We changed')}\n", group="dummy")
    assert dummy.problems() == []


def test_a_new_api_group_is_a_new_proto_file_then_generate(project: Project) -> None:
    """One file and one run of the command make a group that can be served."""
    project.proto("v1", V1, group="dummy")
    project.generate()
    (version,) = project.group("dummy").versions
    assert version.methods[0].server_method == "compute_double"


def test_any_change_requires_a_new_version(dummy: Project) -> None:
    """The same change in a new version is accepted."""
    dummy.release("1.0")
    changed = V1.replace("bool overflow = 3;", "bool overflow = 3; string note = 4;")
    dummy.proto("v2alpha1", changed, group="dummy")
    dummy.write("dummy/types.py", f"{TYPES}    note: str = ''\n")
    assert dummy.problems() == []


def test_steps_to_add_a_new_api_version(project: Project) -> None:
    """The document's six steps from v1alpha1 alone to v1 and v1alpha1."""
    project.proto("v1alpha1", V1ALPHA1, group="dummy")
    assert project.problems() == []
    project.release("1.0")
    project.proto("v1", V1, group="dummy")  # 1
    problems = project.problems()  # 2
    assert {problem.split(":")[0] for problem in problems} == {"dummy/v1/conversion.py"}
    project.write("dummy/types.py", TYPES)  # 3
    problems = project.problems()
    assert {problem.split(":")[0] for problem in problems} == {"dummy/v1alpha1/conversion.py"}
    project.write("dummy/v1alpha1/conversion.py", CONVERSION)  # 4
    assert project.problems() == []  # 5
    project.write("dummy/server.py", (project.root / "dummy/server.py").read_text() + "# 6\n")
    assert project.problems() == []
    assert [version.name for version in project.group("dummy").versions] == ["v1", "v1alpha1"]
