"""`--emulated-version`: what it accepts, and what a server of an older release serves."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from kapiserver.api.groups import GROUPS
from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.version import NEWEST_MINOR, OLDEST_MINOR, emulated_minor, version_info
from kapiserver.cli import config_of, parser
from tests.apiserver.conftest import Server


@pytest.mark.parametrize(
    ("text", "minor"),
    [("", 37), ("1.34", 34), ("kube=1.35", 35), (" kube = v1.36 ", 36), ("1.37.0", 37)],
)
def test_forms(text: str, minor: int) -> None:
    """The version is that of the component kube."""
    assert emulated_minor(text) == minor


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.33", "emulation version 1.33 is not between [1.34, 1.37]"),
        ("kube=1.38", "emulation version 1.38 is not between [1.34, 1.37]"),
        ("2.35", "emulation version 2.35 is not between [1.34, 1.37]"),
        ("wardle=1.2", "component not registered: wardle"),
        ("1.34,kube=1.35", "duplicate version flag, kube=1.34 and kube=1.35"),
        ("1.34.2", "patch version not allowed, got: kube=1.34.2"),
        ("1", 'could not parse "1" as version'),
        ("kube=", 'could not parse "" as version'),
        ("1.9999999999999", 'could not parse "1.9999999999999" as version'),
    ],
)
def test_refused(text: str, message: str) -> None:
    """An invalid value is an error with kube-apiserver's message, also as a flag."""
    with pytest.raises(ValueError, match=re.escape(message)):
        emulated_minor(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        config_of(parser().parse_args(["serve", "--emulated-version", text]))


def _served(minor: int | None) -> set[str]:
    """Return `group/version/resource` of all resources that are served."""
    scheme = Scheme(release=minor)
    return {
        f"{group.name}/{version}/{resource.name}"
        for group in scheme.groups
        for resource in scheme.resources(group.name)
        for version in resource.versions
    }


def test_releases() -> None:
    """Each release serves what it and the releases before it introduced."""
    newest = _served(None)
    assert _served(NEWEST_MINOR) == newest
    introduced = {}
    for minor in range(OLDEST_MINOR, NEWEST_MINOR):
        introduced[minor + 1] = _served(minor + 1) - _served(minor)
        assert _served(minor) < _served(minor + 1)
    assert introduced[35] == {
        "certificates.k8s.io/v1beta1/podcertificaterequests",
        "storagemigration.k8s.io/v1beta1/storageversionmigrations",
    }
    assert introduced[36] == {
        "admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
        "admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
        "resource.k8s.io/v1alpha3/resourcepoolstatusrequests",
        "resource.k8s.io/v1beta2/devicetaintrules",
    }
    assert "lifecycle.k8s.io/v1alpha1/evictions" in introduced[37]
    assert {"storagemigration.k8s.io", "lifecycle.k8s.io"} == (
        {group.name for group in GROUPS} - {group.name for group in Scheme(release=34).groups}
    )


def test_introductions_name_served_versions() -> None:
    """A declaration says since when a version serves a resource only for versions that do."""
    scheme = Scheme()
    for group in GROUPS:
        for resource in scheme.resources(group.name):
            for version, minor in resource.introduced:
                assert version in resource.versions, resource
                assert OLDEST_MINOR < minor <= NEWEST_MINOR, resource


def test_server(make_server: Callable[..., Server]) -> None:
    """/version, discovery, OpenAPI and deprecation warnings are those of the release."""
    runtime_config = "api/all=true"
    old = make_server(emulated_version="kube=1.34", runtime_config=runtime_config).api
    new = make_server(runtime_config=runtime_config).api
    version = old.get("/version").json
    assert (version["major"], version["minor"], version["emulationMinor"]) == ("1", "34", "34")
    assert version["gitVersion"] == "v1.34.0+kapiserver"
    assert old.get("/openapi/v3/api/v1").json["info"]["version"] == "v1.34.0+kapiserver"
    assert new.get("/version").json["minor"] == str(NEWEST_MINOR)
    migrations = "/apis/storagemigration.k8s.io/v1"
    assert (old.get(migrations).status, new.get(migrations).status) == (404, 200)
    policies = "/apis/admissionregistration.k8s.io/{}/mutatingadmissionpolicies"
    assert old.get(policies.format("v1")).status == 404
    assert not old.get(policies.format("v1beta1")).warnings
    assert new.get(policies.format("v1beta1")).warnings
    groups = {group["name"] for group in old.get("/apis").json["groups"]}
    assert "storagemigration.k8s.io" not in groups


def test_git_commit() -> None:
    """Clients expect a hexadecimal number (conformance test of `kubectl version`)."""
    assert re.fullmatch("[0-9a-f]{40}", version_info()["gitCommit"])
