"""Discovery: groups, versions and resources."""

import pytest

from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.discovery.discovery import storage_version_hash
from kapiserver.apiserver.feature_gates import parse_feature_gates
from kapiserver.codecs.codec_factory import CodecFactory

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
KUBECTL = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
HASHES = {  # as in a cluster of the same version
    ("", "pods"): "xPOwRZ+Yhw8=",
    ("", "configmaps"): "qFsyl6wFWjQ=",
    ("", "namespaces"): "Q3oi5N2YM8M=",
    ("", "nodes"): "XwShjMxG9Fs=",
    ("", "secrets"): "S6u1pOWzb84=",
    ("apps", "deployments"): "8aSe+NMegvE=",
}


def test_versions(api) -> None:
    """/api lists the versions of the core group, without an apiVersion of its own."""
    versions = api.get("/api").json
    assert list(versions) == ["kind", "versions", "serverAddressByClientCIDRs"]
    assert (versions["kind"], versions["versions"]) == ("APIVersions", ["v1"])


def test_groups(api) -> None:
    """/apis lists all groups except the core group; /apis/GROUP is one of them."""
    groups = api.get("/apis").json
    assert (groups["kind"], groups["apiVersion"]) == ("APIGroupList", "v1")
    names = [group["name"] for group in groups["groups"]]
    assert {"apps", "autoscaling", "coordination.k8s.io"} <= set(names)
    assert "" not in names
    (autoscaling,) = [group for group in groups["groups"] if group["name"] == "autoscaling"]
    assert autoscaling["preferredVersion"] == {"groupVersion": "autoscaling/v2", "version": "v2"}
    group_ = api.get("/apis/autoscaling").json
    assert group_ == {"kind": "APIGroup", "apiVersion": "v1"} | autoscaling


def test_core_resources(api) -> None:
    """/api/v1 lists resources and subresources."""
    resource_list = api.get("/api/v1").json
    assert list(resource_list) == ["kind", "groupVersion", "resources"]
    by_name = {resource["name"]: resource for resource in resource_list["resources"]}
    assert by_name["pods"] == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update",
                  "watch"],
        "shortNames": ["po"],
        "categories": ["all"],
        "storageVersionHash": "xPOwRZ+Yhw8=",
    }  # fmt: skip
    assert by_name["pods/status"] == {
        "name": "pods/status",
        "singularName": "",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["get", "patch", "update"],
    }


def test_subresource_with_kind_of_another_group(api) -> None:
    """A subresource whose kind belongs to another group names the group and the version."""
    resource_list = api.get("/apis/apps/v1").json
    assert (resource_list["apiVersion"], resource_list["groupVersion"]) == ("v1", "apps/v1")
    (scale,) = [
        resource
        for resource in resource_list["resources"]
        if resource["name"] == "deployments/scale"
    ]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_aggregated(api, path: str) -> None:
    """Aggregated discovery returns everything in one response, and 304 if nothing changed."""
    accept = AGGREGATED
    response = api.get(path, accept=accept)
    assert response.status == 200
    assert response.headers["Content-Type"] == accept
    assert response.headers["Vary"] == "Accept"
    discovery = response.json
    assert discovery["kind"] == "APIGroupDiscoveryList"
    assert discovery["apiVersion"] == "apidiscovery.k8s.io/v2"
    groups = {item["metadata"].get("name", ""): item["versions"] for item in discovery["items"]}
    assert ("" in groups) == (path == "/api")
    unchanged = api.get(path, accept=accept, headers={"If-None-Match": response.headers["ETag"]})
    assert (unchanged.status, unchanged.body) == (304, b"")


@pytest.mark.parametrize(
    "media",
    ["application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor"],
)
@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_aggregated_encodings(api, path: str, media: str) -> None:
    """Every encoding has the same content and an ETag."""
    accept = AGGREGATED.replace("application/json", media)
    response = api.get(path, accept=accept)
    assert (response.status, response.headers["Content-Type"]) == (200, accept)
    codecs = CodecFactory(Scheme())
    discovery = codecs.universal_deserializer.decode(response.body).object
    plain = api.get(path, accept=AGGREGATED)
    json_discovery = codecs.universal_deserializer.decode(plain.body).object
    assert discovery["items"] == json_discovery["items"]
    assert (discovery["kind"], discovery["apiVersion"]) == (
        json_discovery["kind"],
        json_discovery["apiVersion"],
    )
    unchanged = api.get(path, accept=accept, headers={"If-None-Match": response.headers["ETag"]})
    assert unchanged.status == 304
    assert unchanged.headers["ETag"] == response.headers["ETag"]


def test_server_address(api) -> None:
    """/api names the address at which the client reached the server."""
    (address,) = api.get("/api").json["serverAddressByClientCIDRs"]
    assert address == {"clientCIDR": "0.0.0.0/0", "serverAddress": f"127.0.0.1:{api.port}"}


def test_legacy_and_aggregated_discovery_agree(api) -> None:
    """Resource lists and aggregated discovery have the same resources, verbs and kinds."""
    for root in ("/api", "/apis"):
        for group in api.get(root, accept=KUBECTL).json["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                path = f"/apis/{name}/{version['version']}" if name else "/api/v1"
                listed = {item["name"]: item for item in api.get(path).json["resources"]}
                aggregated = {}
                for resource in version["resources"]:
                    aggregated[resource["resource"]] = resource
                    aggregated |= {
                        f"{resource['resource']}/{below['subresource']}": below
                        for below in resource.get("subresources", [])
                    }
                assert listed.keys() == aggregated.keys()
                for key, entry in aggregated.items():
                    assert entry["verbs"] == listed[key]["verbs"]
                    assert entry["responseKind"]["kind"] == listed[key]["kind"]
                    if "/" not in key:
                        assert entry["singularResource"] == listed[key]["singularName"] != ""


def test_aggregated_resources(api) -> None:
    """A resource has its scope, verbs and subresources."""
    discovery = api.get("/apis", accept=KUBECTL).json
    (apps,) = [item for item in discovery["items"] if item["metadata"]["name"] == "apps"]
    (version,) = apps["versions"]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    (deployments,) = [
        resource for resource in version["resources"] if resource["resource"] == "deployments"
    ]
    assert deployments["scope"] == "Namespaced"
    assert deployments["singularResource"] == "deployment"
    kind = {"group": "", "version": "", "kind": "Deployment"}
    assert deployments["responseKind"] == kind
    scale, status = deployments["subresources"]
    assert (scale["subresource"], scale["responseKind"]["kind"]) == ("scale", "Scale")
    assert (status["subresource"], status["responseKind"]) == ("status", kind)


@pytest.mark.parametrize(
    ("accept", "prefix"),
    [
        ("application/yaml", b"apiVersion: v1\n"),
        ("application/vnd.kubernetes.protobuf", b"k8s\0"),
        ("application/cbor", b"\xd9\xd9\xf7"),
    ],
)
@pytest.mark.parametrize("path", ["/apis", "/apis/apps", "/apis/apps/v1"])
def test_other_encodings(api, path: str, accept: str, prefix: bytes) -> None:
    """Discovery documents come in every encoding."""
    response = api.get(path, accept=accept)
    assert (response.status, response.headers["Content-Type"]) == (200, accept)
    assert response.body.startswith(prefix)


def test_without_cbor(make_server) -> None:
    """Without the feature gate, discovery is not served in CBOR."""
    gates = parse_feature_gates("CBORServingAndStorage=false")
    api = make_server(feature_gates=gates).api
    aggregated = AGGREGATED.replace("json", "cbor")
    for path, accept in (("/apis", "application/cbor"), ("/apis", aggregated),
                         ("/apis/apps/v1", "application/cbor")):  # fmt: skip
        assert api.get(path, accept=accept).status == 406
    assert api.get("/apis", accept=f"{aggregated},{AGGREGATED}").status == 200


def test_not_acceptable(api) -> None:
    """An unknown media type is a 406."""
    response = api.get("/apis", accept="image/png")
    assert (response.status, response.json["reason"]) == (406, "NotAcceptable")


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/apis/unknown", 404, "404 page not found\n"),
        ("/apis/unknown/v1", 404, "404 page not found\n"),
        ("/apis/unknown/v1/things", 404, "404 page not found\n"),
        ("/nothing", 404, "404 page not found\n"),
        ("/apis/apps/v9", 404, None),
        ("/api/v9", 404, None),
        ("/api/v1/unknowns", 404, None),
        ("/apis/apps/v1/namespaces/x/unknowns/y", 404, None),
        ("/api/v1/namespaces/x/pods/y/unknown", 404, None),
        ("/api/v1/namespaces/x/nodes", 404, None),
        ("/api/v1/pods/y", 404, None),
    ],
)
def test_unknown_paths(api, path: str, status: int, text: str | None) -> None:
    """An unknown group is a plain 404; an unknown resource is a Status."""
    response = api.get(path)
    assert response.status == status
    if text is not None:
        assert response.body.decode() == text
        assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
        return
    assert response.body == (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        b'"message":"the server could not find the requested resource",'
        b'"reason":"NotFound","details":{},"code":404}\n'
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/api/v1/pods"),
        ("POST", "/api/v1/namespaces/default/pods/x"),
        ("POST", "/api/v1/namespaces/default/pods/x/status"),
        ("DELETE", "/api/v1/namespaces"),
        ("POST", "/api/v1/pods"),
        ("OPTIONS", "/api/v1/pods"),
        ("POST", "/api"),
        ("POST", "/version"),
    ],
)
def test_unsupported_verbs(api, method: str, path: str) -> None:
    """A verb that the path does not support is a 405."""
    response = api(method, path)
    assert response.status == 405
    assert response.json["reason"] == "MethodNotAllowed"
    assert response.message == "the server does not allow this method on the requested resource"


def test_storage_version_hashes() -> None:
    """Storage version hashes equal those of kube-apiserver."""
    scheme = Scheme()
    resource_hashes = {
        (resource.group, resource.name): storage_version_hash(resource)
        for group in scheme.groups
        for resource in scheme.resources(group.name)
    }
    assert HASHES.items() <= resource_hashes.items()
