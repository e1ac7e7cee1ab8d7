"""Requests that the insecure port refuses, so that a web page cannot act as an administrator."""

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.apiserver.conftest import Api

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
BODY = b'{"metadata": {"generateName": "page-"}}'
JSON = {"Content-Type": "application/json"}

Send = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def send(api: Api) -> Iterator[Send]:
    """A function that sends a request with the given headers alone, and returns the response."""
    connections = []

    def request(
        headers: dict[str, str],
        *,
        method: str = "POST",
        path: str = CONFIG_MAPS,
        body: bytes = BODY,
    ) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=60)
        connections.append(connection)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        all_headers = {"Host": f"127.0.0.1:{api.port}"} | headers
        if body and "Transfer-Encoding" not in headers:
            all_headers.setdefault("Content-Length", str(len(body)))
        for name, value in all_headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    yield request
    for connection in connections:
        connection.close()


@pytest.mark.parametrize(
    "media_type",
    [
        None,
        "",
        "text/plain",
        "TEXT/PLAIN; charset=utf-8",
        "text/plain;application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
    ],
)
def test_simple_media_types(send: Send, media_type: str | None) -> None:
    """A body without a media type, or with one that any web page may send, gets 415."""
    code, status = send({} if media_type is None else {"Content-Type": media_type})
    assert (code, status["reason"]) == (415, "UnsupportedMediaType")
    assert "accepted media types include: application/json" in status["message"]


def test_chunked_body(send: Send) -> None:
    """A body whose length is not known in advance needs a media type too."""
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    headers = {"Transfer-Encoding": "chunked"}
    assert send(headers, body=chunked)[0] == 415
    assert send(headers | JSON, body=chunked)[0] == 201


def test_no_body(send: Send) -> None:
    """A request without a body needs no media type."""
    code, created = send(JSON)
    path = f"{CONFIG_MAPS}/{created['metadata']['name']}"
    assert code == 201
    assert send({}, method="GET", path=path, body=b"")[0] == 200
    assert send({}, method="DELETE", path=path, body=b"")[0] == 200


@pytest.mark.parametrize(
    ("host", "accepted"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:8080", True),
        ("127.1.2.3:1", True),
        ("[::1]:8080", True),
        ("LocalHost:8080", True),
        ("localhost:", True),
        ("LOCALHOST", True),
        ("[::1]", True),
        ("[0:0:0:0:0:0:0:1]:1", True),
        ("", False),
        ("localhost.", False),
        ("127.0.0.1.", False),
        ("127.1", False),
        ("2130706433", False),
        ("0177.0.0.1", False),
        ("[127.0.0.1]", False),
        ("::1", False),
        ("[::1%25lo]", False),
        ("[::1]evil.example", False),
        ("user@localhost", False),
        ("localhost:80:80", False),
        ("evil.example:8080", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("evil.example:80:localhost", False),
        ("[::2]", False),
        ("10.0.0.1", False),
        ("0.0.0.0:8080", False),
        ("localhost:8080, evil.example", False),
        ("[::1", False),
        ("a" * 5000, False),
    ],
)
def test_hosts(send: Send, host: str, accepted: bool) -> None:
    """A DNS name that resolves to the loopback address does not name this server."""
    for method in ("GET", "POST"):
        code, answer = send(JSON | {"Host": host}, method=method)
        if accepted:
            assert code == (200 if method == "GET" else 201)
        else:
            assert (code, answer["kind"], answer["code"]) == (421, "Status", 421)
            assert answer["message"].startswith("the insecure port serves only the hosts localhost")


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("http://localhost", 200),
        ("HTTP://127.0.0.1:1", 200),
        ("http://[::1]", 200),
        ("http://evil.example", 421),
        ("https://evil.example:8080", 421),
        ("http://localhost@evil.example", 421),
        ("http://localhost:80@evil.example", 421),
        ("http://user@localhost", 421),
        ("http://localhost.evil.example", 421),
        ("x://[::2]", 421),
    ],
)
def test_absolute_targets(send: Send, target: str, code: int) -> None:
    """A target in absolute form names this server, too; a loopback address in Host does not
    help."""
    assert send({}, method="GET", path=f"{target}{CONFIG_MAPS}", body=b"")[0] == code


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (b"GET /version HTTP/1.0\r\n", b"421"),
        (b"GET /version HTTP/1.0\r\nHost: localhost\r\n", b"200"),
        (b"GET /version HTTP/1.1\r\n", b"400"),
        (b"GET /version HTTP/1.1\r\nHost: localhost\r\nhost: evil.example\r\n", b"400"),
        (b"GET /version HTTP/1.1\r\nHost: evil.example\r\nHOST: localhost\r\n", b"400"),
        (b"GET /version HTTP/1.0\r\nHost: localhost\r\nHost: evil.example\r\n", b"400"),
        (b"GET http:///version HTTP/1.1\r\nHost: localhost\r\n", b"400"),
        (b"GET http://evil.example HTTP/1.1\r\nHost: localhost\r\n", b"421"),
    ],
)
def test_heads(api: Api, head: bytes, code: bytes) -> None:
    """A missing Host names no host, and several are malformed."""
    with socket.create_connection(("127.0.0.1", api.port)) as connection:
        connection.sendall(head + b"Connection: close\r\n\r\n")
        response = b"".join(iter(lambda: connection.recv(65536), b""))
    assert response.split()[1] == code


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:8080", "Host": "127.0.0.1:8080"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)
def test_foreign_origins(send: Send, headers: dict[str, str]) -> None:
    """A page of another origin gets 403, whatever it asks for."""
    for method in ("GET", "POST", "OPTIONS"):
        code, status = send(JSON | headers, method=method)
        assert (code, status["reason"]) == (403, "Forbidden")
        assert status["message"] == (
            "forbidden: the insecure port takes no requests of web pages from other origins"
        )


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://127.0.0.1:8080", "Host": "127.0.0.1:8080"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ],
    ids=str,
)
def test_own_origin(send: Send, headers: dict[str, str]) -> None:
    """Requests of the server's own origin, and those that a user types, are accepted."""
    assert send(JSON | headers)[0] == 201
