"""Custom objects in the store: their encoding, old data, restarts and several servers."""

import asyncio
import json
import uuid
from collections.abc import Callable
from pathlib import Path

from kapiserver.apiserver.feature_gates import DEFAULT_GATES
from kapiserver.codecs import cbor
from tests.apiserver.conftest import Server
from tests.apiserver.customresources.customkit import (
    CRDS,
    conditions,
    definition,
    establish,
    path_of,
    wait_for_condition,
    widget,
)
from tests.storage.etcd_server import shared_etcd

MakeServer = Callable[..., Server]
JSON_GATES = DEFAULT_GATES - {"CBORServingAndStorage"}


def stored(server: Server, key: str) -> bytes:
    async def read() -> bytes:
        item = (await server.running.cluster.kv.get(f"/registry/{key}")).item
        assert item is not None
        return item.value

    return asyncio.run_coroutine_threadsafe(read(), server.loop).result(60)


def test_storage_encoding(make_server: MakeServer, tmp_path: Path) -> None:
    """The feature gate chooses CBOR or JSON for writes, and both are read. Neither contains a
    resourceVersion, and equal objects have equal bytes."""
    storage = f"sqlite:{tmp_path / 'db'}"
    with_cbor = make_server(storage=storage)
    crd = definition(group="stored.example.com")
    path = establish(with_cbor.api, crd)
    with_cbor.api.post(path, widget(crd, "a", spec={"color": "red"}))
    cbor_bytes = stored(with_cbor, "stored.example.com/widgets/default/a")
    assert cbor_bytes.startswith(b"\xd9\xd9\xf7")
    tree = cbor.decode_value(cbor_bytes)
    assert "resourceVersion" not in tree["metadata"]
    assert cbor_bytes == b"\xd9\xd9\xf7" + cbor.encode_value(json.loads(json.dumps(tree)))
    with_cbor.end()

    plain = make_server(storage=storage, feature_gates=JSON_GATES)
    assert plain.api.get(f"{path}/a").json["spec"] == {"color": "red", "replicas": 3}
    plain.api.post(path, widget(crd, "b"))
    json_bytes = stored(plain, "stored.example.com/widgets/default/b")
    assert json_bytes.startswith(
        b'{"apiVersion":"stored.example.com/v1","kind":"Widget","metadata":'
    )
    assert [item["metadata"]["name"] for item in plain.api.get(path).json["items"]] == ["a", "b"]
    response = plain.api.get(path, accept="application/cbor")
    assert response.status == 406
    plain.api.patch(f"{path}/a", {"metadata": {"labels": {"x": "y"}}})
    assert stored(plain, "stored.example.com/widgets/default/a").startswith(b"{")
    plain.end()

    restarted = make_server(storage=storage)
    assert [item["metadata"]["name"] for item in restarted.api.get(path).json["items"]] == [
        "a",
        "b",
    ]
    restarted.api.patch(f"{path}/b", {"metadata": {"labels": {"x": "y"}}})
    assert stored(restarted, "stored.example.com/widgets/default/b").startswith(b"\xd9\xd9\xf7")


def put(server: Server, key: str, value: bytes) -> None:
    create = server.running.cluster.kv.create(f"/registry/{key}", value)
    asyncio.run_coroutine_threadsafe(create, server.loop).result(60)


def test_invalid_stored_metadata(own_server: Server) -> None:
    """Invalid metadata of stored objects is left out when they are read."""
    crd = definition(group="old.example.com")
    path = establish(own_server.api, crd)
    old = {"apiVersion": "old.example.com/v1", "kind": "Widget", "spec": {"gone": 1}}
    metadata = {
        "name": "a",
        "namespace": "default",
        "uid": "u",
        "labels": {"a": 1},
        "finalizers": 5,
    }
    value = json.dumps({**old, "metadata": metadata}).encode()
    put(own_server, "old.example.com/widgets/default/a", value)
    (item,) = own_server.api.get(path).json["items"]
    assert item["metadata"].keys() == {
        "generation", "name", "namespace", "resourceVersion", "uid",
    }  # fmt: skip
    assert item["spec"] == {"replicas": 3}
    assert own_server.api.patch(f"{path}/a", {"spec": {"color": "red"}}).status == 200


def test_non_structural_schema(own_server: Server) -> None:
    """A stored definition without a structural schema is served and has the condition
    NonStructuralSchema until it is updated."""
    api = own_server.api
    crd = definition(group="old.example.com")
    path = establish(api, crd)
    name = crd["metadata"]["name"]
    old = api.get(f"{CRDS}/{name}").json
    old["metadata"] = {**old["metadata"], "name": "pads.old.example.com", "uid": "u"}
    old["metadata"].pop("resourceVersion")
    names = {"plural": "pads", "singular": "pad", "kind": "Pad", "listKind": "PadList"}
    old["spec"] |= {"preserveUnknownFields": True, "names": names}
    old["spec"]["versions"][0]["schema"] = {
        "openAPIV3Schema": {"type": "object", "properties": {"spec": {"minimum": 1}}}
    }
    old["status"]["acceptedNames"] = names
    put(own_server, "apiextensions.k8s.io/customresourcedefinitions/pads.old.example.com",
        json.dumps(old).encode())  # fmt: skip
    pads = wait_for_condition(api, "pads.old.example.com", "NonStructuralSchema", "True")
    (condition,) = [item for item in pads["status"]["conditions"] if item["reason"] == "Violations"]
    field = "spec.versions[0].schema.openAPIV3Schema.properties[spec]"
    words = "Required value: must not be empty for specified object fields"
    assert condition["message"] == f"{field}.type: {words}"
    pad = {"apiVersion": "old.example.com/v1", "kind": "Pad", "metadata": {"name": "a"}}
    created = api.post(path.replace("widgets", "pads"), {**pad, "unknown": 1})
    assert (created.status, created.json.get("unknown")) == (201, 1)
    structural = {"preserveUnknownFields": False, "versions": crd["spec"]["versions"]}
    assert api.patch(f"{CRDS}/pads.old.example.com", {"spec": structural}).status == 200
    selector = f"{CRDS}?watch=1&fieldSelector=metadata.name=pads.old.example.com"
    with api.watch(selector) as stream:
        while "NonStructuralSchema" in conditions(stream.event()["object"]):
            pass


def test_restart(make_server: MakeServer, tmp_path: Path) -> None:
    """A restarted server serves custom kinds from its first request on."""
    storage = f"sqlite:{tmp_path / 'db'}"
    server = make_server(storage=storage)
    crd = definition(group="again.example.com")
    path = establish(server.api, crd)
    server.api.post(path, widget(crd, "a"))
    server.end()
    restarted = make_server(storage=storage)
    assert restarted.api.get(f"{path}/a").status == 200


def test_servers_over_one_etcd(
    make_server: MakeServer,
) -> None:
    """A kind that one server establishes is served by the other at its next request. A watch on one
    server sees writes through the other, and a deletion ends it on both."""
    settings = {"storage": f"etcd:{shared_etcd().url}", "etcd_prefix": f"/{uuid.uuid4().hex}"}
    server, peer = (make_server(**settings) for _ in "ab")
    crd = definition(group="shared.example.com")
    name = crd["metadata"]["name"]
    assert server.api.post(CRDS, crd).status == 201
    wait_for_condition(server.api, name, "Established", "True")
    path = path_of(crd)
    assert peer.api.post(path, widget(crd, "a")).status == 201
    assert server.api.get(f"{path}/a").status == 200
    with server.api.watch(f"{path}?watch=1") as stream:
        assert stream.event()["type"] == "ADDED"
        peer.api.delete(f"{CRDS}/{name}")
        event = stream.event()
        assert event["type"] == "DELETED", event
        assert stream.event() is None
