"""The rules of csi-proxy's API document on deprecation and removal; each is the name of a test."""

from __future__ import annotations

import datetime
import shutil
import warnings

import pytest

from tests.rpc.dummy import TYPES, V1
from tests.rpc.rpckit import Project


def test_versions_graduate_from_alpha_to_beta_to_stable(project: Project) -> None:
    """Versions are preferred as in Kubernetes; alpha versions of the next major come last."""
    names = ["v1", "v1alpha1", "v1beta1", "v1beta2", "v2", "v2alpha1", "v10"]
    for name in names:
        project.proto(name, V1, group="dummy")
    project.write("dummy/types.py", TYPES)
    project.generate()
    assert [version.name for version in project.group("dummy").versions] == [
        "v10", "v2", "v1", "v1beta2", "v1beta1", "v2alpha1", "v1alpha1",
    ]  # fmt: skip


DEPRECATED = "// Deprecated: Do not use.\n// It will be removed soon."


def _deprecate(project: Project, version: str) -> None:
    lines = f'syntax = "proto3";\n\n{DEPRECATED}\npackage {project.name}.dummy.{version};\n{V1}'
    project.write(f"dummy/{version}/api.proto", lines)


def _removal(
    project: Project, version: str, *, months: int, releases: int, deprecate: bool = True
) -> list[str]:
    """Publish a version beside v9 on 2026-01-31, deprecate it in the next release on that day, make
    releases so that the next is the given number after that, wait and remove it."""
    for name in ("v9", version):
        project.proto(name, V1, group="dummy")
    project.write("dummy/types.py", TYPES)
    project.generate()
    project.release("1.0")
    if deprecate:
        _deprecate(project, version)
        project.generate()
        project.release("1.1")
    for number in range(1, releases):
        project.release(f"2.{number}")
    year, month = divmod(project.today.month - 1 + months, 12)
    last_day = {2: 28, 4: 30, 6: 30, 9: 30, 11: 30}.get(month + 1, 31)
    project.today = datetime.date(2026 + year, month + 1, last_day)
    shutil.rmtree(project.root / "dummy" / version)
    return project.problems()


@pytest.mark.parametrize(
    ("months", "releases", "allowed"),
    [(12, 3, True), (11, 3, False), (12, 2, False), (11, 5, False), (24, 2, False), (13, 4, True)],
)
def test_12_months_or_3_releases_for_a_stable_version(
    project: Project, months: int, releases: int, allowed: bool
) -> None:
    """Whichever is longer, after the announced deprecation."""
    problems = _removal(project, "v1", months=months, releases=releases)
    assert (problems == []) == allowed
    if not allowed:
        assert problems == [
            "rpc.lock:" + problems[0].split(":")[1] + ": dummy/v1 cannot be removed: a stable "
            "version is supported 12 months or 3 releases, whichever is longer, after its "
            "deprecation, which release 1.1 announced on 2026-01-31: not before 2027-01-31 and "
            f"release 3 after it (the next is release {releases})"
        ]


@pytest.mark.parametrize(
    ("months", "releases", "allowed"), [(9, 3, True), (8, 3, False), (9, 2, False), (10, 3, True)]
)
def test_9_months_or_3_releases_for_a_beta_version(
    project: Project, months: int, releases: int, allowed: bool
) -> None:
    """Whichever is longer, after the announced deprecation."""
    problems = _removal(project, "v1beta1", months=months, releases=releases)
    assert (problems == []) == allowed


def test_0_releases_for_an_alpha_version(project: Project) -> None:
    """It may be removed at once, without a deprecation."""
    assert _removal(project, "v1alpha1", months=0, releases=0, deprecate=False) == []


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_support_is_counted_after_the_announced_deprecation(project: Project, version: str) -> None:
    """A version that no release announced as deprecated is not removed, however old it is."""
    (problem,) = _removal(project, version, months=30, releases=9, deprecate=False)
    assert problem.endswith("after its deprecation, and no release announced it")


def test_a_field_is_marked_as_deprecated_in_the_proto_file(dummy: Project) -> None:
    """Also in a published version. The registration has the field."""
    dummy.release("1.0")
    field = "int64 input = 2"
    dummy.proto("v1", V1.replace(field, f"{field} [deprecated=true]"), group="dummy")
    assert dummy.problems() == []
    method = dummy.group("dummy").versions[0].methods[0]
    assert method.deprecated_fields == {f"{dummy.name}.dummy.v1.ComputeDoubleRequest.input"}


def test_a_field_is_removed_in_the_first_version_without_it(dummy: Project) -> None:
    """A new version does without the field, and the older ones keep it."""
    dummy.release("1.0")
    dummy.proto("v2", V1.replace("bool overflow = 3;", ""), group="dummy")
    assert dummy.problems() == []
    v2, v1, _ = dummy.group("dummy").versions
    response = v1.methods[0].internal_response(response=2, overflow=True)
    assert v1.methods[0].from_internal(response).overflow
    assert v2.methods[0].from_internal(response) == v2.methods[0].response(response=2)


SECOND = """
service Dummy {
    rpc ComputeDouble(ComputeDoubleRequest) returns (ComputeDoubleResponse) {OPTION}
    rpc Halve(HalveRequest) returns (HalveResponse);
}
message HalveRequest {}
message HalveResponse {}
"""
_MESSAGES = "message" + V1.partition("message")[2]


def test_a_procedure_is_marked_as_deprecated_in_the_protobuf_definition(project: Project) -> None:
    """Also in a published version. The registration and the clients have the mark."""
    body = SECOND + _MESSAGES
    project.proto("v1", body.replace("OPTION", ""), group="dummy")
    project.generate()
    project.release("1.0")
    project.proto("v1", body.replace("OPTION", "option deprecated = true;"), group="dummy")
    assert project.problems() == []
    methods = project.group("dummy").versions[0].methods
    assert [(method.name, method.deprecated) for method in methods] == [
        ("ComputeDouble", True), ("Halve", False),
    ]  # fmt: skip
    client = project.load("dummy.client_generated").DummyClient
    assert client.compute_double.__doc__ == "Deprecated."


def test_a_procedure_is_removed_from_the_first_version_without_it(project: Project) -> None:
    """The server implements the calls of all versions; each version has its own."""
    body = (SECOND + _MESSAGES).replace("OPTION", "")
    project.proto("v1", body, group="dummy")
    project.generate()
    without_halve = body.replace("rpc Halve(HalveRequest) returns (HalveResponse);", "")
    project.proto("v2", without_halve, group="dummy")
    assert project.problems() == []
    v2, v1 = project.group("dummy").versions
    assert [method.name for method in v1.methods] == ["ComputeDouble", "Halve"]
    assert [method.name for method in v2.methods] == ["ComputeDouble"]
    assert {"compute_double", "halve"} <= set(
        dir(v1.methods and project.load("dummy.server").Server)
    )


def test_a_version_is_marked_as_deprecated_in_its_protobuf_definition(dummy: Project) -> None:
    """The comment on the package says `Deprecated:`; also in a published version."""
    dummy.release("1.0")
    _deprecate(dummy, "v1")
    assert dummy.problems() == []
    assert [version.deprecated for version in dummy.group("dummy").versions] == [True, False]


def test_the_versions_server_and_client_packages_are_marked_as_deprecated(dummy: Project) -> None:
    """Their modules say so, and the client warns."""
    import grpc

    _deprecate(dummy, "v1")
    dummy.generate()
    mark = "\n\nDeprecated: this version will be removed.\n"
    for name in ("client_generated", "conversion_generated"):
        assert mark in dummy.load(f"dummy.v1.{name}").__doc__
        assert mark not in dummy.load(f"dummy.v1alpha1.{name}").__doc__
    channel = grpc.insecure_channel("unix:nowhere")
    with pytest.warns(DeprecationWarning, match="dummy v1 is deprecated"):
        dummy.load("dummy.v1.client_generated").DummyClient(channel)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dummy.load("dummy.v1alpha1.client_generated").DummyClient(channel)


def test_all_references_to_a_removed_version_are_removed(dummy: Project) -> None:
    """Its directory is removed by hand, and the references by the command."""
    shutil.rmtree(dummy.root / "dummy/v1alpha1")
    assert dummy.problems() == []
    for path, text in dummy.files().items():
        assert "v1alpha1" not in path
        assert "v1alpha1" not in text, path


def test_generated_files_of_a_removed_version_are_removed(dummy: Project) -> None:
    """If only the protobuf file is removed, hand-written files stay."""
    (dummy.root / "dummy/v1alpha1/api.proto").unlink()
    assert dummy.problems() == []
    left = {path for path in dummy.files() if path.startswith("dummy/v1alpha1/")}
    assert left == {"dummy/v1alpha1/__init__.py", "dummy/v1alpha1/conversion.py"}


def test_all_references_to_a_removed_api_group_are_removed(dummy: Project) -> None:
    """The group's generated files are removed, whatever of it is left."""
    dummy.proto("v1", V1.replace("Dummy", "Other"), group="other")
    dummy.generate()
    for version in ("v1", "v1alpha1"):
        shutil.rmtree(dummy.root / "dummy" / version)
    assert dummy.problems() == []
    left = {path for path in dummy.files() if path.startswith("dummy/")}
    assert left == {"dummy/__init__.py", "dummy/types.py", "dummy/server.py"}


def test_an_api_group_is_removed_after_all_its_versions(dummy: Project) -> None:
    """Removing the directory of a group removes its versions, and needs the same policy."""
    dummy.release("1.0")
    shutil.rmtree(dummy.root / "dummy")
    (problem,) = dummy.problems()
    assert "dummy/v1 cannot be removed" in problem
