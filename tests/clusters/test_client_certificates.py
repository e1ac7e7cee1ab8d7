"""Client certificates of logical clusters: each counts in the cluster that has signed it alone."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kapiserver.clusters.client_ca import ROOT_NAMESPACE, ROOT_SECRET
from kapiserver.clusters.credentials import NAMESPACE
from kapiserver.clusters.service import AdministratorAccess
from tests.clusters.clusterkit import MAP, MAPS, TIMEOUT_SECONDS, Kit
from tests.clusters.test_isolation import PATHS
from tests.controllers.signing import (
    CLIENT,
    KEY,
    KUBELET,
    NODE,
    NODES,
    REQUESTS,
    SERVING,
    SERVING_USAGES,
    spec_of,
    subject,
)

Pair: TypeAlias = tuple[AdministratorAccess, AdministratorAccess]

ME = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


@pytest.fixture(scope="module")
def pair(kit: Kit) -> Pair:
    """Two clusters, each of which has the ConfigMap x and lets the group viewers read."""
    one, two = kit.create(), kit.create()
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    binding = {
        "metadata": {"name": "viewers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "Group", "name": "viewers", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    for access in (one, two):
        assert kit.request(access, "POST", MAPS, MAP).code == 201
        assert kit.request(access, "POST", bindings, binding).code == 201
    return one, two


def request_certificate(kit: Kit, access: AdministratorAccess, name: str, spec: Any) -> Any:
    """Create a signing request in a cluster, approve it, and return it."""
    request = {"metadata": {"name": name}, "spec": spec}
    created = kit.request(access, "POST", REQUESTS, request)
    assert created.code == 201, created.body
    condition = {"type": "Approved", "status": "True", "reason": "Test"}
    approved = created.body | {"status": {"conditions": [condition]}}
    answer = kit.request(access, "PUT", f"{REQUESTS}/{name}/approval", approved)
    assert answer.code == 200, answer.body
    return answer.body


def signed(kit: Kit, access: AdministratorAccess, name: str, spec: Any) -> bytes:
    """Return the certificate of a signing request, with its chain."""
    request_certificate(kit, access, name, spec)

    def certificate() -> str:
        body = kit.request(access, "GET", f"{REQUESTS}/{name}").body
        return str(body["status"].get("certificate", ""))

    kit.wait(certificate)
    return base64.b64decode(certificate())


def viewer(kit: Kit, access: AdministratorAccess, name: str) -> bytes:
    """Return the certificate of the user jane of the group viewers, with its chain."""
    return signed(kit, access, name, spec_of(CLIENT, subject("jane", groups=["viewers"])))


@contextmanager
def connected(
    kit: Kit, folder: Path, certificates: bytes, host: str | None = None
) -> Iterator[http.client.HTTPSConnection]:
    """Open a connection with a client certificate of KEY and its chain."""
    key = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file = folder / "client.pem"
    file.write_bytes(certificates + key)
    context = ssl.create_default_context(cafile=kit.server.ca)
    context.load_cert_chain(file)
    context.check_hostname = host is None
    options = {} if host is None else {"server_hostname": host}
    with _connection(kit, context, **options) as connection:
        yield connection


@contextmanager
def _connection(
    kit: Kit, context: ssl.SSLContext, **options: Any
) -> Iterator[http.client.HTTPSConnection]:
    """Open a connection with these options of the handshake."""
    url = urlsplit(kit.server.url)
    connection = http.client.HTTPSConnection(
        url.hostname or "", url.port, timeout=TIMEOUT_SECONDS, context=context
    )
    connection._context = _Handshake(context, options)  # type: ignore[attr-defined]
    try:
        yield connection
    finally:
        connection.close()


class _Handshake:
    """A TLS context with more options of the handshake than http.client knows."""

    def __init__(self, context: ssl.SSLContext, options: dict[str, Any]) -> None:
        self.context = context
        self._options = options

    def wrap_socket(self, plain: Any, **options: Any) -> ssl.SSLSocket:
        """Return the TLS layer of a socket."""
        return self.context.wrap_socket(plain, **options | self._options)


def send(
    connection: http.client.HTTPSConnection,
    method: str,
    path: str,
    body: Any = None,
    **headers: str,
) -> tuple[int, Any]:
    """Return the status and the body of an answer."""
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, {"Content-Type": "application/json"} | headers)
    response = connection.getresponse()
    content = response.read()
    is_json = response.headers.get_content_type() == "application/json"
    return response.status, json.loads(content) if is_json else content


def test_a_user_of_one_cluster(kit: Kit, pair: Pair, tmp_path: Path) -> None:
    """A certificate that a cluster has signed names its user there. On no route of another cluster,
    nor of the management cluster, does it count, on the same connection; a token of the other
    cluster beside it does."""
    one, two = pair
    certificates = viewer(kit, one, "jane")
    assert certificates.count(b"BEGIN CERTIFICATE") == 2
    with connected(kit, tmp_path, certificates) as connection:
        code, review = send(connection, "POST", f"/clusters/{one.name}{ME}", REVIEW)
        assert code == 201
        assert review["status"]["userInfo"]["username"] == "jane"
        assert review["status"]["userInfo"]["groups"] == ["viewers", "system:authenticated"]
        assert send(connection, "GET", f"/clusters/{one.name}{MAPS}/x")[0] == 200
        assert send(connection, "POST", f"/clusters/{one.name}{MAPS}", MAP)[0] == 403
        codes = {
            (prefix, path): send(connection, "GET", f"{prefix}{path}")[0]
            for prefix in (f"/clusters/{two.name}", "")
            for path in PATHS
        }
        assert {key: code for key, code in codes.items() if code != 401} == {}
        bearer = {"Authorization": f"Bearer {two.token}"}
        assert send(connection, "GET", f"/clusters/{two.name}{MAPS}/x", **bearer)[0] == 200
        assert send(connection, "GET", f"/clusters/{one.name}{MAPS}/x")[0] == 200


def test_hosts(kit: Kit, pair: Pair, tmp_path: Path) -> None:
    """The host of the handshake and that of the request choose the cluster, not the certificate."""
    one, two = pair
    domain = "clusters.test"
    certificates = viewer(kit, one, "jane-by-host")
    for name, expected in ((one.name, 200), (two.name, 401)):
        with connected(kit, tmp_path, certificates, f"{name}.{domain}") as connection:
            assert send(connection, "GET", f"{MAPS}/x")[0] == expected
    with connected(kit, tmp_path, certificates) as connection:
        for name, expected in ((one.name, 200), (two.name, 401), (one.name, 200)):
            assert send(connection, "GET", f"{MAPS}/x", Host=f"{name}.{domain}")[0] == expected
    with connected(kit, tmp_path, certificates, f"{two.name}.{domain}") as connection:
        assert send(connection, "GET", f"{MAPS}/x", Host=f"{one.name}.{domain}")[0] == 421


def test_resumed_sessions(kit: Kit, pair: Pair, tmp_path: Path) -> None:
    """A session that a client resumes has the rights of the certificate with which it began."""
    one, two = pair
    certificates = viewer(kit, one, "jane-again")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with connected(kit, tmp_path, certificates) as first:
            context = first._context.context  # type: ignore[attr-defined]
            context.maximum_version = version
            assert send(first, "GET", f"/clusters/{one.name}{MAPS}/x")[0] == 200
            session = first.sock.session
            first.sock.unwrap()
        with _connection(kit, context, session=session) as second:
            assert send(second, "GET", f"/clusters/{one.name}{MAPS}/x")[0] == 200
            assert send(second, "GET", f"/clusters/{two.name}{MAPS}/x")[0] == 401
            assert send(second, "GET", MAPS)[0] == 401
            assert second.sock.session_reused == (version is ssl.TLSVersion.TLSv1_2)


def test_what_a_cluster_signs(kit: Kit, pair: Pair) -> None:
    """A cluster signs client certificates of users and of nodes, and no others; nobody becomes a
    member of system:masters."""
    one, _ = pair
    node = spec_of(KUBELET, subject(NODE, groups=[NODES]))
    assert b"BEGIN" in signed(kit, one, "node", node)
    serving = spec_of(SERVING, subject(NODE, groups=[NODES]), [x509.DNSName("n1")], SERVING_USAGES)
    request_certificate(kit, one, "serving", serving)
    signed(kit, one, "later", spec_of(CLIENT, subject("later")))  # requests are signed in order
    answer = kit.request(one, "GET", f"{REQUESTS}/serving").body
    assert "certificate" not in answer["status"]
    masters = {
        "metadata": {"name": "masters"},
        "spec": spec_of(CLIENT, subject("root", groups=["system:masters"])),
    }
    assert kit.request(one, "POST", REQUESTS, masters).code == 403


def test_forged_certificates(kit: Kit, pair: Pair, tmp_path: Path) -> None:
    """A certificate that a user has signed with a certificate of the cluster, one without the CA of
    the cluster, and one of a CA with the name of the cluster's, end the handshake."""
    one, _ = pair
    certificates = viewer(kit, one, "forger")
    leaf, client_ca = x509.load_pem_x509_certificates(certificates)
    own_key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)

    def forged(issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> bytes:
        certificate = x509.CertificateBuilder(
            issuer_name=issuer,
            subject_name=subject("root", groups=["system:masters"]),
            public_key=KEY.public_key(),
            serial_number=1,
            not_valid_before=now - timedelta(hours=1),
            not_valid_after=now + timedelta(hours=1),
        ).sign(key, hashes.SHA256())
        return certificate.public_bytes(Encoding.PEM)

    pem = {each: each.public_bytes(Encoding.PEM) for each in (leaf, client_ca)}
    for chain in (
        forged(leaf.subject, KEY) + pem[leaf] + pem[client_ca],
        forged(client_ca.subject, own_key) + pem[client_ca],
        pem[leaf],
    ):
        with (
            connected(kit, tmp_path, chain) as connection,
            pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)),
        ):
            send(connection, "GET", f"/clusters/{one.name}{MAPS}/x")


def test_a_new_ca(kit: Kit, tmp_path: Path) -> None:
    """A cluster whose Secret lacks the CA gets another one when it opens next, and certificates of
    the earlier one count no more; neither do those of an earlier cluster of the name."""
    access = kit.create("renewed")
    certificates = viewer(kit, access, "jane")
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/renewed"
    credentials = kit.management("GET", secret).body
    del credentials["data"]["client-ca.crt"]
    assert kit.management("PUT", secret, credentials).code == 200
    uid = kit.clusters._running_controller.records["renewed"].uid
    kit.server.run(kit.clusters._open_clusters.close(uid, "test"))
    with connected(kit, tmp_path, certificates) as connection:
        path = f"/clusters/renewed{MAPS}"
        assert send(connection, "GET", path)[0] == 401
        renewed = kit.management("GET", secret).body["data"]
        assert renewed["token"] == credentials["data"]["token"]
        assert renewed["client-ca.crt"]
        kit.delete("renewed")
        kit.create("renewed")
        assert send(connection, "GET", path)[0] == 401


def test_the_root_is_a_secret(kit: Kit) -> None:
    """The root of the CAs is stored once, for all servers of the store."""
    path = f"/api/v1/namespaces/{ROOT_NAMESPACE}/secrets/{ROOT_SECRET}"
    data = kit.management("GET", path).body["data"]
    root = x509.load_pem_x509_certificate(base64.b64decode(data["tls.crt"]))
    client_ca = kit.server.run(_client_ca(kit, kit.create()))
    x509.load_pem_x509_certificate(client_ca).verify_directly_issued_by(root)


async def _client_ca(kit: Kit, access: AdministratorAccess) -> bytes:
    controller = kit.clusters._running_controller
    credentials = await controller.credentials(controller.records[access.name])
    assert credentials.client_ca is not None
    return credentials.client_ca.certificate
