"""Watches over WebSocket."""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from kapiserver.apiserver.authentication.websocket_token import TOKEN_PREFIX
from kapiserver.apiserver.serving.http1.websocket import frame
from kapiserver.apiserver.streaming.handshake import accept_key, is_handshake
from kapiserver.testing import TestServer

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
KEY = base64.b64encode(bytes(range(16))).decode()
HEADERS = {
    "Connection": "keep-alive, Upgrade",
    "Upgrade": "WebSocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": KEY,
}


class WebSocket:
    """A client; `reader` reads the response and the frames."""

    def __init__(
        self, port: int, path: str, tls: ssl.SSLContext | None = None, **headers: str
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.reader = self.socket.makefile("rb")
        lines = "".join(f"{name}: {value}\r\n" for name, value in (HEADERS | headers).items())
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
        self.status = self.reader.readline().decode()
        self.headers: dict[str, str] = {}
        while (line := self.reader.readline().decode().strip()) != "":
            name, _, value = line.partition(": ")
            self.headers[name] = value

    def send(self, opcode: int, payload: bytes = b"", *, masked: bool = True) -> None:
        mask = os.urandom(4) if masked else b""
        data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload)) if masked else payload
        head = bytes((0x80 | opcode,))
        if len(payload) > 125:
            head += bytes((masked << 7 | 127,)) + len(payload).to_bytes(8)
        else:
            head += bytes((masked << 7 | len(payload),))
        self.socket.sendall(head + mask + data)

    def receive(self) -> tuple[int, bytes]:
        """Opcode and payload of the next frame."""
        first, size = self.reader.read(2)
        assert first & 0x80
        if size == 126:
            size = int.from_bytes(self.reader.read(2))
        elif size == 127:
            size = int.from_bytes(self.reader.read(8))
        return first & 0x0F, self.reader.read(size)

    def event(self) -> Any:
        opcode, payload = self.receive()
        assert opcode == TEXT
        return json.loads(payload)


@contextmanager
def opened(
    port: int, path: str, tls: ssl.SSLContext | None = None, **headers: str
) -> Iterator[WebSocket]:
    """An open WebSocket."""
    client = WebSocket(port, path, tls, **headers)
    try:
        yield client
    finally:
        client.reader.close()
        client.socket.close()


@pytest.fixture
def maps(core: str) -> str:
    return f"{core}/configmaps"


def test_events(api: Any, maps: str) -> None:
    """Each event is a text message; events that come together are several messages."""
    for name in ("a", "b"):
        api.post(maps, {"metadata": {"name": name}, "data": {"x": name * 70_000}})
    with opened(api.port, f"{maps}?watch=1&timeoutSeconds=30") as client:
        assert client.status == "HTTP/1.1 101 Switching Protocols\r\n"
        assert client.headers["Sec-WebSocket-Accept"] == accept_key(KEY)
        assert client.headers["Upgrade"] == "websocket"
        assert "Transfer-Encoding" not in client.headers
        assert "Audit-Id" in client.headers
        names = [client.event()["object"]["metadata"]["name"] for _ in range(2)]
        assert sorted(names) == ["a", "b"]
        api("DELETE", f"{maps}/a")
        assert client.event()["type"] == "DELETED"


def test_timeout(api: Any, maps: str) -> None:
    """The end of the watch is a close frame and the end of the connection."""
    with opened(api.port, f"{maps}?watch=1&timeoutSeconds=1") as client:
        assert client.receive() == (CLOSE, (1000).to_bytes(2))
        assert client.reader.read() == b""


def test_frames_of_the_client(api: Any, maps: str) -> None:
    """Pings are answered, messages ignored; a close frame ends the watch."""
    with opened(api.port, f"{maps}?watch=1&timeoutSeconds=30") as client:
        client.send(PING, b"hello")
        assert client.receive() == (PONG, b"hello")
        client.send(TEXT, b"x" * 100_000)
        client.send(BINARY, b"y")
        client.send(PING)
        assert client.receive() == (PONG, b"")
        client.send(CLOSE)
        assert client.receive()[0] == CLOSE
        assert client.reader.read() == b""


def test_bytewise(api: Any, maps: str) -> None:
    """A frame may arrive in pieces."""
    with opened(api.port, f"{maps}?watch=1&timeoutSeconds=30") as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"\x81\x83\0\0\0\0abc\x89\x82\0\0\0\0hi":
            client.socket.sendall(bytes((byte,)))
        assert client.receive() == (PONG, b"hi")


@pytest.mark.parametrize("data", [b"\x89\x00", b"\x89\xfe\x00\xff", b"GET / HTTP/1.1\r\n\r\n"])
def test_broken_frames(api: Any, maps: str, data: bytes) -> None:
    """A frame without a mask, a long control frame and other bytes end the watch."""
    with opened(api.port, f"{maps}?watch=1&timeoutSeconds=30") as client:
        client.socket.sendall(data)
        assert client.receive()[0] == CLOSE


def test_errors_are_responses(api: Any, maps: str) -> None:
    """A request that fails gets an ordinary response, and one for no watch its object."""
    with opened(api.port, f"{maps}?watch=1&labelSelector=(") as client:
        assert client.status.startswith("HTTP/1.1 400 ")
    with opened(api.port, maps) as client:
        assert client.status.startswith("HTTP/1.1 200 ")
        assert client.headers["Content-Type"] == "application/json"


def test_web_pages(api: Any, maps: str) -> None:
    """A page of another site cannot open a WebSocket to the insecure port."""
    with opened(api.port, f"{maps}?watch=1", Origin="http://evil.example") as client:
        assert client.status.startswith("HTTP/1.1 403 ")


def bearer(token: str) -> str:
    """The subprotocol of a token."""
    return TOKEN_PREFIX + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


@pytest.fixture(scope="module")
def secure() -> Iterator[TestServer]:
    with TestServer() as server:
        yield server


def watching(server: TestServer, *protocols: str) -> AbstractContextManager[WebSocket]:
    """A WebSocket over TLS that offers these subprotocols."""
    port = int(server.url.rpartition(":")[2])
    offered = {"Sec-WebSocket-Protocol": ", ".join(protocols)} if protocols else {}
    path = "/api/v1/namespaces?watch=1&fieldSelector=metadata.name=default"
    return opened(port, path, server.ssl_context, **offered)


@pytest.mark.parametrize("is_first", [True, False])
def test_token(secure: TestServer, is_first: bool) -> None:
    """A subprotocol may hold the token, as browsers send it; the response names the other one."""
    protocols = (bearer(secure.token), "base64.binary.k8s.io")
    with watching(secure, *(protocols if is_first else reversed(protocols))) as client:
        assert client.status.startswith("HTTP/1.1 101 ")
        assert client.headers["Sec-WebSocket-Protocol"] == "base64.binary.k8s.io"
        assert client.event()["object"]["metadata"]["name"] == "default"
    (record, *_) = secure.requests.select(verb="watch", user="kubernetes-admin")
    assert secure.token not in str(record.to_dict())


def test_subprotocol_without_a_token(api: Any, maps: str) -> None:
    """The response names the subprotocol that the client offers; a watch takes no second one."""
    protocol = {"Sec-WebSocket-Protocol": "base64.binary.k8s.io"}
    with opened(api.port, f"{maps}?watch=1&timeoutSeconds=30", **protocol) as client:
        assert client.headers["Sec-WebSocket-Protocol"] == "base64.binary.k8s.io"
    protocol = {"Sec-WebSocket-Protocol": "v5.channel.k8s.io, v4.channel.k8s.io"}
    with opened(api.port, f"{maps}?watch=1", **protocol) as client:
        assert client.status.startswith("HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "protocols",
    [
        (bearer("wrong"), "x"),
        (TOKEN_PREFIX + "A", "x"),
        (TOKEN_PREFIX + "a+b/", "x"),
        (TOKEN_PREFIX + "YQ==", "x"),
        (TOKEN_PREFIX + "_w", "x"),
        (bearer("{token}"),),
        (bearer("{token}"), bearer("{token}"), "x"),
    ],
)
def test_bad_tokens(secure: TestServer, protocols: tuple[str, ...]) -> None:
    """A wrong or malformed token, several, and a token alone are refused."""
    real = bearer(secure.token)
    with watching(secure, *(each.replace(bearer("{token}"), real) for each in protocols)) as client:
        assert client.status.startswith("HTTP/1.1 401 ")


def test_empty_token(secure: TestServer) -> None:
    """An empty token is none: the request is anonymous."""
    with watching(secure, TOKEN_PREFIX, "x") as client:
        assert client.status.startswith("HTTP/1.1 403 ")


def test_token_needs_a_websocket(secure: TestServer) -> None:
    """The subprotocol of an ordinary request is no credential."""
    headers = {"Sec-WebSocket-Protocol": f"{bearer(secure.token)}, x"}
    request = urllib.request.Request(f"{secure.url}/api/v1/namespaces", headers=headers)
    with pytest.raises(urllib.error.HTTPError, match="403") as refused:
        urllib.request.urlopen(request, context=secure.ssl_context)
    refused.value.close()


def test_expired_by_a_fault() -> None:
    """A fault that expires watches ends one over WebSocket with an ERROR message."""
    with TestServer(insecure=True) as server:
        port = int(server.insecure_url.rpartition(":")[2])
        path = "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0"
        with opened(port, f"{path}&fieldSelector=metadata.name=none") as client:
            server.faults.expire_watches()
            event = client.event()
            assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
            assert client.receive()[0] == CLOSE


def test_other_encodings(api: Any, maps: str) -> None:
    """Events in other encodings are binary messages."""
    api.post(maps, {"metadata": {"name": "a"}})
    with opened(api.port, f"{maps}?watch=1", Accept="application/cbor-seq") as client:
        opcode, payload = client.receive()
        assert opcode == BINARY
        assert b"ADDED" in payload


@pytest.mark.parametrize(
    ("changes", "result"),
    [
        ({}, True),
        ({"Upgrade": "h2c"}, False),
        ({"Connection": "close"}, False),
        ({"Sec-WebSocket-Version": "8"}, False),
        ({"Sec-WebSocket-Key": "x"}, False),
        ({"Sec-WebSocket-Key": "AAAA"}, False),
    ],
)
def test_handshake(changes: dict[str, str], result: bool) -> None:
    """Only a complete handshake of version 13 switches the protocol."""
    assert is_handshake("GET", HEADERS | changes) is result
    assert not is_handshake("POST", HEADERS)


def test_accept_key() -> None:
    """The example of RFC 6455, 1.3."""
    assert accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.mark.parametrize(("size", "head"), [(125, 2), (126, 4), (65535, 4), (65536, 10)])
def test_frame_lengths(size: int, head: int) -> None:
    """The length has 1, 3 or 9 bytes."""
    assert len(frame(TEXT, b"x" * size)) == size + head
