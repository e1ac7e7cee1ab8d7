"""What the server says that it serves."""

import pytest

from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.discovery.discovery import storage_version_hash
from kapiserver.apiserver.feature_gates import parse_feature_gates
from kapiserver.codecs.codec_factory import CodecFactory

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
KUBECTL = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
HASHES = {  # as a real cluster shows them
    ("", "pods"): "xPOwRZ+Yhw8=",
    ("", "configmaps"): "qFsyl6wFWjQ=",
    ("", "namespaces"): "Q3oi5N2YM8M=",
    ("", "nodes"): "XwShjMxG9Fs=",
    ("", "secrets"): "S6u1pOWzb84=",
    ("apps", "deployments"): "8aSe+NMegvE=",
}


def test_versions(api) -> None:
    """/api lists the versions of the core group, without an apiVersion of its own."""
    found = api.get("/api").json
    assert list(found) == ["kind", "versions", "serverAddressByClientCIDRs"]
    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])


def test_groups(api) -> None:
    """/apis lists all groups but the core one, /apis/G is one of them."""
    found = api.get("/apis").json
    assert (found["kind"], found["apiVersion"]) == ("APIGroupList", "v1")
    names = [group["name"] for group in found["groups"]]
    assert {"apps", "autoscaling", "coordination.k8s.io"} <= set(names)
    assert "" not in names
    (autoscaling,) = [group for group in found["groups"] if group["name"] == "autoscaling"]
    assert autoscaling["preferredVersion"] == {"groupVersion": "autoscaling/v2", "version": "v2"}
    one = api.get("/apis/autoscaling").json
    assert one == {"kind": "APIGroup", "apiVersion": "v1"} | autoscaling


def test_core_resources(api) -> None:
    """/api/v1 lists resources and subresources."""
    found = api.get("/api/v1").json
    assert list(found) == ["kind", "groupVersion", "resources"]
    by_name = {one["name"]: one for one in found["resources"]}
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


def test_subresources_of_another_kind(api) -> None:
    """A subresource whose body is another group's kind says which."""
    found = api.get("/apis/apps/v1").json
    assert (found["apiVersion"], found["groupVersion"]) == ("v1", "apps/v1")
    (scale,) = [one for one in found["resources"] if one["name"] == "deployments/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_aggregated(api, path: str, version: str) -> None:
    """One request tells all, and costs nothing when nothing changed."""
    accept = AGGREGATED.format(version)
    response = api.get(path, accept=accept)
    assert response.status == 200
    assert response.headers["Content-Type"] == accept
    assert response.headers["Vary"] == "Accept"
    found = response.json
    assert found["kind"] == "APIGroupDiscoveryList"
    assert found["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    groups = {one["metadata"].get("name", ""): one["versions"] for one in found["items"]}
    assert ("" in groups) == (path == "/api")
    again = api.get(path, accept=accept, headers={"If-None-Match": response.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
@pytest.mark.parametrize(
    "media",
    ["application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor"],
)
@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_aggregated_encodings(api, path: str, media: str, version: str) -> None:
    """Every encoding tells the same, under a hash of its own."""
    accept = AGGREGATED.format(version).replace("application/json", media)
    response = api.get(path, accept=accept)
    assert (response.status, response.headers["Content-Type"]) == (200, accept)
    codecs = CodecFactory(Scheme())
    found = codecs.universal_deserializer.decode(response.body).object
    plain = api.get(path, accept=AGGREGATED.format(version))
    told = codecs.universal_deserializer.decode(plain.body).object
    assert found["items"] == told["items"]
    assert (found["kind"], found["apiVersion"]) == (told["kind"], told["apiVersion"])
    again = api.get(path, accept=accept, headers={"If-None-Match": response.headers["ETag"]})
    assert again.status == 304
    assert again.headers["ETag"] == response.headers["ETag"]


def test_address(api) -> None:
    """/api says where a client reaches the server: where this one did."""
    (address,) = api.get("/api").json["serverAddressByClientCIDRs"]
    assert address == {"clientCIDR": "0.0.0.0/0", "serverAddress": f"127.0.0.1:{api.port}"}


def test_every_resource_is_told_in_both_forms(api) -> None:
    """The lists of versions and the aggregated form name the same resources, verbs and kinds."""
    for root in ("/api", "/apis"):
        for group in api.get(root, accept=KUBECTL).json["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                path = f"/apis/{name}/{version['version']}" if name else "/api/v1"
                listed = {one["name"]: one for one in api.get(path).json["resources"]}
                told = {}
                for one in version["resources"]:
                    told[one["resource"]] = one
                    told |= {
                        f"{one['resource']}/{below['subresource']}": below
                        for below in one.get("subresources", [])
                    }
                assert listed.keys() == told.keys()
                for key, one in told.items():
                    assert one["verbs"] == listed[key]["verbs"]
                    assert one["responseKind"]["kind"] == listed[key]["kind"]
                    if "/" not in key:
                        assert one["singularResource"] == listed[key]["singularName"] != ""


def test_aggregated_resources(api) -> None:
    """A resource has its scope, verbs and subresources."""
    found = api.get("/apis", accept=KUBECTL).json
    (apps,) = [one for one in found["items"] if one["metadata"]["name"] == "apps"]
    (version,) = apps["versions"]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    (deployments,) = [one for one in version["resources"] if one["resource"] == "deployments"]
    assert deployments["scope"] == "Namespaced"
    assert deployments["singularResource"] == "deployment"
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
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
    """The documents are objects and come in every encoding."""
    response = api.get(path, accept=accept)
    assert (response.status, response.headers["Content-Type"]) == (200, accept)
    assert response.body.startswith(prefix)


def test_without_cbor(make_server) -> None:
    """Where the gate of CBOR is off, no document comes so."""
    gates = parse_feature_gates("CBORServingAndStorage=false")
    api = make_server(feature_gates=gates).api
    aggregated = AGGREGATED.format("v2").replace("json", "cbor")
    for path, accept in (("/apis", "application/cbor"), ("/apis", aggregated),
                         ("/apis/apps/v1", "application/cbor")):  # fmt: skip
        assert api.get(path, accept=accept).status == 406
    assert api.get("/apis", accept=f"{aggregated},{AGGREGATED.format('v2')}").status == 200


def test_not_acceptable(api) -> None:
    """What nobody offers is 406."""
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
    """An unknown group is a page that is not there, an unknown resource a Status."""
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
        ("POST", "/apis"),
        ("POST", "/version"),
    ],
)
def test_unsupported_verbs(api, method: str, path: str) -> None:
    """A verb that a path does not take is 405."""
    response = api(method, path)
    assert response.status == 405
    assert response.json["reason"] == "MethodNotAllowed"
    assert response.message == "the server does not allow this method on the requested resource"


def test_storage_version_hashes() -> None:
    """Hashes are those that a real cluster shows."""
    scheme = Scheme()
    found = {
        (resource.group, resource.name): storage_version_hash(resource)
        for group in scheme.groups
        for resource in scheme.resources(group.name)
    }
    assert HASHES.items() <= found.items()
