"""Certificates from outside: kubectl requests, approves and denies them, and logs in with them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.e2e.programs import Server, kubectls, run, start, stop

CLIENT = "kubernetes.io/kube-apiserver-client"
CERTIFICATE = "jsonpath={.status.certificate}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with RBAC."""
    running = start(tmp_path_factory.mktemp("certificates"), "--authorization-mode", "RBAC")
    yield running
    stop(running)


@pytest.fixture
def admin(server: Server) -> Callable[..., str]:
    """kubectl as the administrator."""
    return lambda *arguments, **options: run(kubectls()[0], server, *arguments, **options)


def write_request(folder: Path, name: str, *, group: str = "dev") -> str:
    """Write a new key to a folder and return a signing request for it, in base64."""
    key = ec.generate_private_key(ec.SECP256R1())
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / f"{name}.key").write_bytes(text)
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, group),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    pem = request.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    return base64.b64encode(pem).decode()


def manifest(name: str, request: str, signer: str = CLIENT, **fields: int) -> str:
    spec = {"request": request, "signerName": signer, "usages": ["client auth"], **fields}
    return json.dumps(
        {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": name},
            "spec": spec,
        }
    )


def as_user(server: Server, folder: Path, name: str) -> Callable[..., str]:
    """kubectl with the certificate and key of a user."""
    view = json.loads(run(kubectls()[0], server, "config", "view", "--raw", "-o", "json"))
    files = {"client-certificate": f"{name}.crt", "client-key": f"{name}.key"}
    view["users"][0]["user"] = {key: str(folder / file) for key, file in files.items()}
    config = folder / f"{name}.kubeconfig"
    config.write_text(json.dumps(view))
    return lambda *arguments, **options: run(
        kubectls()[0], server, f"--kubeconfig={config}", *arguments, **options
    )


def test_login(server: Server, admin: Callable[..., str], tmp_path: Path) -> None:
    """An approved request gets a certificate, which logs its user in for as long as was asked."""
    request = write_request(tmp_path, "jane")
    admin("apply", "-f", "-", stdin=manifest("jane", request, expirationSeconds=3600))
    assert "Pending" in admin("get", "csr", "jane")
    admin("certificate", "approve", "jane")
    admin("wait", "csr/jane", f"--for={CERTIFICATE}", "--timeout=60s")
    assert "Approved,Issued" in admin("get", "csr", "jane")
    pem = base64.b64decode(admin("get", "csr", "jane", "-o", CERTIFICATE))
    (tmp_path / "jane.crt").write_bytes(pem)
    certificate = x509.load_pem_x509_certificate(pem)
    duration = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert duration == timedelta(minutes=65)  # 5 of them before it was signed
    jane = as_user(server, tmp_path, "jane")
    identity = json.loads(jane("auth", "whoami", "-o", "json"))["status"]["userInfo"]
    assert (identity["username"], identity["groups"]) == ("jane", ["dev", "system:authenticated"])
    assert 'User "jane" cannot list resource "pods"' in jane("get", "pods", fails=True)
    admin("create", "clusterrolebinding", "dev", "--clusterrole=view", "--group=dev")
    assert "kube-root-ca.crt" in jane("get", "configmaps")
    assert 'User "jane" cannot' in jane("certificate", "approve", "jane", fails=True)


def test_not_issued(admin: Callable[..., str], tmp_path: Path) -> None:
    """A denied request, one for a foreign signer and one for system:masters get no certificate."""
    request = write_request(tmp_path, "bob")
    admin("apply", "-f", "-", stdin=manifest("denied", request))
    admin("certificate", "deny", "denied")
    assert "Denied" in admin("get", "csr", "denied")
    admin("apply", "-f", "-", stdin=manifest("foreign", request, "example.com/signer"))
    admin("certificate", "approve", "foreign")
    kubelet = "kubernetes.io/kubelet-serving"
    admin("apply", "-f", "-", stdin=manifest("kubelet", request, kubelet))
    admin("certificate", "approve", "kubelet")
    admin("wait", "csr/kubelet", "--for=condition=Failed", "--timeout=60s")
    assert "Approved,Failed" in admin("get", "csr", "kubelet")
    message = "jsonpath={.status.conditions[1].message}"
    expected = "subject organization is not system:nodes"
    assert admin("get", "csr", "kubelet", "-o", message) == expected
    for name in ("denied", "foreign", "kubelet"):
        assert not admin("get", "csr", name, "-o", CERTIFICATE)
    masters = manifest("m", write_request(tmp_path, "m", group="system:masters"))
    refusal = admin("apply", "-f", "-", stdin=masters, fails=True)
    assert "use of kubernetes.io/kube-apiserver-client signer with system:masters group" in refusal
    short = manifest("short", request, expirationSeconds=599)
    assert "less than 600 seconds" in admin("apply", "-f", "-", stdin=short, fails=True)
