"""The OpenAPI documents, which kubectl uses for validation and `kubectl explain`."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV30SpecValidator

from kapiserver.api.custom_kinds import CustomKinds, Definition
from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.discovery.openapi_documents import (
    PAUSE_SECONDS,
    USED_SECONDS,
    OpenAPIDocuments,
)
from kapiserver.apiserver.feature_gates import parse_feature_gates
from kapiserver.storage.concurrency.subscriptions import Subscribers
from tests.apiserver.conftest import Server
from tests.apiserver.customresources.customkit import definition, establish, version
from tests.apiserver.discovery import gnostic, openapi_digest
from tests.clock import ManualClock

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


def test_index_of_documents(documents: dict) -> None:
    """The index lists a document for every group-version."""
    assert set(GROUP_VERSIONS) <= documents.keys()
    assert {document["openapi"] for document in documents.values()} == {"3.0.0"}


def test_hashed_url_is_cacheable(api) -> None:
    """A URL with the content's hash is immutable; a matching ETag gives 304."""
    url = api.get("/openapi/v3").json["paths"]["api/v1"]["serverRelativeURL"]
    response = api.get(url)
    assert "immutable" in response.headers["Cache-Control"]
    unchanged = api.get("/openapi/v3/api/v1", headers={"If-None-Match": response.headers["ETag"]})
    assert unchanged.status == 304


def test_references_resolve(documents: dict) -> None:
    """Every $ref names a schema of the same document."""
    for path, document in documents.items():
        references = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
        assert references <= document["components"]["schemas"].keys(), path


def test_operation_ids_are_unique(documents: dict) -> None:
    """Operation ids are unique, and operations on objects have their kind."""
    for document in documents.values():
        operations = [
            operation
            for path in document["paths"].values()
            for method, operation in path.items()
            if method in OPERATIONS
        ]
        ids = [operation["operationId"] for operation in operations]
        assert len(ids) == len(set(ids))
        about_objects = [item for item in operations if "x-kubernetes-action" in item]
        assert all("x-kubernetes-group-version-kind" in item for item in about_objects)


def test_operation_ids(core: dict) -> None:
    """Operation ids are those that generated clients use."""
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
def test_patch_parameters_for_kubectl(documents: dict, name: str) -> None:
    """Every PATCH has the parameters fieldValidation and dryRun, which kubectl looks up by kind."""
    for document in documents.values():
        for path in document["paths"].values():
            if "patch" in path and path["patch"]["x-kubernetes-action"] == "patch":
                assert name in [parameter["name"] for parameter in path["patch"]["parameters"]]


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
    """Each path has its operations with kube-apiserver's ids and parameters."""
    item = documents[document]["paths"][path]
    assert item[method]["operationId"] == id
    all_parameters = item.get("parameters", []) + item[method].get("parameters", [])
    assert sorted(parameter["name"] for parameter in all_parameters) == parameters.split()


def test_kinds(core: dict) -> None:
    """The schema of a kind has its group, version and kind; kinds of all versions have those of the
    document and of the core group."""
    pod = core["components"]["schemas"]["io.k8s.api.core.v1.Pod"]
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    assert pod["x-kubernetes-group-version-kind"] == [kind]
    assert list(pod["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]
    options = core["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]
    groups = [item["group"] for item in options["x-kubernetes-group-version-kind"]]
    assert groups == [""]


def test_lists(core: dict) -> None:
    """The schema of a list field has its merge strategy."""
    spec = core["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]
    assert {key: value for key, value in spec["volumes"].items() if key.startswith("x-")} == {
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-list-type": "map",
        "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-patch-strategy": "merge,retainKeys",
    }


def test_scalar_types(core: dict) -> None:
    """Quantities, times and similar types have a schema of their own."""
    schemas = core["components"]["schemas"]
    assert schemas["io.k8s.apimachinery.pkg.apis.meta.v1.Time"]["format"] == "date-time"
    assert "oneOf" in schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]


def test_v2(api) -> None:
    """The v2 document contains all definitions, and every $ref resolves."""
    document = api.get("/openapi/v2").json
    assert document["swagger"] == "2.0"
    references = set(re.findall(r'"#/definitions/([^"]+)"', json.dumps(document)))
    assert references <= document["definitions"].keys()
    assert "io.k8s.api.apps.v1.Deployment" in references
    integer_or_string = document["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]
    assert integer_or_string["format"] == "int-or-string"
    assert '"oneOf": [' not in json.dumps(document)


@pytest.mark.parametrize("path", ["/openapi", "/openapi/v4", "/openapi/v3/apis/nothing/v1"])
def test_unknown_documents(api, path: str) -> None:
    """Unknown OpenAPI paths are a 404."""
    assert api.get(path).status == 404


PROTOBUF = "application/com.github.proto-openapi.spec.{}{}v1.0+protobuf"


def test_negotiation(api) -> None:
    """The documents come as JSON and as Protobuf; other media types are a 406."""
    assert api.get("/openapi/v2", accept="application/x-other").status == 406
    assert api.get("/openapi/v2", accept="application/x-other, */*").status == 200
    for mark in "@.":
        response = api.get("/openapi/v2", accept=PROTOBUF.format("v2", mark))
        assert response.headers["Content-Type"] == PROTOBUF.format("v2", ".")
        assert response.headers["Vary"] == "Accept"
    assert api.get("/openapi/v2", accept=PROTOBUF.format("v3", ".")).status == 406


def test_protobuf(api) -> None:
    """The v2 document in Protobuf, decoded by Google's runtime, equals the JSON document."""
    message = api.get("/openapi/v2", accept=PROTOBUF.format("v2", "@")).body
    assert gnostic.decode(message, gnostic.V2) == api.get("/openapi/v2").json


@pytest.mark.parametrize("path", ["apis/apps/v1", "apis/apiextensions.k8s.io/v1", "version"])
def test_protobuf_v3(api, documents: dict, path: str) -> None:
    """The v3 documents in Protobuf equal those in JSON, except for defaults that are objects: the
    messages have no field for them."""
    message = api.get(f"/openapi/v3/{path}", accept=PROTOBUF.format("v3", ".")).body
    assert gnostic.decode(message, gnostic.V3) == _without_objects(documents[path])


def _without_objects(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_without_objects(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        key: _without_objects(value)
        for key, value in tree.items()
        if (key, value) != ("default", {})
    }


def test_hashes_and_dates(api) -> None:
    """A matching ETag or a current date gives 304; a URL with an outdated hash redirects."""
    response = api.get("/openapi/v2")
    for name, header in (("If-None-Match", "ETag"), ("If-Modified-Since", "Last-Modified")):
        unchanged = api.get("/openapi/v2", headers={name: response.headers[header]})
        assert (unchanged.status, unchanged.body) == (304, b"")
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
    """A public validator accepts the documents. Defaults are removed first: as in kube-apiserver,
    `{}` is the default of structs with required fields."""

    def bare(tree: Any) -> Any:
        if isinstance(tree, list):
            return [bare(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        return {key: bare(value) for key, value in tree.items() if key != "default"}

    OpenAPIV30SpecValidator(bare(documents[path])).validate()


@pytest.mark.slow
def test_valid_v2(api) -> None:
    """A public validator accepts the v2 document."""
    OpenAPIV2SpecValidator(api.get("/openapi/v2").json).validate()


def test_without_cbor(make_server) -> None:
    """Without the feature gate, the documents do not mention CBOR."""
    api = make_server(feature_gates=parse_feature_gates("CBORServingAndStorage=false")).api
    for path in ("/openapi/v2", "/openapi/v3/apis/apps/v1"):
        assert b"/cbor" not in api.get(path).body
        assert b"+cbor" not in api.get(path).body


def test_concurrent_requests_build_once() -> None:
    """Concurrent requests build a document once, even if one of them is cancelled."""

    async def run() -> None:
        documents = OpenAPIDocuments(Scheme(), lambda: 0.0)
        cancelled, request = (asyncio.ensure_future(documents.v2()) for _ in range(2))
        await asyncio.sleep(0)
        cancelled.cancel()
        document = await request
        assert await documents.v2() is document

    asyncio.run(run())


@pytest.mark.parametrize("idle", [0.0, 2 * USED_SECONDS], ids=["recently", "long ago"])
def test_v2_is_built_in_advance(idle: float) -> None:
    """Soon after a definition has changed, the v2 document is built, if a client has asked for it
    recently. Further changes do not put that off."""

    async def run() -> None:
        clock, scheme = ManualClock(), Scheme()
        subscribers = Subscribers[Callable[[Sequence[str]], None]]()
        documents = OpenAPIDocuments(scheme, clock.now)
        for _ in range(2):
            documents.prepare_v2_after(subscribers.subscribe, clock)
        await documents.v2()
        clock.advance(idle)
        _serve(scheme, definition(version()))
        changed_at = clock.now()
        for _ in range(2):
            for on_changed in subscribers:
                on_changed(["widgets.example.com"])
            clock.advance(0.6 * PAUSE_SECONDS)
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
        clock.advance(60.0)
        built_after = (await documents.v2()).modified - changed_at
        assert built_after == pytest.approx(1.2 * PAUSE_SECONDS + (60.0 if idle else 0.0))

    asyncio.run(run())


def _serve(scheme: Scheme, *definitions: Any) -> None:
    """Let a scheme have the custom kinds of these definitions, and no others."""
    for tree in definitions:
        tree["status"] = {"acceptedNames": tree["spec"]["names"]}
    scheme.custom = CustomKinds([Definition(tree, lambda tree=tree: tree) for tree in definitions])


def test_v2_keeps_parts() -> None:
    """A v2 document that is built from parts of the last one is as one that is built anew, also if
    a parameter occurs once more or less than before: `name` with the same kind in two groups."""
    one, other = definition(), definition(version("v2"))
    group = one["spec"]["group"]
    changed = definition(version(schema={"type": "object", "description": "New."}), group=group)
    scheme = Scheme()
    documents = OpenAPIDocuments(scheme, lambda: 0.0)

    async def is_built_alike() -> bool:
        new_documents = OpenAPIDocuments(scheme, lambda: 0.0)
        return (await documents.v2()).json == (await new_documents.v2()).json

    async def run() -> None:
        for definitions in ((one,), (one, other), (other,), (changed, other), ()):
            _serve(scheme, *definitions)
            assert await is_built_alike(), len(definitions)

    asyncio.run(run())


def _hashes(documents: OpenAPIDocuments) -> dict[str, str]:
    """Return the hash of each v3 document in the index."""
    index = json.loads(asyncio.run(documents.index()).json)["paths"]
    return {
        path: entry["serverRelativeURL"].partition("?hash=")[2] for path, entry in index.items()
    }


def test_index_needs_no_document() -> None:
    """The index loads no type; its hashes are the ETags of the documents, the same on every server
    that runs the same code, and others for another version or other media types."""
    code = (
        "import asyncio, sys\n"
        "from kapiserver.api.scheme import Scheme\n"
        "from kapiserver.apiserver.discovery.openapi_documents import OpenAPIDocuments\n"
        "asyncio.run(OpenAPIDocuments(Scheme(), float).index())\n"
        "assert 'kapiserver.api.apps.v1' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    documents = OpenAPIDocuments(Scheme(), lambda: 0.0)
    hashes = _hashes(documents)
    for path in ("apis/policy/v1", "apis/policy", "version"):
        document = asyncio.run(documents.v3(path))
        assert document is not None
        assert document.etag == hashes[path]
    assert len(set(hashes.values())) == len(hashes)
    assert _hashes(OpenAPIDocuments(Scheme(), lambda: 1.0)) == hashes
    older = OpenAPIDocuments(Scheme(), lambda: 0.0, version="v1.34.0")
    no_cbor = OpenAPIDocuments(Scheme(), lambda: 0.0, excluded_types=("application/cbor",))
    for other in (older, no_cbor):
        assert not set(_hashes(other).values()) & set(hashes.values())


def test_index_follows_definitions(own_server: Server) -> None:
    """A definition adds its documents to the index, and changes no hash of others."""

    def hashes() -> dict[str, str]:
        paths = own_server.api.get("/openapi/v3").json["paths"]
        return {path: entry["serverRelativeURL"] for path, entry in paths.items()}

    before = hashes()
    crd = definition(version())
    establish(own_server.api, crd)
    group = crd["spec"]["group"]
    during = hashes()
    assert during.keys() - before.keys() == {f"apis/{group}", f"apis/{group}/v1"}
    assert before.items() <= during.items()
    url = during[f"apis/{group}/v1"]
    assert own_server.api.get(url).headers["ETag"] == f'"{url.partition("hash=")[2]}"'


def test_golden_files() -> None:
    """The documents equal the golden files. Rewrite the files with `python -m
    tests.apiserver.discovery.openapi_digest` and read the diff."""
    golden = {file.name: file.read_text() for file in openapi_digest.FOLDER.glob("*.txt")}
    digests = openapi_digest.digests()
    assert golden.keys() == digests.keys()
    for name, text in digests.items():
        assert text.splitlines() == golden[name].splitlines(), name
