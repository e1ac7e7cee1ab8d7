"""The rules for protobuf files: each problem has the file, the line and a sentence."""

from __future__ import annotations

import pytest

from kapiserver.rpc.generator.python_source import MARK
from tests.rpc.rpckit import Project

CALL = """
service Things {
    rpc Get(GetRequest) returns (GetResponse);
}
message GetRequest {
    int32 size = 1;
}
message GetResponse {}
"""


def test_valid_definition(project: Project) -> None:
    """A file that breaks no rule has no problem."""
    project.proto("v1", CALL)
    assert project.problems() == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("message GetResponse {}", "message GetResponse {}\nservice Other {}",
         "11: the file must define exactly one service, not 2"),
        ("service Things", "service Thing",
         "4: the service must be named as the group in CamelCase, Things, not Thing"),
        ("service Things", "service things",
         "4: the service must be named as the group in CamelCase, Things, not things"),
        ("rpc Get(", "rpc get(", "5: the call get must have a name in CamelCase"),
        ("rpc Get(GetRequest)", "rpc Fetch(GetRequest)",
         "5: the request of Fetch must be FetchRequest, not PROJECT.things.v1.GetRequest"),
        ("rpc Get(GetRequest) returns (GetResponse)", "rpc Get(GetRequest) returns (GetRequest)",
         "5: the response of Get must be GetResponse, not PROJECT.things.v1.GetRequest"),
        ("rpc Get(GetRequest) returns (GetResponse);",
         "rpc GetIt(GetItRequest) returns (GetItResponse);\n"
         "rpc GetIT(GetItRequest) returns (GetItResponse);}\n"
         "message GetItRequest {} message GetItResponse {",
         "6: the request of GetIT must be GetITRequest, not PROJECT.things.v1.GetItRequest"),
        ("int32 size", "int32 bigSize",
         "8: the field bigSize must have a name in lower_snake_case"),
        ("int32 size", "int32 from",
         "8: a field cannot be named from; Python or types.py uses that name"),
        ("int32 size", "int32 dataclasses",
         "8: a field cannot be named dataclasses; Python or types.py uses that name"),
        ("message GetResponse {}", "message GetResponse { message bad_name {} }",
         "10: the message bad_name must have a name in CamelCase"),
        ("message GetResponse {}", "message GetResponse {}\nenum Kind { zero = 0; }",
         "11: the value zero must have a name in UPPER_SNAKE_CASE"),
        ("message GetResponse {}", "message GetResponse {}\nenum kind { ZERO = 0; }",
         "11: the enum kind must have a name in CamelCase"),
        ("message GetResponse {}", "message GetResponse {}\nmessage Timestamp {}",
         "11: a message cannot be named Timestamp; a well-known type has that name"),
    ],
)  # fmt: skip
def test_names(project: Project, old: str, new: str, problem: str) -> None:
    """Services, calls, messages, fields and values must have names of their form."""
    assert old in CALL
    project.proto("v1", CALL.replace(old, new))
    assert f"things/v1/api.proto:{problem.replace('PROJECT', project.name)}" in project.problems()


def test_call_named_version(project: Project) -> None:
    """The name of an attribute of clients is refused for a call."""
    project.proto("v1", CALL.replace("Get", "Version"))
    assert project.problems() == [
        "things/v1/api.proto:5: a call cannot be named Version; clients use that name themselves"
    ]


def test_calls_with_one_python_name(project: Project) -> None:
    """Two calls with the same name in Python are refused."""
    body = CALL.replace(
        "rpc Get(", "rpc GetURL(GetURLRequest) returns (GetURLResponse);\n    rpc Get("
    )
    body += "message GetURLRequest {} message GetURLResponse {}"
    body = body.replace("Get(GetRequest)", "GetUrl(GetUrlRequest)")
    body = body.replace("GetRequest", "GetUrlRequest").replace("GetResponse", "GetUrlResponse")
    project.proto("v1", body)
    assert project.problems() == [
        "things/v1/api.proto:6: GetUrl and GetURL of v1 have the same name in Python"
    ]


@pytest.mark.parametrize("version", ["v0", "1", "v1alpha", "v1gamma1", "V1", "v1alpha0", "v01"])
def test_version_names(project: Project, version: str) -> None:
    """A version has a name of Kubernetes' form."""
    project.proto(version, CALL)
    text = f"the version {version} must be named like v1, v1beta1 or v1alpha1"
    assert f"things/{version}/api.proto:1: {text}" in project.problems()


@pytest.mark.parametrize("group", ["Things", "my_things", "import", "my-things"])
def test_group_names(project: Project, group: str) -> None:
    """A group has a name for Python, for DNS and for the name of a socket."""
    project.write(f"{group}/v1/api.proto", f'syntax = "proto3";\npackage v1;\n{CALL}')
    text = f"the name of the group {group} must be lower-case letters and digits, and no Python "
    assert f"{group}:1: {text}keyword" in project.problems()


@pytest.mark.parametrize("package", ["v1", "things.v1", "PROJECT.things.v1"])
def test_packages(project: Project, package: str) -> None:
    """The package is the version, optionally after the group, and the project."""
    package = package.replace("PROJECT", project.name)
    project.write("things/v1/api.proto", f'syntax = "proto3";\npackage {package};\n{CALL}')
    assert project.problems() == []


@pytest.mark.parametrize(
    ("line", "shown"), [("package v2;", "v2"), ("package other.v1;", "other.v1"), ("", "empty")]
)
def test_other_packages(project: Project, line: str, shown: str) -> None:
    """Another package is refused."""
    project.write("things/v1/api.proto", f'syntax = "proto3";\n\n{line}\n{CALL}')
    assert project.problems()[0] == (
        f"things/v1/api.proto:{3 if line else 1}: the package must be things.v1, v1 or "
        f"{project.name}.things.v1, not {shown}"
    )


def test_syntax(project: Project) -> None:
    """A file of proto2 is refused, with or without the line."""
    for line in ('syntax = "proto2";\n', ""):
        project.write(
            "things/v1/api.proto", f"{line}package v1;\n{CALL.replace('int32 size = 1;', '')}"
        )
        problems = project.problems()
        assert problems == ['things/v1/api.proto:1: the file must begin with syntax = "proto3"']


def test_imports(project: Project) -> None:
    """A version imports nothing but well-known types, so that nothing else can change it."""
    project.proto("v1", CALL)
    head = f'import "{project.name}/things/v1/api.proto";'
    project.proto("v2", CALL, head=head)
    assert project.problems() == [
        f"things/v2/api.proto:1: a version must not import {project.name}/things/v1/api.proto; "
        "it may import well-known types of protobuf"
    ]


def test_errors_of_protoc(project: Project) -> None:
    """An error of protoc has the path of the file and its line."""
    project.proto("v1", CALL.replace("int32", "int33"))
    assert project.problems() == ['things/v1/api.proto:8: "int33" is not defined.']


def test_misplaced_files(project: Project) -> None:
    """A protobuf file in another place is refused, not ignored."""
    project.write("common.proto", 'syntax = "proto3";')
    (problem,) = project.problems()
    assert problem.startswith("common.proto:1: a protobuf file must be ")


def test_same_package_in_two_groups(project: Project) -> None:
    """Groups with the same package may not have messages of the same name."""
    for group in ("a", "b"):
        body = CALL.replace("Things", group.upper())
        project.write(f"{group}/v1/api.proto", f'syntax = "proto3";\npackage v1;\n{body}')
    assert any('"v1.GetRequest" is already defined' in problem for problem in project.problems())


def test_several_problems(project: Project) -> None:
    """All problems are reported at once, by file and line."""
    project.proto("v1", CALL.replace("size", "Size").replace("rpc Get(", "rpc Got("))
    assert [problem.split(":")[1] for problem in project.problems()] == ["5", "5", "8"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("GetIt", "GetIT", "5: GetIT and GetIt of v1 have the same name in Python"),
        ("(GetItResponse)", "(stream GetItResponse)",
         "5: GetIt must have the same streams as in v1, or another name"),
    ],
)  # fmt: skip
def test_calls_of_two_versions(project: Project, old: str, new: str, problem: str) -> None:
    """One method of the server implements a call of all versions, so that it must be the same."""
    project.proto("v1", CALL.replace("Get", "GetIt"))
    project.proto("v1beta1", CALL.replace("Get", "GetIt").replace(old, new))
    assert f"things/v1beta1/api.proto:{problem}" in project.problems()


def test_hidden_directories(project: Project) -> None:
    """Files of virtual environments and the like are no definitions."""
    project.proto("v1", CALL)
    project.write(".venv/lib/other.proto", "")
    project.write(".venv/lib/old_generated.py", MARK)
    assert project.problems() == []
    assert (project.root / ".venv/lib/old_generated.py").exists()
