"""Custom objects at rest: CBOR or JSON by the feature gate, both read; several servers."""

import asyncio
import json
import uuid
from collections.abc import Callable
from pathlib import Path

from kapiserver.apiserver.feature_gates import DEFAULT_GATES
from kapiserver.codecs import cbor
from tests.apiserver.conftest import Server
from tests.apiserver.customkit import (
    CRDS,
    conditions,
    definition,
    establish,
    path_of,
    until,
    widget,
)
from tests.storage.etcd_server import shared_etcd

MakeServer = Callable[..., Server]
JSON_GATES = DEFAULT_GATES - {"CBORServingAndStorage"}


def stored(server: Server, key: str) -> bytes:
    async def read() -> bytes:
        item = (await server._running.app.kv.get(f"/registry/{key}")).item
        assert item is not None
        return item.value

    return asyncio.run_coroutine_threadsafe(read(), server._loop).result(60)


def test_objects_are_stored_as_the_gate_says_and_both_are_read(
    make_server: MakeServer, tmp_path: Path
) -> None:
    """CBOR with the gate, JSON without, mixed in one store; neither holds a resourceVersion; equal
    objects have equal bytes."""
    storage = f"sqlite:{tmp_path / 'db'}"
    with_cbor = make_server(storage=storage)
    crd = definition(group="stored.example.com")
    path = establish(with_cbor.api, crd)
    with_cbor.api.post(path, widget(crd, "a", spec={"color": "red"}))
    first = stored(with_cbor, "stored.example.com/widgets/default/a")
    assert first.startswith(b"\xd9\xd9\xf7")
    tree = cbor.decode_value(first)
    assert "resourceVersion" not in tree["metadata"]
    assert first == b"\xd9\xd9\xf7" + cbor.encode_value(json.loads(json.dumps(tree)))
    with_cbor.end()

    plain = make_server(storage=storage, feature_gates=JSON_GATES)
    assert plain.api.get(f"{path}/a").json["spec"] == {"color": "red", "replicas": 3}
    plain.api.post(path, widget(crd, "b"))
    second = stored(plain, "stored.example.com/widgets/default/b")
    assert second.startswith(b'{"apiVersion":"stored.example.com/v1","kind":"Widget","metadata":')
    assert [one["metadata"]["name"] for one in plain.api.get(path).json["items"]] == ["a", "b"]
    refused = plain.api.get(path, accept="application/cbor")
    assert refused.status == 406
    plain.api.patch(f"{path}/a", {"metadata": {"labels": {"x": "y"}}})
    assert stored(plain, "stored.example.com/widgets/default/a").startswith(b"{")
    plain.end()

    again = make_server(storage=storage)
    assert [one["metadata"]["name"] for one in again.api.get(path).json["items"]] == ["a", "b"]
    again.api.patch(f"{path}/b", {"metadata": {"labels": {"x": "y"}}})
    assert stored(again, "stored.example.com/widgets/default/b").startswith(b"\xd9\xd9\xf7")


def put(server: Server, key: str, value: bytes) -> None:
    create = server._running.app.kv.create(f"/registry/{key}", value)
    asyncio.run_coroutine_threadsafe(create, server._loop).result(60)


def test_objects_of_old_servers_are_mended_as_they_are_read(own_server: Server) -> None:
    """What was stored before anybody looked at metadata is listed without what is none of it."""
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
    (found,) = own_server.api.get(path).json["items"]
    assert found["metadata"].keys() == {
        "generation", "name", "namespace", "resourceVersion", "uid",
    }  # fmt: skip
    assert found["spec"] == {"replicas": 3}
    assert own_server.api.patch(f"{path}/a", {"spec": {"color": "red"}}).status == 200


def test_definitions_of_old_times_lack_structure(own_server: Server) -> None:
    """A definition that nobody could write today says so in its conditions, for as long as it is
    so; its kind is served all the same."""
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
    found = until(api, "pads.old.example.com", "NonStructuralSchema", "True")
    (told,) = [one for one in found["status"]["conditions"] if one["reason"] == "Violations"]
    at = "spec.versions[0].schema.openAPIV3Schema.properties[spec]"
    words = "Required value: must not be empty for specified object fields"
    assert told["message"] == f"{at}.type: {words}"
    pad = {"apiVersion": "old.example.com/v1", "kind": "Pad", "metadata": {"name": "a"}}
    made = api.post(path.replace("widgets", "pads"), {**pad, "unknown": 1})
    assert (made.status, made.json.get("unknown")) == (201, 1)
    mended = {"preserveUnknownFields": False, "versions": crd["spec"]["versions"]}
    assert api.patch(f"{CRDS}/pads.old.example.com", {"spec": mended}).status == 200
    selector = f"{CRDS}?watch=1&fieldSelector=metadata.name=pads.old.example.com"
    with api.watch(selector) as stream:
        while "NonStructuralSchema" in conditions(stream.event()["object"]):
            pass


def test_definitions_are_served_after_a_restart(make_server: MakeServer, tmp_path: Path) -> None:
    """A server knows its custom kinds from its first request on."""
    storage = f"sqlite:{tmp_path / 'db'}"
    first = make_server(storage=storage)
    crd = definition(group="again.example.com")
    path = establish(first.api, crd)
    first.api.post(path, widget(crd, "a"))
    first.end()
    second = make_server(storage=storage)
    assert second.api.get(f"{path}/a").status == 200


def test_every_server_over_one_etcd_serves_a_definition_once_it_is_established(
    make_server: MakeServer,
) -> None:
    """What one server has established is found by the next request to the other; a watch through
    one sees writes through the other; a deletion through one ends it for both."""
    settings = {"storage": f"etcd:{shared_etcd().url}", "etcd_prefix": f"/{uuid.uuid4().hex}"}
    one, other = (make_server(**settings) for _ in "ab")
    crd = definition(group="shared.example.com")
    name = crd["metadata"]["name"]
    assert one.api.post(CRDS, crd).status == 201
    until(one.api, name, "Established", "True")
    path = path_of(crd)
    assert other.api.post(path, widget(crd, "a")).status == 201
    assert one.api.get(f"{path}/a").status == 200
    with one.api.watch(f"{path}?watch=1") as stream:
        assert stream.event()["type"] == "ADDED"
        other.api.delete(f"{CRDS}/{name}")
        event = stream.event()
        assert event["type"] == "DELETED", event
        assert stream.event() is None
