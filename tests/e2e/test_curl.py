"""Content negotiation, Protobuf and CBOR, as curl sees them (with Python's HTTP client)."""

import http.client
import json
import ssl
from collections.abc import Iterator

import pytest

from tests.e2e.programs import Server


class Curl:
    """Sends requests with the administrator's client certificate."""

    def __init__(self, server: Server) -> None:
        context = ssl.create_default_context(cafile=str(server.ca_file))
        context.load_cert_chain(server.client_cert, server.client_key)
        host = server.url.removeprefix("https://")
        self.connection = http.client.HTTPSConnection(host, timeout=60, context=context)

    def __call__(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, str, bytes]:
        """Return status, Content-Type and body."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, path, body, named)
        response = self.connection.getresponse()
        return response.status, response.getheader("Content-Type", ""), response.read()


@pytest.fixture
def curl(server: Server) -> Iterator[Curl]:
    """A client with the administrator's certificate."""
    new_curl = Curl(server)
    yield new_curl
    new_curl.connection.close()


CONFIGMAP = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1"}}'


def test_not_acceptable(curl: Curl) -> None:
    """An Accept header without a supported type is 406, with the list of supported types."""
    status, media, body = curl("GET", "/api/v1/namespaces/default", Accept="image/png")
    assert (status, media) == (406, "application/json")
    status_body = json.loads(body)
    assert (status_body["kind"], status_body["reason"], status_body["code"]) == (
        "Status",
        "NotAcceptable",
        406,
    )
    assert "application/vnd.kubernetes.protobuf" in status_body["message"]


def test_unsupported_media_type(curl: Curl) -> None:
    """A Content-Type that is not supported is 415, with the list of supported types."""
    path = "/api/v1/namespaces/default/configmaps"
    status, _, body = curl("POST", path, b"x", Content_Type="image/png")
    assert status == 415
    assert json.loads(body)["reason"] == "UnsupportedMediaType"


@pytest.mark.parametrize(
    ("media", "prefix"),
    [
        ("application/vnd.kubernetes.protobuf", b"k8s\0"),
        ("application/cbor", b"\xd9\xd9\xf7"),
        ("application/yaml", b"apiVersion: v1\n"),
        ("application/json", b'{"kind":"ConfigMap","apiVersion":"v1",'),
    ],
)
def test_every_encoding(curl: Curl, namespace: str, media: str, prefix: bytes) -> None:
    """An object is returned in each encoding, and can be written back in it."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert curl("POST", path, CONFIGMAP, Content_Type="application/json")[0] == 201
    status, response, body = curl("GET", f"{path}/c", Accept=media)
    assert (status, response, body[: len(prefix)]) == (200, media, prefix)
    status, _, _ = curl("PUT", f"{path}/c", body, Content_Type=media)
    assert status == 200
    status, _, body = curl("GET", path, Accept=media)
    assert status == 200
    status, _, _ = curl("DELETE", f"{path}/c", Accept=media)
    assert status == 200
