"""Every kind that is served, from outside: the operations that Kubernetes' conformance tests ask
of each ("should support ... API operations"), and the same object in every encoding."""

import base64
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

from kapiserver.api.scheme import Scheme
from kapiserver.codecs import cbor
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.recode import recode
from tests.e2e.every_kind import (
    APPLY,
    MERGE,
    STRATEGIC,
    Api,
    Served,
    Tree,
    discovered,
    events,
    named,
    objects,
    seen,
)
from tests.e2e.programs import start, stop

CODECS = CodecFactory(Scheme())
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
VARIES = {
    "Age", "Created At", "First Seen", "Last Seen", "Last Schedule", "Duration", "TimeAdded",
    "Cluster-IP", "Port(s)", "Selector",
}  # fmt: skip
IDS = [f"{one['apiVersion'].replace('/', '.')}.{one['kind']}" for one in OBJECTS]
SECOND_NAMES = {
    "APIService": "v2.every.other.example.com",
    "ClusterTrustBundle": "example.com:signer:two",
    "CSIDriver": "csi.two.example.com",
    "CustomResourceDefinition": "twos.every.example.com",
    "IPAddress": "192.168.7.8",
    "StorageVersion": "apps.replicasets",
}
"""Of kinds whose names are not free; the others' second object is called two."""
WATCHED_OVER = {"CustomResourceDefinition", "PodDisruptionBudget", "ResourceQuota"}
"""Whose status controllers write."""
RANDOM = {
    "PersistentVolume": ["status"],
    "Service": ["spec"],
    "Pod": ["spec"],
    "Job": ["spec", "labels"],
}
"""What holds addresses, ports, names, uids or times that are chosen anew for each object."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server that serves all versions."""
    server = start(tmp_path_factory.mktemp("all"), "--runtime-config", "api/all=true")
    found = Api(server)
    found("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    yield found
    found.close()
    stop(server)


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Another one, in which hardly a controller changes what clients wrote."""
    few = "--controllers=root-ca-certificate-publisher-controller"
    server = start(tmp_path_factory.mktemp("still"), "--runtime-config", "api/all=true", few)
    found = Api(server)
    found("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    found(
        "POST",
        f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
        named("ServiceAccount") | {"metadata": {"name": "default"}},
    )
    yield found
    found.close()
    stop(server)


@pytest.fixture(scope="module")
def served(api: Api) -> dict[tuple[str, str], Served]:
    return discovered(api)


def test_every_kind_has_an_object(served: dict[tuple[str, str], Served]) -> None:
    """No kind is forgotten here: whatever can be updated has its object in the table."""
    there = {(obj["apiVersion"].partition("/")[0], obj["kind"]) for obj in OBJECTS}
    for (version, kind), resource in served.items():
        assert "update" not in resource.verbs or (version.partition("/")[0], kind) in there


def _second(obj: Tree) -> Tree:
    found = copy.deepcopy(obj)
    found["metadata"]["name"] = SECOND_NAMES.get(obj["kind"], "two")
    if obj["kind"] == "APIService":
        found["spec"]["version"] = "v2"
    if obj["kind"] == "CustomResourceDefinition":
        found["spec"]["names"] = {"plural": "twos", "singular": "two", "kind": "Two"}
    return found


def _labelled(obj: Tree) -> Tree:
    found = copy.deepcopy(obj)
    found["metadata"].setdefault("labels", {})["test"] = "yes"
    return found


@pytest.mark.parametrize("obj", OBJECTS, ids=IDS)
def test_operations(api: Api, served: dict[tuple[str, str], Served], obj: Tree) -> None:
    """Create, get, list here and everywhere, watch, patch, update, /status, delete and
    deletecollection, as each "should support API operations" of the conformance tests does."""
    resource = served[obj["apiVersion"], obj["kind"]]
    assert {"create", "get", "list", "watch", "patch", "update", "delete"} <= resource.verbs
    path = resource.path(NAMESPACE)
    one, two = _labelled(obj), _labelled(_second(obj))
    name = obj["metadata"]["name"]
    made = api("POST", path, one)
    assert (made["kind"], made["apiVersion"]) == (obj["kind"], obj["apiVersion"])
    assert made["metadata"]["uid"]
    assert int(made["metadata"]["resourceVersion"]) > 0
    begin = made["metadata"]["resourceVersion"]
    _holds(made, {key: value for key, value in obj.items() if key != "status"})
    other = api("POST", path, two)
    assert api("POST", path, one, status=409)["reason"] == "AlreadyExists"
    assert api("GET", f"{path}/{name}")["metadata"]["uid"] == made["metadata"]["uid"]
    for where in (path, resource.everywhere):
        listed = api("GET", f"{where}?labelSelector=test=yes")
        assert listed["kind"] == f"{obj['kind']}List"
        assert [item["metadata"]["name"] for item in listed["items"]] == sorted(
            (name, two["metadata"]["name"])
        )
    with api.watch(f"{path}?labelSelector=test=yes&resourceVersion={begin}") as stream:
        patched = api(
            "PATCH",
            f"{path}/{name}",
            {"metadata": {"annotations": {"patched": "true"}}},
            sent=MERGE,
        )
        assert patched["metadata"]["annotations"]["patched"] == "true"
        patched["metadata"]["annotations"]["updated"] = "true"
        updated = _put(
            api,
            f"{path}/{name}",
            lambda now: {
                **now,
                "metadata": {**now["metadata"], "annotations": patched["metadata"]["annotations"]},
            },
        )
        assert updated["metadata"]["annotations"]["updated"] == "true"
        assert ("ADDED", two["metadata"]["name"]) in _until(stream, "MODIFIED", updated)
        if "status" in resource.subresources:
            # Where a controller has its say, what is written does not last.
            _status(
                api, f"{path}/{name}", None if obj["kind"] in WATCHED_OVER else obj.get("status")
            )
        if obj["kind"] not in WATCHED_OVER:
            assert _cells(api, f"{path}/{name}") == CELLS[obj["apiVersion"]][obj["kind"]]
        assert api("DELETE", f"{path}/{name}?gracePeriodSeconds=0")["kind"]
        _until(stream, "DELETED", made)
        api("GET", f"{path}/{name}", status=404)
        if "deletecollection" in resource.verbs:
            api("DELETE", f"{path}?labelSelector=test=yes&gracePeriodSeconds=0")
        else:
            api("DELETE", f"{path}/{two['metadata']['name']}")
        _until(stream, "DELETED", other)
        assert not api("GET", f"{path}?labelSelector=test=yes")["items"]


def _until(stream: HTTPResponse, type_: str, obj: Tree) -> list[tuple[str, str]]:
    """What a watch shows until an object has got that far: the very change, or its end."""
    found = []
    while True:
        event = events(stream, 1)[0]
        metadata = event["object"]["metadata"]
        found.append((event["type"], metadata["name"]))
        if event["type"] == type_ and metadata["uid"] == obj["metadata"]["uid"]:
            if type_ == "DELETED":
                return found
            if metadata["resourceVersion"] == obj["metadata"]["resourceVersion"]:
                assert event["object"] == obj
                return found


def _put(api: Api, path: str, changed: Callable[[Tree], Tree]) -> Tree:
    """Read, change and write back, again where a controller came between."""
    while True:
        answer = api.ask("PUT", path, changed(api("GET", path)))
        if answer.status != 409:
            assert answer.status == 200, answer.body
            return dict(answer.tree)


def _holds(found: object, wanted: object) -> None:
    """Whatever was sent is there; what has been added is the server's business."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            _holds(found.get(key), value)
    elif isinstance(wanted, list) and isinstance(found, list):
        assert len(found) >= len(wanted)
        for left, right in zip(found, wanted, strict=False):
            _holds(left, right)
    else:
        assert found == wanted


def _status(api: Api, path: str, status: Tree | None) -> None:
    current = api("GET", f"{path}/status")
    api(
        "PATCH",
        f"{path}/status",
        {"metadata": {"annotations": {"of": "status"}}, "status": status or {}},
        sent=MERGE,
    )
    current = api("GET", f"{path}/status")
    if status:
        _holds(current["status"], status)
        kept = _put(api, f"{path}/status", lambda now: now)
        _holds(kept["status"], status)
        assert kept["spec"] == current["spec"]


def _cells(api: Api, path: str) -> dict[str, object]:
    """The cells of an object's row, as `kubectl get -o wide` asks for it; what differs from run
    to run is left out."""
    table = api("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    (row,) = table["rows"]
    # An address has one cell more than columns, in Kubernetes too.
    found = zip((one["name"] for one in table["columnDefinitions"]), row["cells"], strict=False)
    return {name: cell for name, cell in found if name not in VARIES}


@pytest.mark.parametrize("obj", OBJECTS, ids=IDS)
def test_encodings(still: Api, served: dict[tuple[str, str], Served], obj: Tree) -> None:
    """An object made from any encoding is the same object, and reads the same in all of them:
    alone, in a list and in a watch."""
    path = served[obj["apiVersion"], obj["kind"]].path(NAMESPACE)
    dry = [
        _timeless(_made(still, f"{path}?dryRun=All&fieldValidation=Strict", obj, form))
        for form in MEDIA
    ]
    assert dry == [dry[0]] * 4
    name = _make_second(still, path, obj)
    bodies = {form: still.ask("GET", f"{path}/{name}", accept=MEDIA[form]) for form in MEDIA}
    for form, answer in bodies.items():
        assert answer.headers["content-type"] == MEDIA[form]
        there = recode(bodies["json"].body, "json", form, codecs=CODECS)
        assert _read(form, answer.body) == _through(form, bodies["json"].body)
        for target in MEDIA:
            wanted = recode(there, form, target, codecs=CODECS)
            assert recode(answer.body, form, target, codecs=CODECS) == wanted
    here = f"{path}?resourceVersion=0&fieldSelector=metadata.name={name}"
    lists = {form: still.ask("GET", here, accept=MEDIA[form]).body for form in MEDIA}
    for form, data in lists.items():
        assert _unversioned(_read(form, data)) == _unversioned(_through(form, lists["json"]))
    for form in STREAMS:
        assert _watched(still, path, name, form) == _through(form, bodies["json"].body)


def _make_second(api: Api, path: str, obj: Tree) -> str:
    """Make sure that the second object is there, and rests; its name."""
    name: str = _second(obj)["metadata"]["name"]
    api.ask("POST", path, _second(obj))
    if obj["kind"] == "CustomResourceDefinition":
        with api.watch(f"{path}?fieldSelector=metadata.name={name}") as stream:
            while "Established" not in json.dumps(events(stream, 1)):
                pass
    return name


def _unversioned(found: Any) -> Tree:
    """A list without its version, which the writes of the server itself move."""
    return {**found, "metadata": {**found["metadata"], "resourceVersion": ""}}


@pytest.mark.parametrize("obj", OBJECTS, ids=IDS)
def test_writes_in_cbor(still: Api, served: dict[tuple[str, str], Served], obj: Tree) -> None:
    """Update, patch, apply, scale, delete and deletecollection in CBOR do what they do in JSON
    (KEP-4222); dry, so that others find what they look for."""
    resource = served[obj["apiVersion"], obj["kind"]]
    path = resource.path(NAMESPACE)
    name = _make_second(still, path, obj)
    at, dry = f"{path}/{name}", "dryRun=All&fieldManager=me&force=true"
    there = still("GET", at)
    noted = {"metadata": {"annotations": {"test": "noted"}}}
    changed = {**there, "metadata": {**there["metadata"], "annotations": {"test": "noted"}}}
    head = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    applied = {**head, "metadata": {"name": name, **noted["metadata"]}}
    writes: list[tuple[str, str, Tree, str, str]] = [
        ("PUT", f"{at}?{dry.removesuffix('&force=true')}", changed, MEDIA["json"], MEDIA["cbor"]),
        ("PATCH", f"{at}?{dry}", applied, APPLY, "application/apply-patch+cbor"),
        ("PATCH", f"{at}?{dry.removesuffix('&force=true')}", noted, STRATEGIC,
         "application/strategic-merge-patch+cbor"),
        ("DELETE", at, {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]},
         MEDIA["json"], MEDIA["cbor"]),
        ("DELETE", f"{path}?fieldSelector=metadata.name={name}",
         {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]},
         MEDIA["json"], MEDIA["cbor"]),
    ]  # fmt: skip
    if "scale" in resource.subresources:
        scale = still("GET", f"{at}/scale")
        scale["spec"]["replicas"] = 7
        writes.append(("PUT", f"{at}/scale?dryRun=All", scale, MEDIA["json"], MEDIA["cbor"]))
    for method, where, body, plain, packed in writes:
        if method == "DELETE" and where != at and "deletecollection" not in resource.verbs:
            continue
        told = still.ask(method, where, body, sent=plain)
        data = cbor.encode_value(body)
        same = still.ask(method, where, data, sent=packed, accept=MEDIA["cbor"])
        assert same.headers["content-type"] == MEDIA["cbor"]
        assert (same.status, _timeless(_read("cbor", same.body))) == (200, _timeless(told.tree))


def _timeless(tree: object) -> object:
    """An answer without the times at which it was made, the store's included."""
    if isinstance(tree, dict):
        return {name: _timeless(one) for name, one in tree.items() if name not in TIMES}
    return [_timeless(one) for one in tree] if isinstance(tree, list) else tree


TIMES = ("time", "timeAdded", "lastTransitionTime", "deletionTimestamp", "resourceVersion")


def _made(api: Api, path: str, obj: Tree, form: str) -> Tree:
    body = recode(json.dumps(obj).encode(), "json", form, codecs=CODECS)
    found: Tree = api("POST", path, body, sent=MEDIA[form])
    random = RANDOM.get(obj["kind"], [])
    for field in ("uid", "creationTimestamp", "managedFields", *random):
        found["metadata"].pop(field, None)
    return {key: value for key, value in found.items() if key not in random}


def _through(form: str, data: bytes) -> object:
    """What is left of an object in JSON on its way through an encoding: in Protobuf the claims of
    a stateful set do not name their kind."""
    if form != "protobuf":
        return json.loads(data)
    there = recode(data, "json", form, codecs=CODECS)
    return json.loads(recode(there, form, "json", codecs=CODECS))


def _read(form: str, data: bytes) -> object:
    """By other people's decoders, but for Protobuf: tests/codecs compares that with Google's."""
    if form == "yaml":
        return yaml.load(data, _Text)
    if form == "cbor":
        return _text(cbor2.loads(data))
    return json.loads(recode(data, form, "json", codecs=CODECS))


class _Text(yaml.SafeLoader):
    """Leaves timestamps alone."""

    yaml_implicit_resolvers = {
        first: [(tag, form) for tag, form in rows if not tag.endswith(":timestamp")]
        for first, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _text(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, cbor2.CBORTag):
        assert value.tag == 22, "bytes that JSON shows in base64"
        return base64.b64encode(value.value).decode()
    if hasattr(value, "items"):
        return {_text(key): _text(one) for key, one in value.items()}
    return [_text(one) for one in value] if isinstance(value, list | tuple) else value


def _watched(api: Api, path: str, name: str, form: str) -> object:
    """The first object that a watch of one name shows, in an encoding."""
    with api.watch(f"{path}?fieldSelector=metadata.name={name}", accept=STREAMS[form]) as stream:
        if form == "json":
            return events(stream, 1)[0]["object"]
        if form == "cbor":
            return dict(_text(cbor2.CBORDecoder(stream, read_size=1).decode()))["object"]  # type: ignore[call-overload]
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
    "PersistentVolume": ("name",),
    "PersistentVolumeClaim": ("name",),
    "ReplicaSet": ("status.replicas",),
    "Job": ("status.successful",),
    "CertificateSigningRequest": ("spec.signerName",),
    "ClusterTrustBundle": ("spec.signerName",),
    "PodCertificateRequest": ("spec.signerName", "spec.podName", "spec.nodeName"),
    "ResourceSlice": ("spec.nodeName", "spec.driver", "spec.pool.name"),
    "LeaseCandidate": ("spec.leaseName",),
}  # fmt: skip
OTHER_WORDS = {
    "jobs": 'field label "spec.x" not supported for batchv1.Job',
    "resourceslices": (
        "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.x"
    ),
}
META_ALONE = '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'


def test_field_selectors(api: Api, served: dict[tuple[str, str], Served]) -> None:
    """Every kind is listed and watched by its own fields; other fields are refused in words."""
    for (_, kind), resource in served.items():
        if "watch" not in resource.verbs:
            continue
        for field in ("metadata.name", *FIELDS.get(kind, ())):
            _select(api, resource.everywhere, field)
        default = "field label not supported: spec.x" if kind in FIELDS else META_ALONE
        wanted = OTHER_WORDS.get(resource.name, default)
        for query in ("", "&watch=1"):
            path = f"{resource.everywhere}?fieldSelector=spec.x=1{query}"
            assert api("GET", path, status=400)["message"] == wanted


def _select(api: Api, path: str, field: str) -> None:
    """List and watch those that have no value of a field, and all others; once more where the
    server's own loops came between."""
    before = None
    while (whole := _names(api, path)) != before:
        before = whole
        assert _names(api, f"{path}?fieldSelector={field}=none") == [], (path, field)
        others = f"{path}?fieldSelector={field}!=none"
        listed, watched = _names(api, others), []
        if listed:
            with api.watch(others) as stream:
                watched = [name for _, name in seen(stream, len(listed))]
    assert listed == watched == whole, (path, field)


def _names(api: Api, path: str) -> list[str]:
    return [one["metadata"]["name"] for one in api("GET", path)["items"]]


def test_other_versions(api: Api, served: dict[tuple[str, str], Served]) -> None:
    """An object read in any other version, and written back as it was read, has not changed."""
    seen_versions = set()
    for obj in OBJECTS:
        group = obj["apiVersion"].rpartition("/")[0]
        resource, three = served[obj["apiVersion"], obj["kind"]], copy.deepcopy(obj)
        others = [
            one
            for (version, kind), one in served.items()
            if kind == obj["kind"] and version.rpartition("/")[0] == group and one != resource
        ]
        if not others:
            continue
        three["metadata"]["name"] = name = obj["metadata"]["name"].removesuffix("one") + "three"
        path = f"{resource.path(NAMESPACE)}/{name}"
        made = api("POST", resource.path(NAMESPACE), three)
        for other in others:
            there = f"{other.path(NAMESPACE)}/{name}"
            api("PUT", there, api("GET", there))
            if obj["kind"] != "HorizontalPodAutoscaler":  # its CPU metric moves to the end
                assert api("GET", path) == made, other
            seen_versions.add(other.version)
    assert len(seen_versions) == 10
