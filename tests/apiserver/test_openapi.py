"""The OpenAPI documents: what kubectl validates and explains with."""

import asyncio
import json
import re
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV30SpecValidator

from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.discovery.openapi_documents import OpenAPIDocuments
from kapiserver.apiserver.feature_gates import parse_feature_gates
from tests.apiserver import gnostic, openapi_digest

GROUP_VERSIONS = ("api/v1", "apis/apps/v1", "apis/autoscaling/v1", "apis/autoscaling/v2",
                  "apis/coordination.k8s.io/v1")  # fmt: skip
OPERATIONS = ("get", "put", "post", "patch", "delete")


@pytest.fixture(scope="module")
def documents(api) -> dict:
    """All v3 documents, fetched as kubectl does: by the URLs of the index."""
    index = api.get("/openapi/v3").json["paths"]
    return {path: api.get(entry["serverRelativeURL"]).json for path, entry in index.items()}


@pytest.fixture(scope="module")
def core(documents: dict) -> dict:
    """The document of the core group."""
    return documents["api/v1"]


def test_every_version_has_one(documents: dict) -> None:
    """The index names a document for every group-version."""
    assert set(GROUP_VERSIONS) <= documents.keys()
    assert {one["openapi"] for one in documents.values()} == {"3.0.0"}


def test_a_hashed_url_is_kept_for_ever(api) -> None:
    """A URL with the hash of its content may be kept; the same content is 304."""
    url = api.get("/openapi/v3").json["paths"]["api/v1"]["serverRelativeURL"]
    response = api.get(url)
    assert "immutable" in response.headers["Cache-Control"]
    again = api.get("/openapi/v3/api/v1", headers={"If-None-Match": response.headers["ETag"]})
    assert again.status == 304


def test_references_lead_somewhere(documents: dict) -> None:
    """Every $ref of a document names a schema of the same document."""
    for path, document in documents.items():
        found = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
        assert found <= document["components"]["schemas"].keys(), path


def test_operations_are_told_apart(documents: dict) -> None:
    """No two operations share an id, and each knows its kind."""
    for document in documents.values():
        found = [
            operation
            for path in document["paths"].values()
            for method, operation in path.items()
            if method in OPERATIONS
        ]
        ids = [operation["operationId"] for operation in found]
        assert len(ids) == len(set(ids))
        about_objects = [one for one in found if "x-kubernetes-action" in one]
        assert all("x-kubernetes-group-version-kind" in one for one in about_objects)


def test_operation_ids(core: dict) -> None:
    """Operations are named as generated clients know them."""
    paths = core["paths"]
    collection = paths["/api/v1/namespaces/{namespace}/pods"]
    item = paths["/api/v1/namespaces/{namespace}/pods/{name}"]
    assert collection["get"]["operationId"] == "listCoreV1NamespacedPod"
    assert collection["post"]["operationId"] == "createCoreV1NamespacedPod"
    assert collection["delete"]["operationId"] == "deleteCoreV1CollectionNamespacedPod"
    assert item["get"]["operationId"] == "readCoreV1NamespacedPod"
    assert item["put"]["operationId"] == "replaceCoreV1NamespacedPod"
    assert paths["/api/v1/pods"]["get"]["operationId"] == "listCoreV1PodForAllNamespaces"


@pytest.mark.parametrize("name", ["fieldValidation", "dryRun"])
def test_what_kubectl_looks_for(documents: dict, name: str) -> None:
    """Every PATCH takes fieldValidation and dryRun: kubectl looks for them by kind."""
    for document in documents.values():
        for path in document["paths"].values():
            if "patch" in path and path["patch"]["x-kubernetes-action"] == "patch":
                assert name in [one["name"] for one in path["patch"]["parameters"]]


@pytest.mark.parametrize(
    ("document", "path", "method", "id", "parameters"),
    [
        ("api/v1", "/api/v1/", "get", "getCoreV1APIResources", ""),
        ("api/v1", "/api/v1/namespaces/{namespace}/pods/{name}/eviction", "post",
         "createCoreV1NamespacedPodEviction",
         "dryRun fieldManager fieldValidation name namespace pretty"),
        ("api/v1", "/api/v1/namespaces/{namespace}/pods/{name}/proxy/{path}", "head",
         "connectCoreV1HeadNamespacedPodProxyWithPath", "name namespace path path"),
        ("api/v1", "/api/v1/namespaces/{namespace}/pods/{name}/exec", "get",
         "connectCoreV1GetNamespacedPodExec",
         "command container name namespace stderr stdin stdout tty"),
        ("api/v1", "/api/v1/watch/namespaces/{namespace}/pods/{name}", "get",
         "watchCoreV1NamespacedPod",
         "allowWatchBookmarks continue fieldSelector labelSelector limit name namespace pretty "
         "resourceVersion resourceVersionMatch sendInitialEvents shardSelector timeoutSeconds "
         "watch"),
        ("apis/apps/v1", "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale", "patch",
         "patchAppsV1NamespacedDeploymentScale",
         "dryRun fieldManager fieldValidation force name namespace pretty"),
        ("apis/rbac.authorization.k8s.io", "/apis/rbac.authorization.k8s.io/", "get",
         "getRbacAuthorizationAPIGroup", ""),
        ("version", "/version/", "get", "getCodeVersion", ""),
    ],
)  # fmt: skip
def test_operations(
    documents: dict, document: str, path: str, method: str, id: str, parameters: str
) -> None:
    """Each path has its operations, named as kube-apiserver names them, with its parameters."""
    item = documents[document]["paths"][path]
    assert item[method]["operationId"] == id
    found = item.get("parameters", []) + item[method].get("parameters", [])
    assert sorted(one["name"] for one in found) == parameters.split()


def test_kinds(core: dict) -> None:
    """A kind's schema says which kind it is."""
    pod = core["components"]["schemas"]["io.k8s.api.core.v1.Pod"]
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    assert pod["x-kubernetes-group-version-kind"] == [kind]
    assert list(pod["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]
    options = core["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]
    groups = {one["group"] for one in options["x-kubernetes-group-version-kind"]}
    assert {"", "apps", "autoscaling"} <= groups


def test_lists(core: dict) -> None:
    """A list says how it merges."""
    spec = core["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]
    assert {key: value for key, value in spec["volumes"].items() if key.startswith("x-")} == {
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-list-type": "map",
        "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-patch-strategy": "merge,retainKeys",
    }


def test_leaves(core: dict) -> None:
    """Quantities, times and the like are values with a schema of their own."""
    schemas = core["components"]["schemas"]
    assert schemas["io.k8s.apimachinery.pkg.apis.meta.v1.Time"]["format"] == "date-time"
    assert "oneOf" in schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]


def test_version_two(api) -> None:
    """One Swagger document has it all; every $ref leads somewhere."""
    document = api.get("/openapi/v2").json
    assert document["swagger"] == "2.0"
    found = set(re.findall(r'"#/definitions/([^"]+)"', json.dumps(document)))
    assert found <= document["definitions"].keys()
    assert "io.k8s.api.apps.v1.Deployment" in found
    integer_or_string = document["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]
    assert integer_or_string["format"] == "int-or-string"
    assert '"oneOf": [' not in json.dumps(document)


@pytest.mark.parametrize("path", ["/openapi", "/openapi/v4", "/openapi/v3/apis/nothing/v1"])
def test_unknown_documents(api, path: str) -> None:
    """There is no other document."""
    assert api.get(path).status == 404


PROTOBUF = "application/com.github.proto-openapi.spec.{}{}v1.0+protobuf"


def test_negotiation(api) -> None:
    """The documents come as JSON and Protobuf; who takes nothing of that is told so."""
    assert api.get("/openapi/v2", accept="application/x-other").status == 406
    assert api.get("/openapi/v2", accept="application/x-other, */*").status == 200
    for mark in "@.":
        response = api.get("/openapi/v2", accept=PROTOBUF.format("v2", mark))
        assert response.headers["Content-Type"] == PROTOBUF.format("v2", ".")
        assert response.headers["Vary"] == "Accept"
    assert api.get("/openapi/v2", accept=PROTOBUF.format("v3", ".")).status == 406


def test_protobuf(api) -> None:
    """Google's runtime reads the same document out of the message."""
    message = api.get("/openapi/v2", accept=PROTOBUF.format("v2", "@")).body
    assert gnostic.decode(message, gnostic.V2) == api.get("/openapi/v2").json


@pytest.mark.parametrize("path", ["apis/apps/v1", "apis/apiextensions.k8s.io/v1", "version"])
def test_protobuf_v3(api, documents: dict, path: str) -> None:
    """The same of v3, but for defaults that are objects, for which its messages have no room."""
    message = api.get(f"/openapi/v3/{path}", accept=PROTOBUF.format("v3", ".")).body
    assert gnostic.decode(message, gnostic.V3) == _without_objects(documents[path])


def _without_objects(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_without_objects(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        key: _without_objects(one) for key, one in tree.items() if (key, one) != ("default", {})
    }


def test_hashes_and_dates(api) -> None:
    """A hash that is known, or a date that is not past, is answered with 304; a URL with another
    hash leads to the right one."""
    response = api.get("/openapi/v2")
    for name, header in (("If-None-Match", "ETag"), ("If-Modified-Since", "Last-Modified")):
        again = api.get("/openapi/v2", headers={name: response.headers[header]})
        assert (again.status, again.body) == (304, b"")
    url = api.get("/openapi/v3").json["paths"]["version"]["serverRelativeURL"]
    assert "Expires" in api.get(url).headers
    moved = api.get("/openapi/v3/version?hash=0123")
    assert (moved.status, moved.headers["Location"]) == (301, url)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("api/v1", marks=pytest.mark.slow),
        pytest.param("apis/apps/v1", marks=pytest.mark.slow),
        "apis/policy/v1",
        "apis/autoscaling/v2",
    ],
)
def test_valid_v3(documents: dict, path: str) -> None:
    """A public validator finds nothing wrong. Defaults are left out: as kube-apiserver's, `{}`
    stands for a struct of which some fields are required."""

    def bare(tree: Any) -> Any:
        if isinstance(tree, list):
            return [bare(one) for one in tree]
        if not isinstance(tree, dict):
            return tree
        return {key: bare(one) for key, one in tree.items() if key != "default"}

    OpenAPIV30SpecValidator(bare(documents[path])).validate()


@pytest.mark.slow
def test_valid_v2(api) -> None:
    """A public validator finds nothing wrong in the document of all."""
    OpenAPIV2SpecValidator(api.get("/openapi/v2").json).validate()


def test_without_cbor(make_server) -> None:
    """Where the gate of CBOR is off, the documents do not speak of it."""
    api = make_server(feature_gates=parse_feature_gates("CBORServingAndStorage=false")).api
    for path in ("/openapi/v2", "/openapi/v3/apis/apps/v1"):
        assert b"/cbor" not in api.get(path).body
        assert b"+cbor" not in api.get(path).body


def test_made_once() -> None:
    """A document that several wait for is made once, and comes although one of them left."""

    async def run() -> None:
        documents = OpenAPIDocuments(Scheme(), lambda: 0.0)
        first, second = (asyncio.ensure_future(documents.v2()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        document = await second
        assert await documents.v2() is document

    asyncio.run(run())


def test_golden_files() -> None:
    """What the API says of itself changes on purpose alone: write the files anew with
    `python -m tests.apiserver.openapi_digest`, and read their diff."""
    golden = {one.name: one.read_text() for one in openapi_digest.FOLDER.glob("*.txt")}
    found = openapi_digest.digests()
    assert golden.keys() == found.keys()
    for name, text in found.items():
        assert text.splitlines() == golden[name].splitlines(), name
