"""Requests that the insecure port refuses, so that a web page cannot act as an administrator."""

import http.client
import json
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
        ("", True),
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
