"""One object of each kind that is served and stored, and a connection for requests."""

import base64
import functools
import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.e2e.programs import Server

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
Tree = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response with its body."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def tree(self) -> Any:
        return json.loads(self.body)


class Api:
    """A keep-alive connection of the administrator; dicts are sent as JSON, bytes unchanged."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._context = ssl.create_default_context(cafile=str(server.ca_file))
        self._context.load_cert_chain(server.client_cert, server.client_key)
        self._connection = self._connect()

    def _connect(self) -> http.client.HTTPSConnection:
        host = self.server.url.removeprefix("https://")
        return http.client.HTTPSConnection(host, timeout=60, context=self._context)

    def reconnect(self) -> None:
        """Open another connection: the server closes one that is idle for long."""
        self._connection.close()
        self._connection = self._connect()

    def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = JSON, **headers: str
    ) -> Response:
        """Send one request; keyword arguments are headers (`accept="application/yaml"`)."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named.setdefault("accept", JSON)
        self._connection.request(method, path, data, {"content-type": content_type, **named})
        response = self._connection.getresponse()
        return Response(status=response.status, headers=response.headers, body=response.read())

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        status: int | None = None,
        content_type: str = JSON,
        **headers: str,
    ) -> Any:
        """The decoded body of a response that must have this status; by default 201 for POST, else
        200."""
        response = self.request(method, path, body, content_type=content_type, **headers)
        expected = status or (201 if method == "POST" else 200)
        assert response.status == expected, (method, path, response.body)
        return response.tree

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def watch(self, path: str, *, accept: str = JSON) -> Iterator[http.client.HTTPResponse]:
        """The stream of a watch, on a connection of its own."""
        connection = self._connect()
        mark = "&" if "?" in path else "?"
        connection.request(
            "GET", f"{path}{mark}watch=1&timeoutSeconds=60", headers={"accept": accept}
        )
        stream = connection.getresponse()
        try:
            assert stream.status == 200, stream.read()
            yield stream
        finally:
            stream.close()
            connection.close()


def events(stream: http.client.HTTPResponse, count: int) -> list[Tree]:
    """The next events of a JSON watch."""
    return [json.loads(stream.readline()) for _ in range(count)]


def event_names(stream: http.client.HTTPResponse, count: int) -> list[tuple[str, str]]:
    """The next events, as type and name."""
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events(stream, count)]


@functools.cache
def _signed() -> dict[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "every kind")])
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    signed = request.sign(key, hashes.SHA256())
    not_before = datetime(2026, 1, 1)
    authority = (
        x509.CertificateBuilder(
            name, name, key.public_key(), 7, not_before, not_before + timedelta(3650)
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, der = serialization.Encoding.PEM, serialization.Encoding.DER
    return {
        "request": base64.b64encode(signed.public_bytes(pem)).decode(),
        "stubPKCS10Request": base64.b64encode(signed.public_bytes(der)).decode(),
        "trustBundle": authority.public_bytes(pem).decode(),
    }


def objects() -> list[Tree]:
    """New copies of the objects of every_kind.yaml, with certificates where required."""
    loaded: list[Tree] = list(
        yaml.safe_load_all((Path(__file__).parent / "every_kind.yaml").read_text())
    )
    for obj in loaded:
        spec = obj.get("spec") or {}
        for field in _signed().keys() & spec.keys():
            spec[field] = _signed()[field]
    return loaded


def named(kind: str) -> Tree:
    """The object of a kind (of the first group that has it)."""
    return next(obj for obj in objects() if obj["kind"] == kind)


POD: Tree = {"containers": [{"name": "c", "image": "i"}]}
"""The spec of a small pod."""


def meta(name: str, **more: object) -> Tree:
    """A dict with metadata."""
    return {"metadata": {"name": name, **more}}


def pod(name: str, **spec: object) -> Tree:
    """A small pod with these fields in its spec."""
    return {**meta(name), "spec": {**POD, **spec}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A resource, as discovery describes it."""

    version: str
    name: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]
    subresources: frozenset[str]

    def path(self, namespace: str) -> str:
        """The URL path of its collection."""
        base = "/api/v1" if self.version == "v1" else f"/apis/{self.version}"
        return f"{base}/namespaces/{namespace}/{self.name}" if self.namespaced else self.everywhere

    @property
    def everywhere(self) -> str:
        """The URL path of its objects in all namespaces."""
        base = "/api/v1" if self.version == "v1" else f"/apis/{self.version}"
        return f"{base}/{self.name}"


def discover(api: Api) -> dict[tuple[str, str], Served]:
    """All resources by version and kind, from the legacy discovery documents."""
    groups = api("GET", "/apis")["groups"]
    paths = {"v1": "/api/v1"} | {
        version["groupVersion"]: f"/apis/{version['groupVersion']}"
        for group in groups
        for version in group["versions"]
    }
    resources = {}
    for version, path in paths.items():
        rows = {row["name"]: row for row in api("GET", path)["resources"]}
        for name, row in rows.items():
            if "/" in name:
                continue
            resources[version, row["kind"]] = Served(
                version=version,
                name=name,
                kind=row["kind"],
                namespaced=row["namespaced"],
                verbs=frozenset(row["verbs"]),
                subresources=frozenset(
                    entry.partition("/")[2] for entry in rows if entry.startswith(f"{name}/")
                ),
            )
    return resources
