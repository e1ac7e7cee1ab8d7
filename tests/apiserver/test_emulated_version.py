"""`--emulated-version`: what it accepts, and what a server of an older release serves."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kapiserver.api.conversion import Conversion
from kapiserver.api.errors import ConversionFailed
from kapiserver.api.group import GroupVersion
from kapiserver.api.groups import GROUPS
from kapiserver.api.releases import (
    NEWEST_MINOR,
    OLDEST_MINOR,
    RELEASES,
    WITHOUT_TYPES,
    differences,
)
from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.feature_gates import DEFAULT_GATES
from kapiserver.apiserver.version import emulated_minor, version_info, versions_of
from kapiserver.cli import parser
from kapiserver.server_config import config_of
from kapiserver.testing.settings import server_config
from tests.apiserver.conftest import Server
from tests.e2e.programs import ROOT


@pytest.mark.parametrize(
    ("text", "minor"),
    [("", 37), ("1.31", 31), ("kube=1.35", 35), (" kube = v1.36 ", 36), ("1.37.0", 37)],
)
def test_forms(text: str, minor: int) -> None:
    """The version is that of the component kube."""
    assert emulated_minor(text) == minor


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.30", "emulation version 1.30 is not between [1.31, 1.37]"),
        ("kube=1.38", "emulation version 1.38 is not between [1.31, 1.37]"),
        ("2.35", "emulation version 2.35 is not between [1.31, 1.37]"),
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


@pytest.mark.parametrize(
    ("emulated", "compatible", "versions"),
    [
        ("", "", (37, 36)),
        ("1.34", "", (34, 33)),
        ("1.31", "", (31, 31)),
        ("", "kube=1.34", (37, 34)),
        ("1.35", "1.35", (35, 35)),
    ],
)
def test_compatible_versions(emulated: str, compatible: str, versions: tuple[int, int]) -> None:
    """By default the release before the emulated one must read what is stored."""
    assert versions_of(emulated, compatible) == versions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.30", "minCompatibilityVersion version 1.30 is not between [1.31, 1.36]"),
        ("1.37", "minCompatibilityVersion version 1.37 is not between [1.31, 1.36]"),
        ("wardle=1.2", "component not registered: wardle"),
        ("1.34,1.35", "duplicate version flag, kube=1.34 and kube=1.35"),
        ("1.34.1", "patch version not allowed, got: kube=1.34.1"),
        ("x", 'could not parse "x" as version'),
    ],
)
def test_refused_compatible_versions(text: str, message: str) -> None:
    """An invalid --min-compatibility-version is an error with kube-apiserver's message."""
    flags = ["serve", "--emulated-version=1.36", f"--min-compatibility-version={text}"]
    with pytest.raises(ValueError, match=re.escape(message)):
        config_of(parser().parse_args(flags))


def _stored(release: int | None, compatible: int | None) -> dict[str, str]:
    """Return the version in which the objects of each resource are stored."""
    scheme = Scheme(release=release, compatible_release=compatible)
    return {
        f"{resource.group}/{resource.name}": resource.storage_version
        for resource in scheme.stored_resources()
    }


def test_stored_versions() -> None:
    """The table of resources has the versions that the release before this one reads."""
    assert _stored(None, NEWEST_MINOR - 1) == _stored(None, None)


@pytest.mark.parametrize(
    ("release", "compatible", "resource", "version"),
    [
        (None, 37, "storagemigration.k8s.io/storageversionmigrations", "v1"),
        (None, 36, "storagemigration.k8s.io/storageversionmigrations", "v1beta1"),
        (None, 35, "admissionregistration.k8s.io/mutatingadmissionpolicies", "v1beta1"),
        (35, 33, "resource.k8s.io/resourceclaims", "v1beta2"),
        (35, 32, "resource.k8s.io/resourceclaims", "v1beta1"),
        (35, 34, "resource.k8s.io/devicetaintrules", "v1alpha3"),  # it has no other
        (32, 31, "resource.k8s.io/resourceclaims", "v1beta1"),
        (36, 32, "networking.k8s.io/servicecidrs", "v1beta1"),
        (36, 35, "networking.k8s.io/servicecidrs", "v1"),
        (31, 31, "apps/deployments", "v1"),
    ],
)
def test_stored_for_an_older_release(
    release: int | None, compatible: int, resource: str, version: str
) -> None:
    """Objects are stored in the preferred version that the older release reads, too."""
    assert _stored(release, compatible)[resource] == version


def test_stored_bytes(make_server: Callable[..., Server]) -> None:
    """An object is stored in a version that the older release has, and served in all."""
    server = make_server(min_compatibility_version="1.33")
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    request = {"name": "r", "exactly": {"deviceClassName": "c"}}
    claim = {"metadata": {"name": "a"}, "spec": {"devices": {"requests": [request]}}}
    created = server.api.post(path, claim)
    assert created.status == 201, created.body
    stored = server.stored("/registry/resourceclaims/default/a")
    assert b"resource.k8s.io/v1beta2" in stored
    again = server.api.get(f"{path}/a").json
    assert again["apiVersion"] == "resource.k8s.io/v1"
    assert again["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "c"
    listed = server.api.get(path).json
    assert listed["items"][0]["spec"] == again["spec"]
    version = server.api.get("/version").json
    assert (version["emulationMinor"], version["minCompatibilityMinor"]) == ("37", "33")


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
    """Each release serves what it introduced, and not what it removed."""
    assert _served(NEWEST_MINOR) == _served(None)
    introduced, removed = {}, {}
    for minor in range(OLDEST_MINOR + 1, NEWEST_MINOR + 1):
        introduced[minor] = _served(minor) - _served(minor - 1)
        removed[minor] = _served(minor - 1) - _served(minor)
    assert introduced[33] == {
        "certificates.k8s.io/v1beta1/clustertrustbundles",
        "coordination.k8s.io/v1beta1/leasecandidates",
        "networking.k8s.io/v1/ipaddresses",
        "networking.k8s.io/v1/servicecidrs",
        "resource.k8s.io/v1alpha3/devicetaintrules",
        "resource.k8s.io/v1beta2/deviceclasses",
        "resource.k8s.io/v1beta2/resourceclaims",
        "resource.k8s.io/v1beta2/resourceclaimtemplates",
        "resource.k8s.io/v1beta2/resourceslices",
    }
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
    assert removed[33] == {"authentication.k8s.io/v1beta1/selfsubjectreviews"}
    assert removed[35] == {"storage.k8s.io/v1alpha1/volumeattributesclasses"}
    assert removed[36] == set()
    assert removed[37] == {
        "certificates.k8s.io/v1alpha1/clustertrustbundles",
        "networking.k8s.io/v1beta1/ipaddresses",
        "networking.k8s.io/v1beta1/servicecidrs",
        "storage.k8s.io/v1beta1/volumeattributesclasses",
    }
    assert {"storagemigration.k8s.io", "lifecycle.k8s.io"} == (
        {group.name for group in GROUPS} - {group.name for group in Scheme(release=34).groups}
    )


@pytest.mark.parametrize(
    ("minor", "version", "resource", "subresource"),
    [
        (31, "v1", "pods", "resize"),
        (34, "resource.k8s.io/v1alpha3", "devicetaintrules", "status"),
        (36, "storage.k8s.io/v1", "csinodes", "status"),
    ],
)
def test_subresources(minor: int, version: str, resource: str, subresource: str) -> None:
    """A subresource is not served before its release, and the resource is."""
    for release, expected in ((minor, False), (minor + 1, True)):
        served = Scheme(release=release).resource(GroupVersion.parse(version), resource)
        assert (subresource in {each.name for each in served.subresources}) is expected


def test_table_names_what_the_newest_release_serves() -> None:
    """What a release added, and none removed later, is served; what one removed is not."""
    scheme = Scheme()
    served = _served(None) | {
        f"{group.name}/{version}/{resource.name}/{subresource.name}"
        for group in GROUPS
        for resource in scheme.resources(group.name)
        for version in resource.versions
        for subresource in resource.subresources
    }
    oldest = differences(OLDEST_MINOR)
    assert oldest.removed <= served
    assert not oldest.added & served
    assert set(RELEASES) == set(range(OLDEST_MINOR, NEWEST_MINOR + 1))


def test_removed_resources_without_types() -> None:
    """The table says of which removed resources the server has no type."""
    scheme = Scheme()
    versions = {group.name: group.declared_versions for group in scheme.declared_groups}
    for path in frozenset[str]().union(*(changes.removed for changes in RELEASES.values())):
        group, version, name = path.split("/")
        kinds = {each.kind for each in scheme.resources(group) if each.name == name}
        declared = {}
        if version in versions[group]:
            declared = {kind.__name__ for kind in scheme.kinds(GroupVersion(group, version))}
        assert (path not in WITHOUT_TYPES) is bool(kinds & {*declared}), path


def test_documented_resources_without_types() -> None:
    """The page of envtest lists every removed resource that no release serves here."""
    page = (ROOT / "docs" / "how-to" / "envtest.md").read_text()
    for path in WITHOUT_TYPES:
        version, _, name = path.rpartition("/")
        assert re.search(rf"\| `{re.escape(version)}` \|.*`{name}`", page), path


@pytest.mark.parametrize("minor", range(OLDEST_MINOR, NEWEST_MINOR))
def test_conversion(minor: int) -> None:
    """Every version that a release serves converts to the hub and back."""
    scheme = Scheme(release=minor)
    for group in scheme.groups:
        assert isinstance(scheme.conversion(group.name), Conversion)


def test_versions_that_no_release_of_the_table_serves() -> None:
    """An Ingress of networking.k8s.io/v1beta1, removed in 1.22, does not convert although the
    version is served again."""
    ingress = {"kind": "Ingress", "apiVersion": "networking.k8s.io/v1beta1"}
    with pytest.raises(ConversionFailed, match="does not convert to"):
        Scheme(release=31).convert(ingress, GroupVersion("networking.k8s.io", "v1"))


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


LEVELS = "/apis/flowcontrol.apiserver.k8s.io/{}/prioritylevelconfigurations"
RANGES = "/apis/networking.k8s.io/{}/servicecidrs"
POLICIES = "/apis/admissionregistration.k8s.io/{}/validatingadmissionpolicies"


def test_removed_versions_are_served_again(make_server: Callable[..., Server]) -> None:
    """A server of 1.31 has the beta versions that later releases removed: on by default those that
    were, the others by --runtime-config, with their warnings, defaults and OpenAPI documents."""
    old, new = make_server(emulated_version="1.31").api, make_server().api
    assert "emulationMajor" not in old.get("/version").json
    groups = {group["name"]: group for group in old.get("/apis").json["groups"]}
    flow_control = groups["flowcontrol.apiserver.k8s.io"]
    assert [each["version"] for each in flow_control["versions"]] == ["v1", "v1beta3"]
    levels = old.get(LEVELS.format("v1beta3"))
    assert levels.status == 200
    assert "unavailable in v1.32+; use flowcontrol.apiserver.k8s.io/v1" in str(levels.warnings)
    assert new.get(LEVELS.format("v1beta3")).status == 404
    assert old.get(RANGES.format("v1beta1")).status == 404
    every = make_server(emulated_version="1.31", runtime_config="api/beta=true").api
    with every.watch(f"{RANGES.format('v1beta1')}?watch=1") as stream:
        cidr = stream.event()["object"]
    assert (cidr["apiVersion"], cidr["metadata"]["name"]) == (
        "networking.k8s.io/v1beta1",
        "kubernetes",
    )
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "true"}],
    }
    policy = {"metadata": {"name": "p"}, "spec": spec}
    created = every.post(POLICIES.format("v1beta1"), policy)
    assert created.status == 201
    assert created.json["apiVersion"] == "admissionregistration.k8s.io/v1beta1"
    assert created.json["spec"]["failurePolicy"] == "Fail"
    document = every.get("/openapi/v3/apis/networking.k8s.io/v1beta1").json
    assert "/apis/networking.k8s.io/v1beta1/servicecidrs" in document["paths"]
    assert "/apis/networking.k8s.io/v1beta1/ingresses" not in str(document["paths"])


@pytest.mark.parametrize("minor", [31, 33, 34, 36])
def test_every_resource_of_a_release(make_server: Callable[..., Server], minor: int) -> None:
    """Every resource of every version can be listed, and has an OpenAPI document."""
    api = make_server(emulated_version=f"1.{minor}", runtime_config="api/all=true").api
    groups = api.get("/apis").json["groups"]
    versions = [each["groupVersion"] for group in groups for each in group["versions"]]
    served = {f"{version}/{each['name']}" for version in versions
              for each in api.get(f"/apis/{version}").json["resources"]}  # fmt: skip
    again = differences(minor).added - WITHOUT_TYPES
    assert again <= served
    for path in again:
        version, _, name = path.rpartition("/")
        response = api.get(f"/apis/{path}")
        if name != "selfsubjectreviews":
            assert response.json["apiVersion"] == version
            assert response.status == 200
        assert api.get(f"/openapi/v3/apis/{version}").status == 200


def test_shares_of_v1beta3(make_server: Callable[..., Server]) -> None:
    """In flowcontrol.apiserver.k8s.io/v1beta3, 0 shares mean 30 unless the annotation is there that
    a level of v1 with 0 shares gets."""
    api = make_server(emulated_version="1.31").api
    annotation = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
    response = {"type": "Reject"}
    level = {
        "metadata": {"name": "beta"},
        "spec": {"type": "Limited", "limited": {"limitResponse": response}},
    }
    limited = api.post(LEVELS.format("v1beta3"), level).json["spec"]["limited"]
    assert (limited["nominalConcurrencyShares"], limited["lendablePercent"]) == (30, 0)
    zero = {
        "metadata": {"name": "zero"},
        "spec": {
            "type": "Limited",
            "limited": {"limitResponse": response, "nominalConcurrencyShares": 0},
        },
    }
    assert api.post(LEVELS.format("v1"), zero).status == 201
    beta = api.get(f"{LEVELS.format('v1beta3')}/zero").json
    assert beta["metadata"]["annotations"] == {annotation: ""}
    assert beta["spec"]["limited"]["nominalConcurrencyShares"] == 0
    written = api.put(f"{LEVELS.format('v1beta3')}/zero", beta)
    assert written.json["spec"]["limited"]["nominalConcurrencyShares"] == 0
    stored = api.get(f"{LEVELS.format('v1')}/zero").json
    assert "annotations" not in stored["metadata"]
    assert stored["spec"]["limited"]["nominalConcurrencyShares"] == 0


_SINCE_36 = {"ConstrainedImpersonation", "UnknownVersionInteroperabilityProxy"}
"""Gates that are on since 1.36."""


@pytest.mark.parametrize(
    ("version", "off"),
    [
        ("1.31", {*_SINCE_36, "WatchList", "SizeBasedListCostEstimate"}),
        ("1.32", {*_SINCE_36, "SizeBasedListCostEstimate"}),
        ("1.33", {*_SINCE_36, "WatchList", "SizeBasedListCostEstimate"}),
        ("1.35", _SINCE_36),
        ("1.36", set()),
    ],
)
def test_feature_gates(version: str, off: set[str]) -> None:
    """A gate has the default of the release, also in TestServer; --feature-gates changes it."""
    off = off | {
        "AllowUnsafeMalformedObjectDeletion",
        "ExcludeAdmissionWebhookVirtualResources",
        "ManifestBasedAdmissionControlConfig",
    }
    if version != "1.36":
        off |= {"ComponentFlagz", "ComponentStatusz"}
    flags = ["serve", "--emulated-version", version]
    config = config_of(parser().parse_args(flags))
    assert config.features.feature_gates == DEFAULT_GATES - off
    assert (
        server_config(Path(), {"emulated_version": version}).features.feature_gates
        == DEFAULT_GATES - off
    )
    name = min(off)
    config = config_of(parser().parse_args([*flags, f"--feature-gates={name}=true"]))
    assert config.features.feature_gates == (DEFAULT_GATES - off) | {name}


def test_git_commit() -> None:
    """Clients expect a hexadecimal number (conformance test of `kubectl version`)."""
    assert re.fullmatch("[0-9a-f]{40}", version_info()["gitCommit"])
