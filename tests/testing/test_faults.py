"""Injected faults: what clients get, what is stored, and what the history shows."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kapiserver.testing import TestServer
from kapiserver.testing.faults import faults
from tests.testing.http_client import MERGE, HttpClient

MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture(scope="module")
def shared() -> Iterator[TestServer]:
    with TestServer() as server:
        server.objects.wait_for(
            "cm/kube-root-ca.crt", "create", timeout="60s"
        )  # no watch gets its event
        yield server


@pytest.fixture
def server(shared: TestServer) -> Iterator[TestServer]:
    yield shared
    shared.faults.clear()


@pytest.fixture
def client(server: TestServer) -> HttpClient:
    return HttpClient(server)


def _map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"k": "1"}}


STATUSES = [
    ("PUT", 409, "Conflict", 'Operation cannot be fulfilled on configmaps "m": the object has been '
     "modified; please apply your changes to the latest version and try again"),
    ("POST", 409, "AlreadyExists", 'configmaps "m" already exists'),
    ("GET", 429, "TooManyRequests", "too many requests, please try again later"),
    ("GET", 404, "NotFound", 'configmaps "m" not found'),
    ("GET", 403, "Forbidden", 'configmaps "m" is forbidden: User "kubernetes-admin" cannot get '
     'resource "configmaps" in API group "" in the namespace "default"'),
    ("GET", 401, "Unauthorized", "Unauthorized"),
    ("GET", 410, "Expired", "The resourceVersion for the provided list is too old."),
    ("GET", 500, "InternalError", "Internal error occurred: etcdserver: leader changed"),
    ("GET", 503, "ServiceUnavailable", "the server is currently unable to handle the request"),
    ("GET", 504, "Timeout", "Timeout: request did not complete within the allotted timeout"),
    ("GET", 413, "RequestEntityTooLarge", "Request Entity Too Large"),
    ("GET", 422, "Invalid", "Unprocessable Entity"),
    ("GET", 418, "", "I'm a teapot"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "code", "reason", "message"), STATUSES)
def test_statuses(
    server: TestServer, client: HttpClient, method: str, code: int, reason: str, message: str
) -> None:
    """Each status has the Status body that kube-apiserver sends, and is injected once."""
    fault = server.faults.respond(code, resource="configmaps", name="m", times=1)
    path = MAPS if method == "POST" else f"{MAPS}/m"
    status, body = client(method, path, None if method == "GET" else _map("m"))
    assert (status, body["code"], body.get("reason", "")) == (code, code, reason)
    assert body["message"] == message
    assert fault.injected == 1
    assert client("GET", f"{MAPS}/m")[0] == 404, "the fault is used up"


def test_retry_after(server: TestServer, client: HttpClient) -> None:
    """429 has the header Retry-After; a message replaces that of kube-apiserver."""
    server.faults.respond(429, verb="list", retry_after=7, message="slow down")
    request = http.client.HTTPSConnection(server.url.removeprefix("https://"), context=_tls(client))
    request.request("GET", MAPS, headers={"Authorization": f"Bearer {server.token}"})
    response = request.getresponse()
    body = json.load(response)
    request.close()
    assert (response.status, response.headers["Retry-After"]) == (429, "7")
    assert (body["message"], body["details"]["retryAfterSeconds"]) == ("slow down", 7)


def _tls(client: HttpClient) -> Any:
    return client._context()


@pytest.mark.parametrize(
    ("fields", "hit"),
    [
        ({"verb": "get"}, True),
        ({"verb": "list,get"}, True),
        ({"verb": ["update"]}, False),
        ({"resource": "deployments.apps"}, True),
        ({"resource": "deployments.extensions"}, False),
        ({"resource": "deployments"}, True),
        ({"resource": "deployments/status"}, False),
        ({"resource": "*"}, True),
        ({"resource": "deployments", "namespace": "kube-system"}, False),
        ({"name": "d"}, True),
        ({"name": "e"}, False),
        ({"name": "[a-d]"}, True),
        ({"resource": "deploy*.app?"}, True),
        ({"resource": "deployments*/stat*"}, False),
        ({"namespace": "def*"}, True),
        ({"namespace": "DEF*"}, False),
        ({"user": "kubernetes-admin"}, True),
        ({"user": "somebody"}, False),
        ({"user": "kubernetes-*"}, True),
        ({"user_agent": "tests"}, True),
        ({"user_agent": "te*"}, True),
        ({"user_agent": "test"}, False),
        ({"user_agent": "kubectl*"}, False),
    ],
)
def test_matching(
    server: TestServer, client: HttpClient, fields: dict[str, Any], hit: bool
) -> None:
    """A fault is injected into requests that match all of its fields, which are globs."""
    server.faults.respond(500, **fields)
    assert client("GET", f"{DEPLOYMENTS}/d")[0] == (500 if hit else 404)


def test_discovery_is_spared(server: TestServer, client: HttpClient) -> None:
    """Discovery fails only with a fault that names no verb and no resource."""
    with server.faults.respond(500, verb="get"):
        assert client("GET", "/version")[0] == 200
    with server.faults.respond(500):
        assert client("GET", "/version")[0] == 500
    assert client("GET", "/version")[0] == 200


def test_subresources(server: TestServer, client: HttpClient) -> None:
    """A subresource is named as in rules of RBAC."""
    server.faults.respond(409, resource="namespaces/*")
    assert client("GET", "/api/v1/namespaces/default")[0] == 200
    assert client("GET", "/api/v1/namespaces/default/status")[0] == 409


def test_after_write(server: TestServer, client: HttpClient) -> None:
    """The client gets an error although its write is stored: the time-out after success."""
    server.faults.respond(504, verb="create", resource="configmaps", after_write=True, times=1)
    assert client("POST", MAPS, _map("written"))[0] == 504
    assert client("POST", MAPS, _map("written"))[0] == 409


def test_dropped_connection(server: TestServer, client: HttpClient) -> None:
    """The connection is closed without a response, before or after the write."""
    for after_write in (False, True):
        name = f"dropped-{after_write}".lower()
        with (
            server.faults.drop(verb="create", after_write=after_write),
            pytest.raises((http.client.RemoteDisconnected, ConnectionError)),
        ):
            client("POST", MAPS, _map(name))
        assert client("GET", f"{MAPS}/{name}")[0] == (200 if after_write else 404)
    assert server.requests.select(verb="create", name="dropped-true")[0].status == 0


def test_probability(server: TestServer, client: HttpClient) -> None:
    """With a seed the same requests fail in each run."""
    runs = []
    for _ in range(2):
        with server.faults.respond(500, verb="get", probability=0.5, seed=7):
            runs.append([client("GET", f"{MAPS}/none")[0] for _ in range(12)])
    assert runs[0] == runs[1]
    assert set(runs[0]) == {500, 404}


def test_delay(server: TestServer, client: HttpClient) -> None:
    """A slow answer is slow in real time; the history has its latency."""
    server.faults.delay("50ms", verb="get", name="slow")
    assert client("GET", f"{MAPS}/slow")[0] == 404
    assert client("GET", MAPS)[0] == 200  # the earlier request is complete now
    (record,) = server.requests.select(name="slow")
    assert record.seconds is not None
    assert record.seconds >= 0.05


def test_stale_reads(server: TestServer, client: HttpClient) -> None:
    """Gets and lists show the state when the fault was added, and a write from them conflicts."""
    client("POST", MAPS, _map("stale"))
    fault = server.faults.read_stale(resource="configmaps")
    client("PATCH", f"{MAPS}/stale", {"data": {"k": "2"}}, type=MERGE)
    client("POST", MAPS, _map("newer"))
    _, stale = client("GET", f"{MAPS}/stale")
    assert stale["data"] == {"k": "1"}
    assert client("GET", f"{MAPS}/newer")[0] == 404
    _, listed = client("GET", MAPS)
    assert "newer" not in [item["metadata"]["name"] for item in listed["items"]]
    assert client("PUT", f"{MAPS}/stale", stale)[0] == 409
    fault.remove()
    assert client("GET", f"{MAPS}/stale")[1]["data"] == {"k": "2"}


def test_dropped_watch(server: TestServer, client: HttpClient) -> None:
    """Open watches end cleanly at once; later ones are served when the fault is removed."""
    with client.watch(f"{MAPS}?watch=1") as stream:
        stream.readline()
        server.faults.end_watches(resource="configmaps").remove()
        assert b"" in iter(stream.readline, None)  # ends
    version = client("GET", MAPS)[1]["metadata"]["resourceVersion"]
    with client.watch(f"{MAPS}?watch=1&resourceVersion={version}") as stream:
        client("POST", MAPS, _map("seen"))
        assert json.loads(stream.readline())["object"]["metadata"]["name"] == "seen"


def test_aborted_watch(server: TestServer, client: HttpClient) -> None:
    """With `abort` the stream breaks off."""
    with client.watch(f"{MAPS}?watch=1&resourceVersion=1") as stream:
        server.faults.end_watches(abort=True, times=1)
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            stream.read()


def test_expired_watch(server: TestServer, client: HttpClient) -> None:
    """The last event of an expired watch is the Status 410 Expired, of new watches too."""
    version = client("GET", MAPS)[1]["metadata"]["resourceVersion"]
    with client.watch(f"{MAPS}?watch=1&resourceVersion={version}") as stream:
        server.faults.expire_watches()
        event = json.loads(stream.readline())
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        assert event["object"]["reason"] == "Expired"
        assert event["object"]["message"].startswith(f"too old resource version: {version} (")
        assert not stream.readline()
    with client.watch(f"{MAPS}?watch=1&resourceVersion={version}") as stream:
        assert json.loads(stream.readline())["object"]["code"] == 410


def test_partition(server: TestServer, client: HttpClient) -> None:
    """Behind a partition a watch is silent and a request waits; both go on when it heals."""
    other = HttpClient(server, agent="other")
    version = client("GET", MAPS)[1]["metadata"]["resourceVersion"]
    results: list[int] = []
    with client.watch(f"{MAPS}?watch=1&resourceVersion={version}") as stream:
        fault = server.faults.partition(user_agent="Python-urllib/*")
        waiting = server.faults.partition(user_agent="tests", verb="get", name="p")
        request = threading.Thread(target=lambda: results.append(client("GET", f"{MAPS}/p")[0]))
        request.start()
        assert other("POST", MAPS, _map("p"))[0] == 201
        server.wait_until(lambda: waiting.injected)
        assert not results
        fault.remove()
        assert json.loads(stream.readline())["object"]["metadata"]["name"] == "p"
        waiting.remove()
        request.join(60)
    assert results == [200]


def test_history(server: TestServer, client: HttpClient) -> None:
    """The record of a request names the faults that were injected; a fault is shown as JSON."""
    fault = server.faults.respond(500, verb="delete")
    client("DELETE", f"{MAPS}/m")
    (record,) = server.requests.select(verb="delete", name="m")
    assert record.faults == [fault.number]
    assert str(record).endswith(f"delete configmaps default/m: 500 (faults {fault.number})")
    document = json.loads(json.dumps(fault.to_dict()))
    assert (document["verbs"], document["status"], document["injected"]) == (["delete"], 500, 1)
    server.faults.remove(fault.number)
    assert not list(server.faults)
    with pytest.raises(KeyError):
        server.faults.remove(fault.number)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"status": 200}, "status must be 400 to 599"),
        ({"times": 0}, "times must be at least 1"),
        ({"probability": 2}, "probability must be 0 to 1"),
        ({"verb": "post"}, "'post' is not a verb"),
        ({"verb": "GET"}, "'GET' is not a verb"),
        ({"resource": "configmap"}, "configmap"),
        ({"resource": "Deployment.apps"}, "Deployment.apps"),
    ],
)
def test_refused(server: TestServer, fields: dict[str, Any], message: str) -> None:
    """Values that make no sense or match no request are refused."""
    with pytest.raises(ValueError, match=message):
        server.faults.respond(**{"status": 500, **fields})


def test_refused_durations(server: TestServer) -> None:
    """A text that is no duration is refused."""
    with pytest.raises(ValueError, match="'soon' is not a duration"):
        server.faults.delay("soon")
    with pytest.raises(ValueError, match="'soon' is not a duration"):
        server.faults.end_watches(after="soon")


def test_effects_add_up(server: TestServer, client: HttpClient) -> None:
    """A request gets the effects of all faults that match it, in their order, until one ends it."""
    delay = server.faults.delay("20ms", verb="create")
    error = server.faults.respond(500, verb="create")
    unused = server.faults.respond(503, verb="create")
    assert client("POST", MAPS, _map("never"))[0] == 500
    assert (delay.injected, error.injected, unused.injected) == (1, 1, 0)
    (record,) = server.requests.select(verb="create", name="never")
    assert record.faults == [delay.number, error.number]
    assert client("GET", f"{MAPS}/never")[0] == 404


def test_delayed_end_of_watches(server: TestServer, client: HttpClient) -> None:
    """With `after` open watches end later."""
    version = client("GET", MAPS)[1]["metadata"]["resourceVersion"]
    with client.watch(f"{MAPS}?watch=1&resourceVersion={version}") as stream:
        assert server.faults.end_watches(after="1h", times=1).injected == 1
        client("POST", MAPS, _map("before-the-end"))
        assert json.loads(stream.readline())["object"]["metadata"]["name"] == "before-the-end"
        assert server.faults.expire_watches(after="10ms", times=1).injected == 1
        assert json.loads(stream.readline())["object"]["code"] == 410
        assert not stream.readline()


def test_used_up_faults_leave_room(
    server: TestServer, client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit counts the faults that still affect requests."""
    monkeypatch.setattr(faults, "MAX_FAULTS", 2)
    for _ in range(3):
        server.faults.respond(500, verb="*", resource="configmaps", times=1)
        assert client("GET", f"{MAPS}/m")[0] == 500
    server.faults.delay("1ms", resource="configmaps")
    server.faults.delay("1ms", resource="configmaps")
    with pytest.raises(ValueError, match="there are 2 faults already"):
        server.faults.delay("1ms", resource="configmaps")


def test_stops_behind_a_partition() -> None:
    """A server with a partition stops, and its clients lose their connections."""
    with TestServer() as server:
        client = HttpClient(server)
        fault = server.faults.partition(verb="get")
        errors: list[Exception] = []

        def get() -> None:
            try:
                client("GET", f"{MAPS}/m")
            except (OSError, http.client.HTTPException) as error:
                errors.append(error)

        request = threading.Thread(target=get)
        request.start()
        server.wait_until(lambda: fault.injected)
    request.join(60)
    assert errors
