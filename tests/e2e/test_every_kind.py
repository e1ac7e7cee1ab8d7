"""Every kind that is served, over HTTP: the operations of Kubernetes' conformance tests for each
kind ("should support ... API operations"), and the same object in every encoding."""

import copy
import json
import struct
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import cbor2
import pytest
import yaml

from kapiserver.codecs import cbor
from kapiserver.codecs.recode import recode
from tests.e2e.encodings import CODECS, as_json_value, convert_through, read_encoded
from tests.e2e.every_kind import (
    APPLY,
    MERGE,
    STRATEGIC,
    Api,
    Served,
    Tree,
    discover,
    event_names,
    events,
    named,
    objects,
)
from tests.e2e.programs import start, stop

MEDIA = {
    "json": "application/json",
    "yaml": "application/yaml",
    "protobuf": "application/vnd.kubernetes.protobuf",
    "cbor": "application/cbor",
}
STREAMS = {
    "json": "application/json",
    "protobuf": "application/vnd.kubernetes.protobuf;stream=watch",
    "cbor": "application/cbor-seq",
}
NAMESPACE = "every-kind"
OBJECTS = objects()
CELLS = yaml.safe_load((Path(__file__).parent / "every_kind_cells.yaml").read_text())
"""By version, kind and column."""
VARYING_COLUMNS = {
    "Age", "Created At", "First Seen", "Last Seen", "Last Schedule", "Duration", "TimeAdded",
    "Cluster-IP", "Port(s)", "Selector",
}  # fmt: skip
IDS = [f"{obj['apiVersion'].replace('/', '.')}.{obj['kind']}" for obj in OBJECTS]
SECOND_NAMES = {
    "APIService": "v2.every.other.example.com",
    "ClusterTrustBundle": "example.com:signer:two",
    "CSIDriver": "csi.two.example.com",
    "CustomResourceDefinition": "twos.every.example.com",
    "IPAddress": "192.168.7.8",
    "StorageVersion": "apps.replicasets",
}
"""Names of second objects of kinds whose names are restricted; the default is "two"."""
CONTROLLED_KINDS = {
    "APIService", "CustomResourceDefinition", "FlowSchema", "PodDisruptionBudget",
    "ResourceQuota",
}  # fmt: skip
"""Kinds whose status is written by controllers."""
SETTLED = {
    "APIService": '"ServiceNotFound"',
    "CustomResourceDefinition": '"Established"',
    "FlowSchema": '"type": "Dangling", "status": "False"',
}
"""Text that an object of a kind contains after the controllers that always run have written its
status."""
VARYING_FIELDS = {
    "PersistentVolume": ["status"],
    "Service": ["spec"],
    "Pod": ["spec"],
    "Job": ["spec", "labels"],
}
"""Fields with addresses, ports, names, uids or times, which differ for each object."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server that serves all versions. It carries out no migrations, which would write the
    objects of a kind meanwhile."""
    server = start(
        tmp_path_factory.mktemp("all"), "--runtime-config", "api/all=true",
        "--controllers=*,-storage-version-migrator-controller",
    )  # fmt: skip
    new_api = Api(server)
    new_api("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    yield new_api
    new_api.close()
    stop(server)


@pytest.fixture(scope="module")
def idle_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server with only one controller, so that objects keep what clients wrote."""
    controllers_flag = "--controllers=root-ca-certificate-publisher-controller"
    server = start(
        tmp_path_factory.mktemp("still"), "--runtime-config", "api/all=true", controllers_flag
    )
    new_api = Api(server)
    new_api("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    new_api(
        "POST",
        f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
        named("ServiceAccount") | {"metadata": {"name": "default"}},
    )
    yield new_api
    new_api.close()
    stop(server)


@pytest.fixture(autouse=True)
def fresh_connections(request: pytest.FixtureRequest) -> None:
    """Each test begins with new connections."""
    for name in ("api", "idle_api"):
        if name in request.fixturenames:
            request.getfixturevalue(name).reconnect()


@pytest.fixture(scope="module")
def served(api: Api) -> dict[tuple[str, str], Served]:
    return discover(api)


def test_every_kind_has_an_object(served: dict[tuple[str, str], Served]) -> None:
    """Every kind that can be updated has an object in the table."""
    kinds_with_objects = {(obj["apiVersion"].partition("/")[0], obj["kind"]) for obj in OBJECTS}
    for (version, kind), resource in served.items():
        assert (
            "update" not in resource.verbs
            or (version.partition("/")[0], kind) in kinds_with_objects
        )


def _second(obj: Tree) -> Tree:
    copied = copy.deepcopy(obj)
    copied["metadata"]["name"] = SECOND_NAMES.get(obj["kind"], "two")
    if obj["kind"] == "APIService":
        copied["spec"]["version"] = "v2"
    if obj["kind"] == "CustomResourceDefinition":
        copied["spec"]["names"] = {"plural": "twos", "singular": "two", "kind": "Two"}
    return copied


def _labelled(obj: Tree) -> Tree:
    copied = copy.deepcopy(obj)
    copied["metadata"].setdefault("labels", {})["test"] = "yes"
    return copied


@pytest.mark.parametrize("obj", OBJECTS, ids=IDS)
def test_operations(api: Api, served: dict[tuple[str, str], Served], obj: Tree) -> None:
    """Create, get, list, watch, patch, update, /status, delete and deletecollection work as in the
    conformance tests "should support API operations"."""
    resource = served[obj["apiVersion"], obj["kind"]]
    assert {"create", "get", "list", "watch", "patch", "update", "delete"} <= resource.verbs
    path = resource.path(NAMESPACE)
    first, second = _labelled(obj), _labelled(_second(obj))
    name = obj["metadata"]["name"]
    created = api("POST", path, first)
    assert (created["kind"], created["apiVersion"]) == (obj["kind"], obj["apiVersion"])
    assert created["metadata"]["uid"]
    assert int(created["metadata"]["resourceVersion"]) > 0
    start_revision = created["metadata"]["resourceVersion"]
    _holds(created, {key: value for key, value in obj.items() if key != "status"})
    created_second = api("POST", path, second)
    assert api("POST", path, first, status=409)["reason"] == "AlreadyExists"
    assert api("GET", f"{path}/{name}")["metadata"]["uid"] == created["metadata"]["uid"]
    for collection in (path, resource.everywhere):
        listing = api("GET", f"{collection}?labelSelector=test=yes")
        assert listing["kind"] == f"{obj['kind']}List"
        assert [item["metadata"]["name"] for item in listing["items"]] == sorted(
            (name, second["metadata"]["name"])
        )
    with api.watch(f"{path}?labelSelector=test=yes&resourceVersion={start_revision}") as stream:
        patched = api(
            "PATCH",
            f"{path}/{name}",
            {"metadata": {"annotations": {"patched": "true"}}},
            content_type=MERGE,
        )
        assert patched["metadata"]["annotations"]["patched"] == "true"
        patched["metadata"]["annotations"]["updated"] = "true"
        updated = _put(
            api,
            f"{path}/{name}",
            lambda current: {
                **current,
                "metadata": {
                    **current["metadata"],
                    "annotations": patched["metadata"]["annotations"],
                },
            },
        )
        assert updated["metadata"]["annotations"]["updated"] == "true"
        assert ("ADDED", second["metadata"]["name"]) in _until(stream, "MODIFIED", updated)
        if "status" in resource.subresources:
            # Controllers overwrite the status of these kinds.
            _status(
                api,
                f"{path}/{name}",
                None if obj["kind"] in CONTROLLED_KINDS else obj.get("status"),
            )
        if obj["kind"] not in CONTROLLED_KINDS:
            assert _cells(api, f"{path}/{name}") == CELLS[obj["apiVersion"]][obj["kind"]]
        assert api("DELETE", f"{path}/{name}?gracePeriodSeconds=0")["kind"]
        _until(stream, "DELETED", created)
        api("GET", f"{path}/{name}", status=404)
        if "deletecollection" in resource.verbs:
            api("DELETE", f"{path}?labelSelector=test=yes&gracePeriodSeconds=0")
        else:
            api("DELETE", f"{path}/{second['metadata']['name']}")
        _until(stream, "DELETED", created_second)
        assert not api("GET", f"{path}?labelSelector=test=yes")["items"]


def _until(stream: HTTPResponse, type_: str, obj: Tree) -> list[tuple[str, str]]:
    """The events of a watch up to the given change or deletion of an object."""
    shown_events = []
    while True:
        event = events(stream, 1)[0]
        metadata = event["object"]["metadata"]
        shown_events.append((event["type"], metadata["name"]))
        if event["type"] == type_ and metadata["uid"] == obj["metadata"]["uid"]:
            if type_ == "DELETED":
                return shown_events
            if metadata["resourceVersion"] == obj["metadata"]["resourceVersion"]:
                assert event["object"] == obj
                return shown_events


def _put(api: Api, path: str, changed: Callable[[Tree], Tree]) -> Tree:
    """Read, change and write an object; repeat on a conflict."""
    while True:
        response = api.request("PUT", path, changed(api("GET", path)))
        if response.status != 409:
            assert response.status == 200, response.body
            return dict(response.tree)


def _holds(stored: object, sent_value: object) -> None:
    """Assert that the stored value contains the value that was sent; additional fields are
    allowed."""
    if isinstance(sent_value, dict) and isinstance(stored, dict):
        for key, value in sent_value.items():
            _holds(stored.get(key), value)
    elif isinstance(sent_value, list) and isinstance(stored, list):
        assert len(stored) >= len(sent_value)
        for item_stored, right in zip(stored, sent_value, strict=False):
            _holds(item_stored, right)
    else:
        assert stored == sent_value


def _status(api: Api, path: str, status: Tree | None) -> None:
    current = api("GET", f"{path}/status")
    api(
        "PATCH",
        f"{path}/status",
        {"metadata": {"annotations": {"of": "status"}}, "status": status or {}},
        content_type=MERGE,
    )
    current = api("GET", f"{path}/status")
    if status:
        _holds(current["status"], status)
        updated = _put(api, f"{path}/status", lambda stored: stored)
        _holds(updated["status"], status)
        assert updated["spec"] == current["spec"]


def _cells(api: Api, path: str) -> dict[str, object]:
    """The cells of an object's table row, without those that differ between runs."""
    table = api("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    (row,) = table["rows"]
    # IPAddress has one cell more than columns, in Kubernetes too.
    cells = zip(
        (column_definition["name"] for column_definition in table["columnDefinitions"]),
        row["cells"],
        strict=False,
    )
    return {name: cell for name, cell in cells if name not in VARYING_COLUMNS}


@pytest.mark.parametrize("obj", OBJECTS, ids=IDS)
def test_encodings(idle_api: Api, served: dict[tuple[str, str], Served], obj: Tree) -> None:
    """An object created from any encoding is the same, and reads the same in all of them: alone, in
    a list and in a watch."""
    path = served[obj["apiVersion"], obj["kind"]].path(NAMESPACE)
    dry = [
        _timeless(_created_object(idle_api, f"{path}?dryRun=All&fieldValidation=Strict", obj, form))
        for form in MEDIA
    ]
    assert dry == [dry[0]] * 4
    name = _make_second(idle_api, path, obj)
    bodies = {form: idle_api.request("GET", f"{path}/{name}", accept=MEDIA[form]) for form in MEDIA}
    for form, response in bodies.items():
        assert response.headers["content-type"] == MEDIA[form]
        encoded = recode(bodies["json"].body, "json", form, codecs=CODECS)
        assert read_encoded(form, response.body) == convert_through(form, bodies["json"].body)
        for target in MEDIA:
            expected = recode(encoded, form, target, codecs=CODECS)
            assert recode(response.body, form, target, codecs=CODECS) == expected
    selected = f"{path}?resourceVersion=0&fieldSelector=metadata.name={name}"
    lists = {form: idle_api.request("GET", selected, accept=MEDIA[form]).body for form in MEDIA}
    for form, data in lists.items():
        assert _unversioned(read_encoded(form, data)) == _unversioned(
            convert_through(form, lists["json"])
        )
    for form in STREAMS:
        assert _watched(idle_api, path, name, form) == convert_through(form, bodies["json"].body)


def _make_second(api: Api, path: str, obj: Tree) -> str:
    """Create the second object unless it exists, and wait until it no longer changes; return its
    name."""
    name: str = _second(obj)["metadata"]["name"]
    api.request("POST", path, _second(obj))
    if obj["kind"] in SETTLED:
        with api.watch(f"{path}?fieldSelector=metadata.name={name}") as stream:
            while SETTLED[obj["kind"]] not in json.dumps(events(stream, 1)):
                pass
    return name


def _unversioned(listing: Any) -> Tree:
    """A list without its resourceVersion, which other writes change."""
    return {**listing, "metadata": {**listing["metadata"], "resourceVersion": ""}}


@pytest.mark.parametrize("obj", OBJECTS, ids=IDS)
def test_writes_in_cbor(idle_api: Api, served: dict[tuple[str, str], Served], obj: Tree) -> None:
    """Update, patch, apply, scale, delete and deletecollection have the same result in CBOR as in
    JSON (KEP-4222); all are dry runs, for the sake of the other tests."""
    resource = served[obj["apiVersion"], obj["kind"]]
    path = resource.path(NAMESPACE)
    name = _make_second(idle_api, path, obj)
    at, dry = f"{path}/{name}", "dryRun=All&fieldManager=me&force=true"
    original = idle_api("GET", at)
    annotation_patch = {"metadata": {"annotations": {"test": "noted"}}}
    changed = {**original, "metadata": {**original["metadata"], "annotations": {"test": "noted"}}}
    head = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    applied = {**head, "metadata": {"name": name, **annotation_patch["metadata"]}}
    writes: list[tuple[str, str, Tree, str, str]] = [
        ("PUT", f"{at}?{dry.removesuffix('&force=true')}", changed, MEDIA["json"], MEDIA["cbor"]),
        ("PATCH", f"{at}?{dry}", applied, APPLY, "application/apply-patch+cbor"),
        ("PATCH", f"{at}?{dry.removesuffix('&force=true')}", annotation_patch, STRATEGIC,
         "application/strategic-merge-patch+cbor"),
        ("DELETE", at, {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]},
         MEDIA["json"], MEDIA["cbor"]),
        ("DELETE", f"{path}?fieldSelector=metadata.name={name}",
         {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]},
         MEDIA["json"], MEDIA["cbor"]),
    ]  # fmt: skip
    if "scale" in resource.subresources:
        scale = idle_api("GET", f"{at}/scale")
        scale["spec"]["replicas"] = 7
        writes.append(("PUT", f"{at}/scale?dryRun=All", scale, MEDIA["json"], MEDIA["cbor"]))
    for method, target, body, plain, packed in writes:
        if method == "DELETE" and target != at and "deletecollection" not in resource.verbs:
            continue
        json_response = idle_api.request(method, target, body, content_type=plain)
        data = cbor.encode_value(body)
        cbor_response = idle_api.request(
            method, target, data, content_type=packed, accept=MEDIA["cbor"]
        )
        assert cbor_response.headers["content-type"] == MEDIA["cbor"]
        assert (cbor_response.status, _timeless(read_encoded("cbor", cbor_response.body))) == (
            200,
            _timeless(json_response.tree),
        )


def _timeless(tree: object) -> object:
    """A response without timestamps."""
    if isinstance(tree, dict):
        return {name: _timeless(item) for name, item in tree.items() if name not in TIMES}
    return [_timeless(item) for item in tree] if isinstance(tree, list) else tree


TIMES = ("time", "timeAdded", "lastTransitionTime", "deletionTimestamp", "resourceVersion")


def _created_object(api: Api, path: str, obj: Tree, form: str) -> Tree:
    body = recode(json.dumps(obj).encode(), "json", form, codecs=CODECS)
    created: Tree = api("POST", path, body, content_type=MEDIA[form])
    random = VARYING_FIELDS.get(obj["kind"], [])
    for field in ("uid", "creationTimestamp", "managedFields", *random):
        created["metadata"].pop(field, None)
    return {key: value for key, value in created.items() if key not in random}


def _watched(api: Api, path: str, name: str, form: str) -> object:
    """The first object of a watch of one name, in an encoding."""
    with api.watch(f"{path}?fieldSelector=metadata.name={name}", accept=STREAMS[form]) as stream:
        if form == "json":
            return events(stream, 1)[0]["object"]
        if form == "cbor":
            return dict(as_json_value(cbor2.CBORDecoder(stream, read_size=1).decode()))["object"]  # type: ignore[call-overload]
        (length,) = struct.unpack(">I", stream.read(4))
        frame = stream.read(length)
        envelope = frame[frame.index(b"k8s\0") :]
        return json.loads(recode(envelope, "protobuf", "json", codecs=CODECS))


FIELDS = {
    "Pod": (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs",
        "status.nominatedNodeName",
    ),
    "Node": ("spec.unschedulable",),
    "Namespace": ("status.phase", "name"),
    "ReplicationController": ("status.replicas",),
    "Secret": ("type",),
    "Service": ("spec.clusterIP", "spec.type"),
    "Event": ("reason", "source", "type"),
    "Job": ("status.successful",),
    "CertificateSigningRequest": ("spec.signerName",),
    "ClusterTrustBundle": ("spec.signerName",),
    "PodCertificateRequest": ("spec.signerName", "spec.podName", "spec.nodeName"),
    "ResourceSlice": ("spec.nodeName", "spec.driver", "spec.pool.name"),
    "LeaseCandidate": ("spec.leaseName",),
}  # fmt: skip
OTHER_MESSAGES = {
    "jobs": 'field label "spec.x" not supported for Job',
    "resourceslices": (
        "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.x"
    ),
}
METADATA_ONLY_MESSAGE = (
    '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'
)


def test_field_selectors(api: Api, served: dict[tuple[str, str], Served]) -> None:
    """Every kind can be listed and watched by its field selectors; other fields are refused with a
    message."""
    for (_, kind), resource in served.items():
        if "watch" not in resource.verbs:
            continue
        for field in ("metadata.name", *FIELDS.get(kind, ())):
            _select(api, resource.everywhere, field)
        default = "field label not supported: spec.x" if kind in FIELDS else METADATA_ONLY_MESSAGE
        expected = OTHER_MESSAGES.get(resource.name, default)
        for query in ("", "&watch=1"):
            path = f"{resource.everywhere}?fieldSelector=spec.x=1{query}"
            assert api("GET", path, status=400)["message"] == expected


def _select(api: Api, path: str, field: str) -> None:
    """List and watch objects without a value of a field, and all others; repeat if a controller
    wrote meanwhile."""
    previous = None
    while (all_names := _names(api, path)) != previous:
        previous = all_names
        assert _names(api, f"{path}?fieldSelector={field}=none") == [], (path, field)
        other_query = f"{path}?fieldSelector={field}!=none"
        listing, watched = _names(api, other_query), []
        if listing:
            with api.watch(other_query) as stream:
                watched = [name for _, name in event_names(stream, len(listing))]
    assert listing == watched == all_names, (path, field)


def _names(api: Api, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in api("GET", path)["items"]]


def test_other_versions(api: Api, served: dict[tuple[str, str], Served]) -> None:
    """An object that is read in another version and written back is unchanged."""
    seen_versions = set()
    for obj in OBJECTS:
        group = obj["apiVersion"].rpartition("/")[0]
        resource, three = served[obj["apiVersion"], obj["kind"]], copy.deepcopy(obj)
        other_resources = [
            candidate
            for (version, kind), candidate in served.items()
            if kind == obj["kind"] and version.rpartition("/")[0] == group and candidate != resource
        ]
        if not other_resources:
            continue
        three["metadata"]["name"] = name = obj["metadata"]["name"].removesuffix("one") + "three"
        path = f"{resource.path(NAMESPACE)}/{name}"
        created = api("POST", resource.path(NAMESPACE), three)
        for other_resource in other_resources:
            url = f"{other_resource.path(NAMESPACE)}/{name}"
            api("PUT", url, api("GET", url))
            if obj["kind"] != "HorizontalPodAutoscaler":  # v1 reorders its metrics
                assert api("GET", path) == created, other_resource
            seen_versions.add(other_resource.version)
    assert len(seen_versions) == 10
