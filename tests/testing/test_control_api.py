"""The control API: its operations, its errors, its OpenAPI document."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from kapiserver.codecs import cbor
from kapiserver.testing import TestServer
from kapiserver.testing.control_api import server as control_api
from kapiserver.testing.control_api.operations import OPERATIONS
from kapiserver.testing.control_api.server import BODY_LIMIT, ControlApi, conforms, openapi
from kapiserver.testing.history import recorder
from tests.testing.http_client import MERGE, HttpClient

WAIT = "/objects/wait-for"


class Answer(NamedTuple):
    """A response of the control API."""

    status: int
    json: Any


class Control:
    """A client of the control API of a server."""

    def __init__(self, api: ControlApi) -> None:
        self.api = api

    def __call__(
        self, method: str, path: str, body: Any = None, *, token: str | None = None
    ) -> Answer:
        """Send a request; `body` is JSON, or bytes as they are."""
        connection = http.client.HTTPConnection(urlsplit(self.api.url).netloc, timeout=60)
        try:
            data = body if isinstance(body, bytes) else json.dumps(body) if body else None
            token = self.api.token if token is None else token
            connection.request(method, path, data, {"Authorization": f"Bearer {token}"})
            response = connection.getresponse()
            return Answer(response.status, json.loads(response.read()))
        finally:
            connection.close()


@pytest.fixture(scope="module")
def server() -> Iterator[TestServer]:
    with TestServer() as running:
        yield running


@pytest.fixture(scope="module")
def control(server: TestServer) -> Iterator[Control]:
    """A client of the control API of the module's server."""
    with control_of(server) as client:
        yield client


@contextmanager
def control_of(server: TestServer) -> Iterator[Control]:
    """Serve the control API of a server until the block ends."""
    api = ControlApi(server)
    with ExitStack() as stack:
        listening = api.listen("127.0.0.1", 0)
        server.run(listening.__aenter__())
        stack.callback(lambda: server.run(listening.__aexit__(None, None, None)))
        yield Control(api)


def test_clock(server: TestServer, control: Control) -> None:
    """A client freezes, advances and resumes the time of the server."""
    frozen = control("POST", "/clock/freeze").json
    assert frozen["frozen"] is True
    advanced = control("POST", "/clock/advance", {"duration": "10m"}).json
    assert control("GET", "/clock").json == advanced
    assert server.clock.time.isoformat() == advanced["time"]
    assert advanced["time"] > frozen["time"]
    assert control("POST", "/clock/advance", {"duration": 1.5}).status == 200
    assert control("POST", "/clock/resume").json["frozen"] is False


def test_faults(server: TestServer, control: Control) -> None:
    """A client adds, lists and removes faults."""
    arguments = {"verb": ["get", "list"], "resource": "configmaps", "status": 503, "times": 1}
    fault = control("POST", "/faults/respond", arguments).json
    assert (fault["effect"], fault["status"], fault["injected"]) == ("respond", 503, 0)
    client = HttpClient(server, agent="faults")
    assert client("GET", "/api/v1/configmaps")[0] == 503
    assert client("GET", "/api/v1/configmaps")[0] == 200
    listed = control("GET", "/faults").json["items"]
    assert [(each["number"], each["injected"]) for each in listed] == [(fault["number"], 1)]
    assert control("DELETE", f"/faults/{fault['number']}").json == {}
    assert control("DELETE", f"/faults/{fault['number']}").status == 404
    assert control("POST", "/faults/end-watches", {"abort": True}).status == 200
    assert control("DELETE", "/faults").status == 200
    assert control("GET", "/faults").json == {"items": []}


def test_users(server: TestServer, control: Control) -> None:
    """A client adds users and ServiceAccounts with rights; a reset removes them."""
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    alice = control("POST", "/users", {"name": "alice", "rules": rules}).json
    account = {"name": "robot", "rules": rules, "role_namespace": "default"}
    robot = control("POST", "/service-accounts", account).json
    assert robot["name"] == "system:serviceaccount:default:robot"
    for user in (alice, robot):
        assert user["token"] in Path(user["kubeconfig"]).read_text()
        client = HttpClient(server, token=user["token"])
        assert client("GET", "/api/v1/namespaces/default/configmaps")[0] == 200
        assert client("GET", "/api/v1/namespaces/default/secrets")[0] == 403
    answer = control("POST", "/users", {"name": "bob", "rules": [{}]})
    assert answer.status == 422
    assert "verbs: Required value" in answer.json["message"]
    assert control("POST", "/users").json == {"message": "a user needs a name or groups"}
    assert control("POST", "/reset").status == 200
    for user in (alice, robot):
        client = HttpClient(server, token=user["token"])
        assert client("GET", "/api/v1/namespaces/default/configmaps")[0] == 401


def test_requests(server: TestServer, control: Control) -> None:
    """A client reads the requests that the server received, and forgets them."""
    control("DELETE", "/requests")
    client = HttpClient(server, agent="requests/1")
    client("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "seen"}})
    client("GET", "/api/v1/namespaces/default/configmaps/missing")
    items = control("GET", "/requests?user_agent=requests/*&status=201").json["items"]
    assert [(each["verb"], each["resource"], each["status"]) for each in items] == [
        ("create", "configmaps", 201)
    ]
    assert items[0]["body"] == {"metadata": {"name": "seen"}}
    assert control("GET", "/requests?verb=get&name=missing").json["items"][0]["status"] == 404


def test_state(server: TestServer, control: Control) -> None:
    """A client loads objects, takes snapshots and restores them, dumps, and resets the server."""
    maps = "/api/v1/namespaces/default/configmaps"
    client = HttpClient(server)
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: loaded}\ndata: {x: '1'}\n"
    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "loaded"}}
    items = control("POST", "/state/load", {"sources": [text, other]}).json["items"]
    assert sorted(each["kind"] for each in items) == ["ConfigMap", "Secret"]
    number = control("POST", "/state/snapshots").json["number"]
    client("PATCH", f"{maps}/loaded", {"data": {"x": "2"}}, type=MERGE)
    diff = control("GET", "/objects/cm/loaded/history").json["items"][-1]["diff"]
    assert len(diff) == 1
    assert "data.x" in diff[0]
    assert control("POST", f"/state/snapshots/{number}/restore").json == {}
    assert client("GET", f"{maps}/loaded")[1]["data"] == {"x": "1"}
    dumped = control("POST", "/state/dump", {"kinds": ["configmaps"], "namespace": "default"})
    assert "name: loaded" in dumped.json["yaml"]
    assert control("DELETE", f"/state/snapshots/{number}").status == 200
    assert control("DELETE", f"/state/snapshots/{number}").status == 404
    assert control("POST", f"/state/snapshots/{number}/restore").status == 404
    assert control("POST", "/reset").json == {}
    assert client("GET", f"{maps}/loaded")[0] == 404


def test_wait(server: TestServer, control: Control) -> None:
    """A client waits for an object, its condition and its deletion; a failure says what it saw."""
    maps = "/api/v1/namespaces/default/configmaps"
    client = HttpClient(server)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(control, "POST", WAIT, {"target": "cm/w", "condition": "create"})
        client("POST", maps, {"metadata": {"name": "w"}, "data": {"x": "1"}})
        assert waiting.result().json["object"]["data"] == {"x": "1"}
    assert control("POST", "/settle").json == {}
    wait = {"target": "cm/w", "condition": "jsonpath={.data.x}=2", "timeout": "10ms"}
    answer = control("POST", WAIT, wait)
    assert answer.status == 417
    assert "cm/w in namespace default has not met jsonpath" in answer.json["message"]
    assert "last seen" in answer.json["message"]
    client("DELETE", f"{maps}/w")
    assert control("POST", WAIT, {"target": "cm/w", "condition": "delete"}).json == {"object": None}


def test_nodes() -> None:
    """A client stops and starts the kubelet of a simulated node, and decides what it reports."""
    node = {"name": "simulated-0"}
    with TestServer(simulate=True) as server, control_of(server) as control:
        control("POST", "/settle")
        assert control("POST", "/nodes/stop", node) == (200, {})
        control("POST", "/clock/advance", {"duration": "1m"})
        for status in ("Unknown", "True"):
            wait = {"target": "node/simulated-0", "condition": f"condition=Ready={status}"}
            assert control("POST", WAIT, wait).status == 200
            assert control("POST", "/nodes/start", node) == (200, {})
        assert control("POST", "/nodes/stop", {"name": "absent"}).status == 404
        assert control("POST", "/nodes/set-healthy", node | {"healthy": False}) == (200, {})
        unknown = {"healthy": False, "condition": "Hungry"}
        assert control("POST", "/nodes/set-healthy", node | unknown).status == 400


def test_wait_ends_with_the_server(server: TestServer) -> None:
    """A server that stops does not wait for the waits of its clients."""
    api = ControlApi(server)
    listening = api.listen("127.0.0.1", 0)
    server.run(listening.__aenter__())
    with ThreadPoolExecutor() as pool:
        wait = {"target": "cm/none", "condition": "create", "timeout": "1h"}
        waiting = pool.submit(Control(api), "POST", WAIT, wait)
        while not server.call(lambda: bool(server._activity._waiters)):
            pass
        server.run(listening.__aexit__(None, None, None))
        assert isinstance(waiting.exception(), (http.client.HTTPException, OSError))


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        (WAIT, {"target": "cm/none", "condition": "create", "timeout": "1h"}),
        ("/objects/assert-converges", {"within": "1h", "quiet": "1h"}),
    ],
)
def test_wait_ends_with_its_client(
    server: TestServer,
    control: Control,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    arguments: dict[str, str],
) -> None:
    """An operation that waits ends when its client closes the connection."""
    monkeypatch.setattr(control_api, "CONNECTION_CHECK_SECONDS", 0.001)

    def is_waiting() -> bool:
        return bool(server._activity._waiters)

    connection = http.client.HTTPConnection(urlsplit(control.api.url).netloc, timeout=60)
    headers = {"Authorization": f"Bearer {control.api.token}"}
    connection.request("POST", path, json.dumps(arguments), headers)
    while not server.call(is_waiting):
        pass
    connection.close()
    while server.call(is_waiting):
        pass


def test_assertions(server: TestServer, control: Control) -> None:
    """A client asserts that writes come to rest, and that nobody writes in a hot loop."""
    maps = "/api/v1/namespaces/default/configmaps"
    client = HttpClient(server, agent="hot")
    assert control("POST", "/objects/assert-converges", {"quiet": "10ms"}).json == {}
    control("DELETE", "/requests")
    client("POST", maps, {"metadata": {"name": "hot"}})
    for number in range(3):
        client("PATCH", f"{maps}/hot", {"data": {"x": str(number)}}, type=MERGE)
    assert control("POST", "/requests/assert-no-hot-loop", {}).json == {}
    hot = control("POST", "/requests/assert-no-hot-loop", {"requests": 2, "within": "1m"})
    assert hot.status == 417
    assert "sent patch" in hot.json["message"]
    other = {"requests": 2, "within": "1m", "verb": "create"}
    assert control("POST", "/requests/assert-no-hot-loop", other).json == {}


def test_recording(control: Control, tmp_path: Path) -> None:
    """A client saves the recording of a test, for `kapiserver replay`."""
    path = tmp_path / "failed.recording"
    answer = control("POST", "/recording", {"path": str(path), "test": "TestFailed"})
    assert answer.json == {}
    assert recorder.read(path).test == "TestFailed"


@pytest.mark.parametrize("data", [{"x": "1"}, {"x": b"\xff"}])
def test_requests_in_cbor(server: TestServer, control: Control, data: Any) -> None:
    """A body in another encoding is shown as JSON."""
    control("DELETE", "/requests")
    body = cbor.encode_value({"kind": "ConfigMap", "apiVersion": "v1", "data": data})
    url = f"{server.url}/api/v1/namespaces/default/configmaps"
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/cbor"}
    request = urllib.request.Request(url, body, headers)
    context = ssl.create_default_context(cafile=server.ca)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, context=context)
    refused.value.close()
    assert control("GET", "/requests").status == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("GET", "/nothing", None, 404, "there is no /nothing"),
        ("DELETE", "/clock", None, 405, "/clock has no method DELETE"),
        ("POST", "/clock/advance", None, 400, "advanceClock needs the argument duration"),
        ("POST", "/clock/advance", {"duration": []}, 400, "duration must be a string or a number"),
        ("POST", "/clock/advance", {"duration": True}, 400, "duration must be a string"),
        ("POST", "/clock/advance", {"duration": "x"}, 400, "'x' is not a duration"),
        ("POST", "/clock/advance", {"duration": -1}, 400, "-1 is not a duration"),
        ("POST", "/clock/advance", {"seconds": 1}, 400, "advanceClock has no argument seconds"),
        ("POST", "/clock/advance", [1], 400, "the body must be a JSON object"),
        ("POST", "/clock/advance", b"{", 400, "unexpected end of JSON input"),
        ("POST", "/clock/advance", b'{"duration":1e400}', 400, "1e400"),
        ("POST", "/clock/advance", b"[" * 100_000, 400, "exceeded max depth"),
        ("POST", "/clock/advance", b"x" * (BODY_LIMIT + 1), 413, "too large"),
        ("POST", "/faults", {}, 405, "has no method POST"),
        ("POST", "/faults/respond", {}, 400, "injectErrors needs the argument status"),
        ("POST", "/faults/respond", {"status": 200}, 400, "status must be 400 to 599"),
        ("POST", "/faults/drop", {"verb": [1]}, 400, "verb must be a string or an array"),
        ("POST", "/faults/drop", {"times": 1.5}, 400, "times must be an integer"),
        ("POST", WAIT, {"target": "cm/x"}, 400, "waitFor needs the argument condition"),
        ("POST", WAIT, {"target": "cm", "condition": "create"}, 400, "is not an object"),
        ("POST", WAIT, {"target": "cm/x", "condition": "gone"}, 400, "is not a condition"),
        (
            "POST",
            WAIT,
            {"target": "cm/x", "condition": "create", "timeout": "2h"},
            400,
            "'2h' is too long",
        ),
        ("POST", "/objects/assert-converges", {"within": 1, "quiet": 2}, 400, "does not fit"),
        ("POST", "/objects/assert-converges", {"within": "7d"}, 400, "'7d' is too long"),
        ("POST", "/recording", {"path": "/dev/null/x"}, 400, "/dev/null"),
        ("POST", "/state/load", {"sources": ["/no/such/file.yaml"]}, 400, "/no/such/file.yaml"),
        ("POST", "/state/load", {"sources": [1]}, 400, "sources must be an array"),
        ("POST", "/state/load", {"sources": [{"kind": "No", "apiVersion": "v1"}]}, 400, "No"),
        (
            "POST",
            "/state/load",
            {"sources": [{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}}]},
            422,
            "spec.containers",
        ),
        ("POST", "/state/dump", {"kinds": ["nothing"]}, 400, "nothing"),
        ("GET", "/objects/nothing/x/history", None, 400, "nothing"),
        ("GET", "/objects/pod/x/history?namespace=none", None, 200, ""),
        ("DELETE", "/faults/x", None, 400, "invalid character"),
        ("DELETE", "/faults/1e9", None, 400, "number must be an integer"),
        ("GET", "/clock?x=1", None, 400, "readClock has no argument x; it has: none"),
    ],
)
def test_errors(
    control: Control, method: str, path: str, body: Any, status: int, message: str
) -> None:
    """A request that cannot be served gets an error whose message says why."""
    answer = control(method, path, body)
    assert answer.status == status, answer
    assert message in answer.json.get("message", "")


def test_token(control: Control) -> None:
    """Operations need the token; the OpenAPI document does not."""
    for token in ("", "x", control.api.token[:-1]):
        assert control("GET", "/clock", token=token).status == 401
    document = control("GET", "/openapi.json", token="").json
    assert document["servers"] == [{"url": control.api.url}]


def test_openapi() -> None:
    """The document is valid and describes every operation."""
    document = json.loads(json.dumps(openapi("http://127.0.0.1:1")))
    OpenAPIV31SpecValidator(document).validate()
    documented = {
        (method.upper(), path, operation["operationId"])
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    assert documented == {(each.method, each.path, each.name) for each in OPERATIONS}


@pytest.mark.parametrize(
    ("value", "schema", "result"),
    [
        ("x", {"type": "string"}, True),
        (1, {"type": "string"}, False),
        (1, {"type": "number"}, True),
        (1.5, {"type": "integer"}, False),
        (True, {"type": "integer"}, False),
        (["x"], {"type": "array", "items": {"type": "string"}}, True),
        (["x", 1], {"type": "array", "items": {"type": "string"}}, False),
        (1, {"anyOf": [{"type": "string"}, {"type": "integer"}]}, True),
    ],
)
def test_conforms(value: Any, schema: Any, result: bool) -> None:
    """A value conforms to a schema if it has its JSON type; a boolean is not a number."""
    assert conforms(value, schema) is result
