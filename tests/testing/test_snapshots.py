"""Snapshots: what restoring brings back, what watches see of it, and what goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kapiserver.testing import TestServer
from tests.testing.http_client import MERGE, HttpClient

CORE = "/api/v1/namespaces/default"
MAPS = f"{CORE}/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRONS = "/apis/example.com/v1/namespaces/default/crons"


@pytest.fixture
def server() -> Iterator[TestServer]:
    with TestServer() as server:
        yield server


@pytest.fixture
def client(server: TestServer) -> HttpClient:
    return HttpClient(server)


def _map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def _definition() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "crons.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "crons", "kind": "Cron"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def test_restore(server: TestServer, client: HttpClient) -> None:
    """Changed, deleted and new objects are as they were, with their uids; versions increase."""
    _, changed = client("POST", MAPS, _map("changed", k="1"))
    _, deleted = client("POST", MAPS, _map("deleted", k="1"))
    snapshot = server.state.snapshot()
    client("PATCH", f"{MAPS}/changed", {"data": {"k": "2"}}, type=MERGE)
    client("DELETE", f"{MAPS}/deleted")
    client("POST", MAPS, _map("new"))
    newest = client("GET", MAPS)[1]["metadata"]["resourceVersion"]
    server.state.restore(snapshot)
    assert client("GET", f"{MAPS}/new")[0] == 404
    for before in (changed, deleted):
        _, after = client("GET", f"{MAPS}/{before['metadata']['name']}")
        assert after["data"] == {"k": "1"}
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert int(after["metadata"]["resourceVersion"]) > int(newest)
    after["data"] = {"k": "3"}
    assert client("PUT", f"{MAPS}/deleted", after)[0] == 200


def test_snapshot_of_a_new_server(server: TestServer, client: HttpClient) -> None:
    """A snapshot has the objects that every cluster has, and those that a write causes."""
    server.state.restore(server.state.snapshot())
    assert server.state.dump() == ""
    assert client("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})[0] == 201
    snapshot = server.state.snapshot()
    account = "/api/v1/namespaces/n/serviceaccounts/default"
    uid = client("GET", account)[1]["metadata"]["uid"]
    server.state.restore(snapshot)
    assert client("GET", account)[1]["metadata"]["uid"] == uid


def test_watches_see_a_restore(server: TestServer, client: HttpClient) -> None:
    """A watch gets an event for each difference; another object of the same name is deleted
    first."""
    client("POST", MAPS, _map("replaced", k="1"))
    snapshot = server.state.snapshot()
    client("DELETE", f"{MAPS}/replaced")
    client("POST", MAPS, _map("replaced", k="2"))
    client("POST", MAPS, _map("new"))
    version = client("GET", MAPS)[1]["metadata"]["resourceVersion"]
    with client.watch(f"{MAPS}?watch=1&resourceVersion={version}") as stream:
        server.state.restore(snapshot)
        events = [json.loads(stream.readline()) for _ in range(3)]
    assert [(e["type"], e["object"]["metadata"]["name"]) for e in events] == [
        ("DELETED", "replaced"),
        ("ADDED", "replaced"),
        ("DELETED", "new"),
    ]
    assert events[1]["object"]["data"] == {"k": "1"}
    server.state.restore(snapshot)
    assert (
        client("GET", MAPS)[1]["metadata"]["resourceVersion"]
        == (events[2]["object"]["metadata"]["resourceVersion"])
    ), "there is nothing to restore"


def test_deleted_owners_come_back(server: TestServer, client: HttpClient) -> None:
    """The garbage collector leaves dependents alone whose owner was deleted and restored."""
    _, owner = client("POST", MAPS, _map("owner"))
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    dependent = _map("dependent", k="1")
    dependent["metadata"]["ownerReferences"] = [reference]
    client("POST", MAPS, dependent)
    snapshot = server.state.snapshot()
    client("DELETE", f"{MAPS}/owner")
    server.objects.wait_for("cm/dependent", "delete")
    server.state.restore(snapshot)
    client("PATCH", f"{MAPS}/dependent", {"data": {"k": "2"}}, type=MERGE)
    server.clock.advance("1m")
    assert client("GET", f"{MAPS}/dependent")[0] == 200
    client("DELETE", f"{MAPS}/owner")
    server.objects.wait_for("cm/dependent", "delete")


def test_namespaces_and_definitions(server: TestServer, client: HttpClient) -> None:
    """Deleted namespaces and definitions come back with their objects; new ones go at once."""
    client("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}})
    client("POST", "/api/v1/namespaces/a/configmaps", _map("m"))
    client("POST", DEFINITIONS, _definition())
    server.objects.wait_for("crd/crons.example.com", "condition=Established")
    cron = {"apiVersion": "example.com/v1", "kind": "Cron", "metadata": {"name": "c"}}
    client("POST", CRONS, cron)
    snapshot = server.state.snapshot()
    client("DELETE", "/api/v1/namespaces/a")
    client("DELETE", f"{DEFINITIONS}/crons.example.com")
    server.objects.wait_for("namespace/a", "delete")
    server.objects.wait_for("crd/crons.example.com", "delete")
    assert client("GET", CRONS)[0] == 404
    client("POST", "/api/v1/namespaces", {"metadata": {"name": "b"}})
    server.state.restore(snapshot)
    assert client("GET", "/api/v1/namespaces/a/configmaps/m")[0] == 200
    assert client("GET", "/api/v1/namespaces/b")[0] == 404
    assert client("GET", f"{CRONS}/c")[1]["metadata"]["name"] == "c"
    assert client("POST", CRONS, cron | {"metadata": {"name": "d"}})[0] == 201


def test_service_addresses(server: TestServer, client: HttpClient) -> None:
    """Addresses and ports of restored services are allocated, those of others are free."""
    spec = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30123}]}
    snapshot = server.state.snapshot()
    body = {"metadata": {"name": "s"}, "spec": spec | {"clusterIP": "10.0.0.77"}}
    assert client("POST", f"{CORE}/services", body)[0] == 201
    with_service = server.state.snapshot()
    server.state.restore(snapshot)
    assert client("POST", f"{CORE}/services", body)[0] == 201
    server.state.restore(with_service)
    assert client("POST", f"{CORE}/services", body | {"metadata": {"name": "t"}})[0] == 422


def test_expired_events_stay_away(server: TestServer, client: HttpClient) -> None:
    """An Event whose time is over is deleted again; one that still has time keeps its rest."""
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
    }
    client("POST", f"{CORE}/events", event)
    snapshot = server.state.snapshot()
    client("DELETE", f"{CORE}/events/e")
    server.clock.advance("30m")
    server.state.restore(snapshot)
    assert client("GET", f"{CORE}/events/e")[0] == 200
    server.clock.advance("31m")
    assert client("GET", f"{CORE}/events/e")[0] == 404
    server.state.restore(snapshot)
    server.clock.advance("1s")
    assert client("GET", f"{CORE}/events/e")[0] == 404


def test_reset(server: TestServer, client: HttpClient) -> None:
    """A reset leaves what every cluster has, and no faults, requests and history."""
    before = client("GET", "/api/v1/namespaces")[1]["items"]
    client("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}})
    client("DELETE", f"{CORE}/serviceaccounts/default")
    client("POST", MAPS, _map("m"))
    server.faults.respond(500, verb="delete")
    server.clock.advance("10s")  # APIServices and flow schemas are created after 5 s
    flow_schemas = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
    count = len(client("GET", flow_schemas)[1]["items"])
    server.reset()
    assert not server.faults
    assert not server.requests
    assert server.objects.history("cm", "m") == []
    names = [item["metadata"]["name"] for item in client("GET", "/api/v1/namespaces")[1]["items"]]
    assert names == [item["metadata"]["name"] for item in before]
    assert client("GET", MAPS)[1]["items"][0]["metadata"]["name"] == "kube-root-ca.crt"
    assert client("GET", f"{CORE}/serviceaccounts/default")[0] == 200
    assert len(client("GET", flow_schemas)[1]["items"]) == count > 0


def test_first_write_waits_for_the_bootstrap(client: HttpClient) -> None:
    """The service accounts of the first namespaces exist when the first write is answered."""
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    status, body = client("POST", f"{CORE}/pods", pod)
    assert (status, body["spec"]["serviceAccountName"]) == (201, "default")


def test_needs_a_store_in_memory(tmp_path: Any) -> None:
    """Over a file there are no snapshots; the other controls work."""
    with TestServer(storage=f"sqlite:{tmp_path / 'store'}") as server:
        for act in (server.state.snapshot, server.reset, server.state.dump):
            with pytest.raises(RuntimeError, match="not in memory"):
                act()
        server.clock.advance("1m")
        HttpClient(server)("POST", MAPS, _map("m"))
        assert server.objects.history("cm", "m")[0].operation == "created"
