"""Which versions and resources `--runtime-config` turns on and off."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from kapiserver.api.group import Group, GroupVersion
from kapiserver.apiserver.runtime_config import parse_runtime_config, resource_filter
from kapiserver.cli import parser
from kapiserver.server_config import config_of
from tests.apiserver.conftest import Server

BETA = GroupVersion("resource.k8s.io", "v1beta1")
ALPHA = GroupVersion("lifecycle.k8s.io", "v1alpha1")
STABLE = GroupVersion("apps", "v1")
CORE = GroupVersion("", "v1")

ON = [
    ("", {STABLE, CORE}),
    ("api/all=true", {STABLE, CORE, BETA, ALPHA}),
    ("api/beta=true", {STABLE, CORE, BETA}),
    ("api/alpha=true", {STABLE, CORE, ALPHA}),
    ("api/alpha=true,api/all=false", {ALPHA}),
    ("api/all=false,/v1=true", {CORE}),
    ("api/ga=false,apps/v1=true", {STABLE}),
    ("api/beta=true,resource.k8s.io/v1beta1=false", {STABLE, CORE}),
    ("resource.k8s.io/v1beta1", {STABLE, CORE, BETA}),
    ("resource.k8s.io/v1beta1=false, resource.k8s.io/v1beta1 = t", {STABLE, CORE, BETA}),
    ("extensions/v1beta1=true,apps/v1beta1=true", {STABLE, CORE}),
    ("apps/v1/things=false", set()),
    ("apps/v1=false,apps/v1/things=true", {STABLE, CORE}),
]


@pytest.mark.parametrize(("text", "on"), ON, ids=[text for text, _ in ON])
def test_versions(text: str, on: set[GroupVersion]) -> None:
    """The precedence is levels, then versions, then resources; the last value of a key wins."""
    serves = resource_filter(parse_runtime_config(text))
    served = {
        group_version
        for group_version in (CORE, STABLE, BETA, ALPHA)
        if serves(group_version, "things")
    }
    assert served == on if on else STABLE not in served


REFUSED = [
    ("api/all=false", "invalid key with only api/all=false"),
    ("api/beta=on", "invalid value api/beta=on"),
    ("api/beta", "invalid value api/beta="),
    ("v1=false", "runtime-config invalid key v1"),
    ("a/b/c/d=true", "runtime-config invalid key a/b/c/d"),
    ("example.com/v1=true,a.b/v1=true", "unknown api groups example.com,a.b"),
    ("apps/v7=true", "group version apps/v7 that has not been registered"),
    (
        "apps/v1=on",
        'invalid value of apps/v1: on, err: strconv.ParseBool: parsing "on": invalid syntax',
    ),
    (
        "apps/v1/Deployments=true",
        "invalid key apps/v1/Deployments: group/version/resource and resource is always lowercase "
        'plural, not "Deployments"',
    ),
]


@pytest.mark.parametrize(("text", "words"), REFUSED, ids=[text for text, _ in REFUSED])
def test_refused(text: str, words: str) -> None:
    """An invalid value is an error with kube-apiserver's message."""
    with pytest.raises(ValueError, match=re.escape(words)):
        resource_filter(parse_runtime_config(text))


def test_flag() -> None:
    """The flag can be repeated."""
    flags = ["serve", "--runtime-config=api/beta=true", "--runtime-config", "apps/v1=false"]
    assert (
        config_of(parser().parse_args(flags)).features.runtime_config
        == "api/beta=true,apps/v1=false"
    )


def _names(api, path: str) -> set[str]:
    return {resource["name"] for resource in api.get(path).json["resources"]}


def test_discovery_and_paths(own_server: Server) -> None:
    """A disabled version is missing from discovery and OpenAPI, and its paths are 404."""
    api = own_server.api
    groups = {group["name"]: group for group in api.get("/apis").json["groups"]}
    assert [version["version"] for version in groups["resource.k8s.io"]["versions"]] == ["v1"]
    assert "lifecycle.k8s.io" not in groups
    assert "resourcepoolstatusrequests" not in _names(api, "/apis/resource.k8s.io/v1")
    assert "leasecandidates" not in _names(api, "/apis/coordination.k8s.io/v1")
    for path in ("resource.k8s.io/v1beta1", "resource.k8s.io/v1beta1/deviceclasses"):
        response = api.get(f"/apis/{path}")
        assert (response.status, response.json["reason"]) == (404, "NotFound")
    response = api.get("/apis/lifecycle.k8s.io/v1alpha1/evictions")
    assert (response.status, response.body) == (404, b"404 page not found\n")
    documents = api.get("/openapi/v3").json["paths"]
    assert "apis/resource.k8s.io/v1" in documents
    assert "apis/resource.k8s.io/v1beta1" not in documents
    assert len(groups) == 21


def test_enabled_and_disabled_versions() -> None:
    """Enabled versions and resources are served, disabled ones are not. An object has the form of
    the version in which it is read."""
    settings = "api/beta=true,lifecycle.k8s.io/v1alpha1/evictions=true,apps/v1/daemonsets=false"
    server = Server(runtime_config=settings)
    try:
        api = server.api
        assert _names(api, "/apis/lifecycle.k8s.io/v1alpha1") == {"evictions", "evictions/status"}
        assert "daemonsets" not in _names(api, "/apis/apps/v1")
        assert api.get("/apis/apps/v1/daemonsets").status == 404
        path = "/apis/resource.k8s.io/{}/resourceslices"
        spec = {
            "driver": "d.example.com", "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu", "basic": {"attributes": {"a": {"int": 1}}}}],
        }  # fmt: skip
        slice_ = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceSlice", "spec": spec}
        created = api.post(path.format("v1beta1"), {**slice_, "metadata": {"name": "s"}})
        assert created.json["spec"]["devices"] == spec["devices"], created.json
        stable = api.get(path.format("v1") + "/s").json
        assert stable["apiVersion"] == "resource.k8s.io/v1"
        assert stable["spec"]["devices"] == [{"name": "gpu", "attributes": {"a": {"int": 1}}}]
    finally:
        server.end()


DEPRECATED = [
    ("/api/v1/componentstatuses", "v1 ComponentStatus is deprecated in v1.19+"),
    (
        "/api/v1/namespaces/default/endpoints",
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    (
        "/apis/resource.k8s.io/v1beta1/deviceclasses",
        "resource.k8s.io/v1beta1 DeviceClass is deprecated in v1.35+, unavailable in v1.38+",
    ),
    (
        "/apis/certificates.k8s.io/v1beta1/namespaces/a/podcertificaterequests/x/status",
        "certificates.k8s.io/v1beta1 PodCertificateRequest is deprecated in v1.37+, unavailable "
        "in v1.40+; use certificates.k8s.io/v1 PodCertificateRequest",
    ),
]


def test_deprecated_versions() -> None:
    """Responses to requests for a deprecated version have a warning; other responses have none."""
    server = Server(runtime_config="api/beta=true")
    try:
        for path, words in DEPRECATED:
            assert server.api.get(path).warnings == [f'299 - "{words}"']
        for path in ("/apis/resource.k8s.io/v1/deviceclasses", "/api/v1/nodes"):
            assert server.api.get(path).warnings == []
    finally:
        server.end()


def test_internal_objects_of_disabled_versions() -> None:
    """The server starts and becomes ready with the API versions of its own objects disabled."""
    server = Server(runtime_config="api/all=false,discovery.k8s.io/v1=true")
    try:
        assert server.api.get("/api/v1/namespaces").status == 404
        assert server.api.get("/apis/discovery.k8s.io/v1/endpointslices").status == 200
        assert server.api.get("/readyz").status == 200
    finally:
        server.end()


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def test_everything_can_be_listed() -> None:
    """With all versions enabled, every resource can be listed, as objects and as a table."""
    server = Server(runtime_config="api/all=true")
    try:
        api = server.api
        groups = api.get("/apis").json["groups"]
        versions = [
            f"/apis/{version['groupVersion']}" for group in groups for version in group["versions"]
        ]
        assert len(versions) == 35
        for path in ("/api/v1", *versions):
            for resource in api.get(path).json["resources"]:
                if "list" in resource["verbs"]:
                    objects = api.get(f"{path}/{resource['name']}").json
                    assert objects["kind"] == f"{resource['kind']}List", path
                    assert path.endswith(f"/{objects['apiVersion']}")
                    table = api.get(f"{path}/{resource['name']}", accept=TABLE).json
                    assert table["columnDefinitions"], path
    finally:
        server.end()


def test_all_versions_of_added_groups_are_on_unless_the_settings_turn_them_off() -> None:
    group = Group(name="dummy.example", package="dummy", versions=("v1", "v1alpha1"))
    settings = parse_runtime_config("api/alpha=false,dummy.example/v1=false")
    serves = resource_filter(settings, [group])
    assert serves(GroupVersion("dummy.example", "v1alpha1"), "computedoubles")
    assert not serves(GroupVersion("dummy.example", "v1"), "computedoubles")


def test_the_server_uses_resources_that_are_off(make_server: Callable[..., Server]) -> None:
    """The service `kubernetes` is there although ServiceCIDRs, from which it gets its address, are
    not served."""
    api = make_server(runtime_config="networking.k8s.io/v1=false").api
    assert api.get("/apis/networking.k8s.io/v1/servicecidrs").status == 404
    with api.watch("/api/v1/namespaces/default/services?watch=1") as stream:
        service = stream.event()["object"]
    assert service["metadata"]["name"] == "kubernetes"
    assert service["spec"]["clusterIP"] == "10.0.0.1"
