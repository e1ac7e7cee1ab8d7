"""The requests that a test server has received."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator

import pytest

from kapiserver.apiserver.request import Request
from kapiserver.codecs.media_types import PROTOBUF
from kapiserver.testing import TestServer
from kapiserver.testing.history import requests
from kapiserver.testing.history.requests import RequestRecord
from tests.testing.http_client import MERGE, HttpClient

MAPS = "/api/v1/namespaces/default/configmaps"
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "1"}}


@pytest.fixture
def server() -> Iterator[TestServer]:
    with TestServer() as server:
        yield server


def test_record(server: TestServer) -> None:
    """A record says who did what to which object, with which body, and how it ended."""
    client = HttpClient(server, agent="operator/1")
    server.clock.freeze()
    client("POST", MAPS, MAP)
    client("PATCH", f"{MAPS}/m", {"data": {"k": "2"}}, type=MERGE)
    created, patched = server.requests
    assert (created.verb, created.target, created.status) == ("create", "configmaps default/m", 201)
    assert created.body == MAP
    assert created.time == server.clock.now()
    assert (patched.user, patched.user_agent) == ("kubernetes-admin", "operator/1")
    assert (patched.content_type, patched.body) == (MERGE, {"data": {"k": "2"}})
    assert patched.seconds is not None
    assert str(patched) == "#2 kubernetes-admin patch configmaps default/m: 200"
    document = json.loads(json.dumps(patched.to_dict()))
    assert document["time"] == server.clock.time.isoformat()
    assert (document["uri"], document["body"]) == (f"{MAPS}/m", {"data": {"k": "2"}})


def test_bodies_of_other_media_types(server: TestServer) -> None:
    """Bodies in protobuf and YAML are shown as JSON."""
    codecs = server.running.cluster.server.codecs
    encoded = codecs.serializer_for(PROTOBUF).encode(MAP)
    client = HttpClient(server)
    assert client.send("POST", MAPS, encoded, type="application/vnd.kubernetes.protobuf")[0] == 201
    applied = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    path = f"{MAPS}/a?fieldManager=t"
    assert client.send("PATCH", path, applied, type="application/apply-patch+yaml")[0] == 201
    first, second = server.requests
    assert (first.body["metadata"]["name"], first.body["data"]) == ("m", {"k": "1"})
    assert second.body["metadata"] == {"name": "a"}


def test_malformed_body(server: TestServer) -> None:
    """A body that is no JSON has no value."""
    assert HttpClient(server).send("POST", MAPS, b"{", type="application/json")[0] == 400
    assert server.requests[0].body is None
    assert server.requests[0].target == "configmaps default"


def test_select(server: TestServer) -> None:
    """Selecting takes the arguments of faults, and a status."""
    client = HttpClient(server)
    client("POST", MAPS, MAP)
    client("POST", MAPS, MAP)
    client("GET", "/version")
    select = server.requests.select
    assert [record.status for record in select(verb="create", name="m")] == [201, 409]
    assert len(select(resource="configmaps", status=409)) == 1
    assert len(select()) == 3
    server.requests.clear()
    assert not server.requests


def test_open_watch(server: TestServer) -> None:
    """A watch is recorded when it opens, and has a status when it has ended."""
    client = HttpClient(server)
    with client.watch(f"{MAPS}?watch=1&resourceVersion=1"):
        (record,) = server.requests
        assert (record.verb, record.status) == ("watch", None)
    server.stop()
    assert record.status == 200


def test_memory_is_bounded(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest requests, and those with the oldest bodies, are forgotten."""
    monkeypatch.setattr(requests, "MAX_REQUESTS", 2)
    client = HttpClient(server)
    for number in range(4):
        client("GET", f"{MAPS}/m{number}")
    assert [record.name for record in server.requests] == ["m2", "m3"]
    monkeypatch.setattr(requests, "MAX_BODIES_BYTES", 100)
    for number in range(4):
        client("POST", MAPS, {"metadata": {"name": f"n{number}"}})
    assert len(server.requests) < 3
    assert server.requests[-1].object_name == "n3"


def test_forgotten_before_the_body_came(
    server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The body of a request that a test has cleared takes no room from those that follow."""
    monkeypatch.setattr(requests, "MAX_BODIES_BYTES", 150)
    client, patch = HttpClient(server), {"data": {"k": "x" * 80}}
    for name in ("a", "b", "c"):
        with server.faults.partition(verb="patch") as fault:
            waiting = threading.Thread(
                target=lambda: client("PATCH", f"{MAPS}/none", patch, type=MERGE)
            )
            waiting.start()
            server.wait_until(lambda fault=fault: fault.injected)
            server.requests.clear()
        waiting.join()
        assert client("POST", MAPS, MAP | {"metadata": {"name": name}})[0] == 201
        assert server.requests[-1].object_name == name


@pytest.mark.own_process
def test_records_are_no_cycles(server: TestServer) -> None:
    """Requests are freed when they have ended, and records when they are forgotten, without the
    garbage collector."""

    def count() -> int:
        return sum(isinstance(obj, RequestRecord | Request) for obj in gc.get_objects())

    client = HttpClient(server)
    gc.collect()
    gc.disable()
    try:
        before = count()
        client("POST", MAPS, MAP)
        client("PATCH", f"{MAPS}/m", {"data": {"k": "2"}}, type=MERGE)
        assert server.requests[0].body == MAP
        server.requests.clear()
        # A request ends some turns of the loop after its response.
        turns = 0
        while server.call(count) > before and turns < 500:
            turns += 1
        assert turns < 500
    finally:
        gc.enable()


def test_impersonation(server: TestServer) -> None:
    """A record names the impersonated user and who impersonates."""
    client = HttpClient(server)
    client("GET", MAPS, headers={"Impersonate-User": "jane"})
    (record,) = server.requests
    assert (record.user, record.impersonator, record.status) == ("jane", "kubernetes-admin", 403)
