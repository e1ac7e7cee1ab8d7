"""A host with an extension API server behind it, whose answers a test chooses."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from kapiserver.apiserver.serving.tls.settings import Pair
from tests.apiserver.conftest import Api, Response
from tests.apiserver.proxy.upstreams import Exchange, Upstream, reply
from tests.controllers.signing import subject, write_ca
from tests.controllers.waiting import wait_until

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
GROUP = "ext.example.com"
PATH = f"/apis/{GROUP}/v1"
CLOSE = "Connection: close"


class Authority:
    """A CA in a folder; `pem` is its certificate."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder / name
        self.files = write_ca(self.folder, now=datetime.now(UTC), name=name)
        self.pem = self.files.certificate.read_text()

    def issue(self, name: str) -> Pair:
        """Return files with a certificate of that common name and DNS name."""
        issuer = x509.load_pem_x509_certificate(self.pem.encode())
        issuer_key = load_pem_private_key(self.files.key.read_bytes(), None)
        assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        certificate = x509.CertificateBuilder(
            issuer_name=issuer.subject,
            subject_name=subject(name),
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(hours=1),
            not_valid_after=now + timedelta(days=2),
        ).add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        signed = certificate.sign(issuer_key, hashes.SHA256())
        pair = Pair(
            certificate=self.folder / f"{name}.crt",
            key=self.folder / f"{name}.key",
        )
        pair.certificate.write_bytes(signed.public_bytes(Encoding.PEM))
        pair.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return pair


def tls_of(pair: Pair, client_ca: str = "") -> ssl.SSLContext:
    """Return the TLS context of a server, which demands client certificates of a CA, if any."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    if client_ca:
        context.load_verify_locations(cadata=client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@contextmanager
def extension_server(pair: Pair, client_ca: str = "") -> Iterator[Upstream]:
    """Run an extension API server on the loopback interface until the block ends."""
    upstream = Upstream("127.0.0.1", tls_of(pair, client_ca))
    upstream.answer = answer_json({"kind": "APIResourceList", "resources": []})
    try:
        yield upstream
    finally:
        upstream.close()


def answer_json(tree: Any, status: str = "200 OK") -> Any:
    """Return an answer with a document."""
    body = json.dumps(tree).encode()

    def answer(exchange: Exchange) -> None:
        exchange.send(reply(body, CLOSE, "Content-Type: application/json", status=status))

    return answer


def resolver_file(folder: Path, **addresses: str) -> Path:
    """Return a file for `--service-resolver` with addresses of Services in namespace default."""
    file = folder / "services.yaml"
    lines = [f"default/{name}: {address}\n" for name, address in addresses.items()]
    file.write_text("".join(lines))
    return file


def register(
    api: Api, name: str = "ext", *, group: str = GROUP, version: str = "v1", **spec: Any
) -> Response:
    """Make an APIService name a Service in namespace default."""
    body = {
        "metadata": {"name": f"{version}.{group}"},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 2000,
            "versionPriority": 20,
            "service": {"name": name, "namespace": "default"},
            **spec,
        },
    }
    created = api.post(SERVICES, body)
    if created.status == 409:  # the host has registered it as its own meanwhile
        created = api.patch(f"{SERVICES}/{version}.{group}", {"spec": body["spec"]})
    assert created.status in (200, 201), created.body
    return created


def wait_for_reason(api: Api, name: str, reason: str) -> Any:
    """Return the condition Available of an APIService once it has a reason."""

    def is_done(obj: Any) -> bool:
        return reason in [each["reason"] for each in _conditions(obj)]

    return _conditions(wait_until(api, SERVICES, name, is_done))[0]


def _conditions(obj: Any) -> Any:
    return ((obj or {}).get("status") or {}).get("conditions") or []
