"""Requests that change the protocol of their connection, by way of the subresource `proxy`."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO

import pytest

from tests.apiserver.conftest import Api, Server
from tests.apiserver.proxy.test_proxy import create_pod
from tests.apiserver.proxy.upstreams import Exchange, Upstream, reply, running_upstream


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """A server in the pod `p` that speaks first, and then echoes."""

    def echo(exchange: Exchange) -> None:
        protocol = exchange.header("Upgrade")
        head = f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: {protocol}\r\nConnection: Upgrade"
        exchange.send(head.encode() + b"\r\nX-A: b\r\n\r\nhello")
        while data := exchange.reader.read1(1 << 16):
            exchange.send(data)

    with running_upstream() as upstream:
        upstream.answer = echo
        yield upstream


@pytest.fixture
def proxy(api: Api, core: str, upstream: Upstream) -> str:
    """The path of the proxy to the pod."""
    return create_pod(api, core, upstream.host, upstream.port) + "/proxy"


def connect(
    api: Api, path: str, protocol: str = "websocket", *headers: str, method: str = "GET"
) -> tuple[socket.socket, BinaryIO, list[bytes]]:
    """Ask to change the protocol; return the connection, its reader and the head's lines."""
    client = socket.create_connection(("127.0.0.1", api.port), timeout=60)
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: Upgrade"]
    client.sendall("\r\n".join([*lines, f"Upgrade: {protocol}", *headers, "", ""]).encode())
    reader = client.makefile("rb")
    head = []
    while (line := reader.readline().rstrip()) != b"":
        head.append(line)
    return client, reader, head


@pytest.mark.parametrize(
    ("protocol", "method"), [("websocket", "GET"), ("SPDY/3.1", "POST"), ("x-own", "GET")]
)
def test_both_directions(
    api: Api, proxy: str, upstream: Upstream, protocol: str, method: str
) -> None:
    """After the response bytes pass in both directions, whatever the protocol."""
    length = ("Content-Length: 0",) if method == "POST" else ()
    client, reader, head = connect(api, f"{proxy}/a?b=c", protocol, *length, method=method)
    with client, reader:
        assert head[0] == b"HTTP/1.1 101 Switching Protocols"
        assert f"Upgrade: {protocol}".encode() in head
        assert b"X-A: b" in head
        assert reader.read(5) == b"hello"
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x00\xff" * 1000):
            client.sendall(data)
            assert reader.read(len(data)) == data
    request = upstream.request()
    assert (request.method, request.target) == (method, "/a")  # as of kube-apiserver: no query
    assert request.header("Connection") == "Upgrade"
    assert request.header("X-Forwarded-For") == "127.0.0.1"
    assert request.header("X-Forwarded-Uri") is None


def test_back_pressure(api: Api, proxy: str, upstream: Upstream) -> None:
    """Much data passes completely, though neither side reads while it writes."""
    data = bytes(range(256)) * (64 << 10)
    client, reader, _ = connect(api, f"{proxy}/")
    with client, reader:
        assert reader.read(5) == b"hello"
        writer = threading.Thread(target=client.sendall, args=(data,))
        writer.start()
        assert reader.read(len(data)) == data
        writer.join(60)


def test_token_stays_here(api: Api, proxy: str, upstream: Upstream) -> None:
    """A token among the subprotocols of WebSocket is not passed on."""
    token = "base64url.bearer.authorization.k8s.io.c2VjcmV0"
    protocols = f"Sec-WebSocket-Protocol: {token}, chat"
    client, reader, _ = connect(api, f"{proxy}/", "websocket", protocols, "Authorization: x")
    with client, reader:
        request = upstream.request()
    assert request.header("Sec-WebSocket-Protocol") == "chat"
    assert request.header("Authorization") is None


@pytest.mark.parametrize("closer", ["client", "pod"])
def test_ends(api: Api, proxy: str, upstream: Upstream, closer: str) -> None:
    """When either side closes, so does the other, with what was sent last."""
    ended = threading.Event()
    received = []

    def answer(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nbye")
        if closer == "client":
            received.append(exchange.reader.read())
            ended.set()

    upstream.answer = answer
    client, reader, _ = connect(api, f"{proxy}/")
    assert reader.read(3) == b"bye"
    if closer == "client":
        client.sendall(b"last")
        client.shutdown(socket.SHUT_WR)
        assert ended.wait(60)
        assert received == [b"last"]
    assert reader.read() == b""
    reader.close()
    client.close()


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (reply(b"no"), 500, "invalid upgrade response: status code 200"),
        (reply(status="302 Found"), 500, "invalid upgrade response: status code 302"),
        (b"", 500, "EOF"),
        (reply(b"no", "X-A: b", status="403 Forbidden"), 403, ""),
    ],
)
def test_refused_upgrades(
    api: Api, proxy: str, upstream: Upstream, answer: bytes, status: int, text: str
) -> None:
    """A server that does not change the protocol is an error; its own errors are passed back."""
    upstream.respond(answer)
    client, reader, head = connect(api, f"{proxy}/")
    with client, reader:
        assert head[0].split()[1] == str(status).encode()
        length = next(line for line in head if line.startswith(b"Content-Length: "))
        body = reader.read(int(length.split()[1]))
    if text:
        assert json.loads(body) == {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": text, "code": status,
        }  # fmt: skip
    else:
        assert body == b"no"
        assert b"X-A: b" in head


def test_server_ends(make_server: Callable[..., Server], upstream: Upstream) -> None:
    """A server that ends closes both sides of an upgraded connection."""
    server = make_server()
    core = "/api/v1/namespaces/default"
    path = create_pod(server.api, core, upstream.host, upstream.port)
    client, reader, _ = connect(server.api, f"{path}/proxy/")
    with client, reader:
        assert reader.read(5) == b"hello"
        server.end()
        assert reader.read() == b""


def test_unreachable(api: Api, proxy: str, upstream: Upstream) -> None:
    """A pod that refuses the connection is a 500, in the words of kube-apiserver."""
    upstream.close()
    client, reader, head = connect(api, f"{proxy}/")
    with client, reader:
        assert head[0].split()[1] == b"500"
        assert (
            f"error dialing backend: dial tcp {upstream.host}:{upstream.port}: connect: connection "
            "refused"
        ).encode() in reader.readline()
