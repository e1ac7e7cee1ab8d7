"""Requests for a group-version that an extension API server serves."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kapiserver.api.resource_client import Event, ResourceClient, StatusError
from kapiserver.apiserver.proxy import api_servers
from kapiserver.apiserver.user import APISERVER, User
from tests.apiserver.aggregation.aggregationkit import (
    CLOSE,
    GROUP,
    PATH,
    SERVICES,
    Authority,
    answer_json,
    extension_server,
    register,
    resolver_file,
    wait_for_reason,
)
from tests.apiserver.conftest import Api, Server
from tests.apiserver.proxy.upstreams import Exchange, Upstream, reply

NAME = f"v1.{GROUP}"


@dataclass
class Aggregated:
    """A host, the extension API server behind it, and its CA."""

    api: Api
    server: Server
    upstream: Upstream
    authority: Authority

    def things(self, user: User) -> ResourceClient:
        """Return the host's own client of a resource that the extension API server has."""
        client = self.server.running.cluster.server.client(user)
        return client.resource(f"{GROUP}/v1", "things", namespace="default")

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of a call within the host."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.server.loop).result(60)

    def request(self, target: str) -> Exchange:
        """Return the next request for a path."""
        while (exchange := self.upstream.request()).target != target:
            pass
        return exchange


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def aggregated(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Aggregated]:
    """A host with an extension API server that accepts only the host's client certificate."""
    folder = tmp_path_factory.mktemp("host")
    proxy = authority.issue("front-proxy")
    with extension_server(authority.issue("ext.default.svc"), authority.pem) as upstream:
        server = Server(
            service_resolver=resolver_file(folder, ext=f"127.0.0.1:{upstream.port}"),
            proxy_client_cert_file=proxy.certificate,
            proxy_client_key_file=proxy.key,
        )
        bundle = base64.b64encode(authority.pem.encode()).decode()
        register(server.api, caBundle=bundle)
        condition = wait_for_reason(server.api, NAME, "Passed")
        assert (condition["status"], condition["message"]) == ("True", "all checks passed")
        yield Aggregated(server.api, server, upstream, authority)
        server.end()


def test_user(aggregated: Aggregated) -> None:
    """The extension API server gets the user in headers, and none of the client's own claims and
    credentials."""
    claims = {
        "X-Remote-User": "root",
        "X-Remote-Group": "wheel",
        "X-Remote-Extra-a": "b",
        "X-Remote-Uid": "0",
        "Authorization": "Bearer x",
        "Impersonate-User": "anna",
        "Impersonate-Group": "system:masters",
        "Impersonate-Uid": "u-1",
        "Impersonate-Extra-Acme.com%2fTeam": "blue",
        "X-Own": "kept",
    }
    response = aggregated.api.get(f"{PATH}/namespaces/default/things?limit=5", headers=claims)
    assert response.status == 200, response.body
    assert response.json == {"kind": "APIResourceList", "resources": []}
    exchange = aggregated.request(f"{PATH}/namespaces/default/things?limit=5")
    headers = {name.lower(): value for name, value in exchange.headers}
    groups = [value for name, value in exchange.headers if name == "X-Remote-Group"]
    assert headers["x-remote-user"] == "anna"
    assert groups == ["system:masters", "system:authenticated"]
    assert headers["x-remote-uid"] == "u-1"
    assert headers["x-remote-extra-acme.com%2fteam"] == "blue"
    assert headers["x-own"] == "kept"
    assert headers["audit-id"] == response.headers["Audit-Id"]
    assert not {"authorization", "impersonate-user", "x-remote-extra-a"} & headers.keys()
    assert len(response.headers.get_all("Audit-Id") or ()) == 1


def test_write(aggregated: Aggregated) -> None:
    """Bodies and statuses pass in both directions."""
    aggregated.upstream.answer = answer_json({"kind": "Thing"}, status="201 Created")
    response = aggregated.api.post(f"{PATH}/written", {"kind": "Thing", "metadata": {"name": "a"}})
    assert (response.status, response.json) == (201, {"kind": "Thing"})
    exchange = aggregated.request(f"{PATH}/written")
    assert exchange.method == "POST"
    assert json.loads(exchange.body) == {"kind": "Thing", "metadata": {"name": "a"}}


def test_watch(aggregated: Aggregated) -> None:
    """An event is passed on before the next one exists, and the extension API server notices that
    the client has gone."""
    may_go_on, has_gone = threading.Event(), threading.Event()

    def answer(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        exchange.send(b'b\r\n{"type":1}\n\r\n')
        may_go_on.wait(60)
        exchange.send(b'b\r\n{"type":2}\n\r\n')
        exchange.receive(1)
        has_gone.set()

    aggregated.upstream.answer = answer
    with aggregated.api.watch(f"{PATH}/things?watch=1") as stream:
        assert stream.event() == {"type": 1}
        may_go_on.set()
        assert stream.event() == {"type": 2}
    assert has_gone.wait(60)


def test_upgrade(aggregated: Aggregated) -> None:
    """A connection that changes its protocol is joined with one to the extension API server, which
    gets the query and the user."""

    def answer(exchange: Exchange) -> None:
        exchange.send(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
        )
        exchange.send(exchange.receive(5).upper())

    aggregated.upstream.answer = answer
    with socket.create_connection(("127.0.0.1", aggregated.api.port)) as client:
        client.sendall(
            f"POST {PATH}/things/a/exec?command=b HTTP/1.1\r\nHost: localhost\r\n"
            "Connection: Upgrade\r\nUpgrade: echo\r\nContent-Length: 0\r\n"
            "Content-Type: a/b\r\n\r\n".encode()
        )
        received = b""
        while b"\r\n\r\n" not in received:
            received += client.recv(4096)
        assert received.startswith(b"HTTP/1.1 101")
        client.sendall(b"hello")
        assert client.recv(5) == b"HELLO"
    exchange = aggregated.request(f"{PATH}/things/a/exec?command=b")
    assert exchange.header("X-Remote-User") == "system:unsecured"


def test_redirect(aggregated: Aggregated) -> None:
    """A redirect is not passed on."""
    location = "Location: https://169.254.169.254/"
    aggregated.upstream.respond(reply(b"", CLOSE, location, status="302 Found"))
    response = aggregated.api.get(f"{PATH}/things")
    text = b"the backend attempted to redirect this request, which is not permitted"
    assert (response.status, response.body, response.headers["Location"]) == (502, text, None)


def test_cut_connection(aggregated: Aggregated) -> None:
    """A connection that ends without a response is a 503 in kube-apiserver's words."""
    aggregated.upstream.answer = lambda exchange: exchange.socket.close()
    response = aggregated.api.get(f"{PATH}/things")
    assert response.status == 503
    assert response.body == b"error trying to reach service: EOF\n"
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (b"SSH-2.0-x\r\n\r\n", 503,
         b"error trying to reach service: net/http: HTTP/1.x transport connection broken: "
         b'malformed HTTP response "SSH-2.0-x"\n'),
        (b"HTTP/1.1 101 x\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", 503,
         b'backend tried to switch protocol "x" when "" was requested\n'),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Trailer\r\n\r\n"
         b"2\r\nhi\r\n0\r\nX-Trailer: 1\r\n\r\n", 200, b"hi"),
        (reply(b"", CLOSE, status="204 No Content"), 204, b""),
        (reply(b"", CLOSE, status="304 Not Modified"), 304, b""),
    ],
)  # fmt: skip
def test_unusual_responses(aggregated: Aggregated, answer: bytes, status: int, body: bytes) -> None:
    """What is no response, or no usual one, becomes what kube-apiserver makes of it."""
    aggregated.upstream.respond(answer)
    response = aggregated.api.get(f"{PATH}/things")
    assert (response.status, response.body) == (status, body)
    assert response.headers["X-Trailer"] is None
    assert (response.headers["Content-Length"] is None) == (status in (200, 204, 304))


def test_slow_discovery(aggregated: Aggregated, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for the resources of a group-version waits a few seconds only."""
    over = threading.Event()
    monkeypatch.setattr(api_servers, "DISCOVERY_SECONDS", 0.05)
    aggregated.upstream.answer = lambda _: over.wait(60)
    response = aggregated.api.get(PATH)
    over.set()
    text = b"error trying to reach service: context deadline exceeded\n"
    assert (response.status, response.body) == (503, text)


def test_own_request(aggregated: Aggregated) -> None:
    """A request that this server has passed on already is refused: extension API servers may form
    a loop."""
    aggregated.upstream.answer = answer_json({})
    aggregated.api.get(f"{PATH}/looping", headers={"Via": "1.0 fred"})
    via = aggregated.request(f"{PATH}/looping").header("Via")
    assert via is not None
    assert via.startswith("1.0 fred, 1.1 kapiserver-")
    response = aggregated.api.get(f"{PATH}/things", headers={"Via": via})
    assert response.status == 503
    assert response.body == b"error trying to reach service: the request loops\n"


def test_slow_requests_hold_nobody_up(
    authority: Authority, tmp_path: Path, make_server: Callable[..., Server]
) -> None:
    """Requests that wait for an extension API server count as in flight for it alone."""
    over = threading.Event()
    with extension_server(authority.issue("ext.default.svc")) as upstream:
        file = resolver_file(tmp_path, ext=f"127.0.0.1:{upstream.port}")
        token = tmp_path / "tokens.csv"
        token.write_text('secret,anna,1,"staff"\n')
        server = make_server(service_resolver=file, max_requests_inflight=2, token_auth_file=token)
        api = server.api
        register(api, insecureSkipTLSVerify=True)
        wait_for_reason(api, NAME, "Passed")
        upstream.answer = lambda _: over.wait(60)
        with ThreadPoolExecutor(2) as threads:
            waiting = [threads.submit(api.get, f"{PATH}/things") for _ in range(2)]
            arrived = 0
            while arrived < 2:
                arrived += upstream.request().target == f"{PATH}/things"
            user = {"Impersonate-User": "anna", "Impersonate-Group": "system:masters"}
            third = api.get(f"{PATH}/things", headers=user)
            assert third.status == 429, third.body
            assert api.get("/api/v1/namespaces/default", headers=user).status == 200
            over.set()
            assert {each.result().status for each in waiting} == {503}


def test_precedence(aggregated: Aggregated) -> None:
    """A group-version belongs to the extension API server even if this server has it, and to this
    server again without the APIService. The group of APIServices itself stays."""
    api = aggregated.api
    aggregated.upstream.answer = answer_json({"kind": "Theirs"})
    bundle = base64.b64encode(aggregated.authority.pem.encode()).decode()
    register(api, group="batch", caBundle=bundle)
    register(api, group="apiregistration.k8s.io", caBundle=bundle)
    wait_for_reason(api, "v1.batch", "Passed")
    assert api.get("/apis/batch/v1/jobs").json == {"kind": "Theirs"}
    assert api.get("/apis/batch/v1").json == {"kind": "Theirs"}
    assert api.get(SERVICES).json["kind"] == "APIServiceList"
    api.delete(f"{SERVICES}/v1.batch")
    api.delete(f"{SERVICES}/v1.apiregistration.k8s.io")
    assert api.get("/apis/batch/v1/jobs").json["kind"] == "JobList"


def test_unavailable(aggregated: Aggregated) -> None:
    """Without the condition Available nothing is passed on."""
    register(aggregated.api, "missing", group="missing.example.com")
    condition = wait_for_reason(aggregated.api, "v1.missing.example.com", "ServiceNotFound")
    assert condition["message"] == 'service/missing in "default" is not present'
    response = aggregated.api.get("/apis/missing.example.com/v1/things")
    assert (response.status, response.body) == (503, b"service unavailable\n")
    text = aggregated.api.get("/metrics").body.decode()
    assert 'aggregator_unavailable_apiservice{name="v1.missing.example.com"} 1' in text
    assert f'aggregator_unavailable_apiservice{{name="{NAME}"}} 0' in text
    aggregated.api.delete(f"{SERVICES}/v1.missing.example.com")


def test_reads_of_the_server_itself(aggregated: Aggregated) -> None:
    """The internal client gets and lists objects of extension API servers, as its user."""
    things, allowed = aggregated.things(User(name="robot")), aggregated.things(APISERVER)

    aggregated.upstream.answer = answer_json({"kind": "Thing"})
    assert aggregated.call(allowed.get("*", subresource="size", labelSelector="a=b")) == {
        "kind": "Thing"
    }
    exchange = aggregated.request(f"{PATH}/namespaces/default/things/*/size?labelSelector=a%3Db")
    assert exchange.header("X-Remote-User") == APISERVER.name
    aggregated.upstream.answer = answer_json({"kind": "ThingList", "items": [{}]})
    assert aggregated.call(allowed.list_page(limit=2))["items"][0]["kind"] == "Thing"
    aggregated.request(f"{PATH}/namespaces/default/things?limit=2")
    refusal = {"kind": "Status", "message": "no such thing", "code": 404, "reason": "NotFound"}
    for answer, code in (
        (answer_json(refusal, status="404 Not Found"), 404),
        (answer_json([], status="500 Internal Server Error"), 500),
        (lambda exchange: exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"), 503),
    ):
        aggregated.upstream.answer = answer
        with pytest.raises(StatusError) as raised:
            aggregated.call(allowed.get("x"))
        assert raised.value.code == code
    with pytest.raises(StatusError, match='User "robot" cannot get resource "things"'):
        aggregated.call(things.get("x"))


def test_writes_of_the_server_itself(aggregated: Aggregated) -> None:
    """The internal client writes and watches objects of extension API servers, as its user."""
    things = aggregated.things(APISERVER)
    obj = {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "x"}}
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"}
    calls = (
        (things.create(obj, dryRun="All"), "POST", "?dryRun=All", "application/json", obj),
        (things.update(obj, subresource="status"), "PUT", "/x/status", "application/json", obj),
        (things.patch("x", {"a": 1}), "PATCH", "/x", "application/merge-patch+json", {"a": 1}),
        (things.apply(obj, manager="m"), "PATCH", "/x?fieldManager=m",
         "application/apply-patch+yaml", obj),
        (things.delete("x", options), "DELETE", "/x", "application/json", options),
        (things.delete_collection(labelSelector="a"), "DELETE", "?labelSelector=a", None, None),
    )  # fmt: skip

    aggregated.upstream.answer = answer_json({"kind": "Thing"})
    for call, method, target, content_type, body in calls:
        assert aggregated.call(call)["kind"] == "Thing"
        exchange = aggregated.request(f"{PATH}/namespaces/default/things{target}")
        assert (exchange.method, exchange.header("Content-Type")) == (method, content_type)
        assert json.loads(exchange.body or b"null") == body

    async def watch() -> Any:
        return [event async for event in things.watch()]

    lines = [json.dumps({"type": "ADDED", "object": obj}).encode() + b"\n"] * 2
    aggregated.upstream.answer = lambda exchange: exchange.send(reply(b"".join(lines), CLOSE))
    assert aggregated.call(watch()) == [Event("ADDED", obj)] * 2
    lines.append(b'{"type": "ERROR", "object": {"code": 410, "message": "too old"}}\n')
    with pytest.raises(StatusError, match="too old"):
        aggregated.call(watch())
