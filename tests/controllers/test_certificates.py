"""CertificateSigningRequests are approved, signed and deleted; the CA is published."""

from __future__ import annotations

import asyncio
import base64
import time
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.user import APISERVER
from kapiserver.app import serve
from kapiserver.controllers.certificates.certificate_authority import FileAuthority
from kapiserver.controllers.certificates.csr_cleaner import is_obsolete
from kapiserver.controllers.certificates.csr_signing import sign_request
from kapiserver.controllers.certificates.trust_bundle_publisher import SIGNER
from kapiserver.parts import Parts
from tests.clock import ManualClock
from tests.controllers.signing import (
    CERTIFICATES,
    CLIENT,
    KEY,
    KUBELET,
    NODE,
    NODES,
    NOW,
    REQUESTS,
    SERVING,
    SERVING_USAGES,
    encoded_request,
    extension,
    spec_of,
    subject,
    write_ca,
)
from tests.controllers.waiting import wait_until


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return write_ca(tmp_path_factory.mktemp("signing") / "ca", now=datetime.now(UTC))


@pytest.fixture(scope="module")
def signing_server(authority):
    """A server with RBAC whose signers use a CA of their own."""
    from tests.apiserver.conftest import Server

    server = Server(
        authorization_mode=("RBAC",),
        cluster_signing_cert_file=authority.certificate,
        cluster_signing_key_file=authority.key,
        cluster_signing_duration=24 * 3600.0,
    )
    yield server
    server.end()


@pytest.fixture
def signing(signing_server):
    return signing_server.api


def create(api, name, spec, **headers):
    body = {"metadata": {"name": name}, "spec": spec}
    response = api.post(REQUESTS, body, headers=headers)
    assert response.status == 201, response.body
    return response.json


def decide(api, name, type_="Approved"):
    request = api.get(f"{REQUESTS}/{name}").json
    request["status"] = {"conditions": [{"type": type_, "status": "True", "reason": "Test"}]}
    response = api.put(f"{REQUESTS}/{name}/approval", request)
    assert response.status == 200, response.body


def has_certificate(request):
    return bool(request and (request.get("status") or {}).get("certificate"))


def has_type(type_):
    def is_done(request):
        conditions = ((request or {}).get("status") or {}).get("conditions") or ()
        return any(condition["type"] == type_ for condition in conditions)

    return is_done


def certificate_of(request):
    return x509.load_pem_x509_certificate(base64.b64decode(request["status"]["certificate"]))


def test_signed(signing, authority):
    """An approved request is signed: its subject without attributes that the signer has not
    checked, its usages, no CA, the requested duration. Requests track no fields."""
    name = subject("mallory", "jane", groups=("dev", "ops"), uid="0")
    create(signing, "jane", spec_of(CLIENT, name, expirationSeconds=600))
    before = time.time()
    decide(signing, "jane")
    request = wait_until(signing, REQUESTS, "jane", has_certificate)
    certificate = certificate_of(request)
    issuer = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    certificate.verify_directly_issued_by(issuer)
    attributes = [(each.oid, each.value) for each in certificate.subject]
    assert sorted(value for _, value in attributes) == ["dev", "jane", "ops"]
    assert certificate.public_key() == KEY.public_key()
    assert extension(certificate, x509.BasicConstraints).ca is False
    assert list(extension(certificate, x509.ExtendedKeyUsage)) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    usage = extension(certificate, x509.KeyUsage)
    assert (usage.digital_signature, usage.key_cert_sign) == (True, False)
    key_id = extension(issuer, x509.SubjectKeyIdentifier).digest
    assert extension(certificate, x509.AuthorityKeyIdentifier).key_identifier == key_id
    expiry = certificate.not_valid_after_utc.timestamp()
    assert before + 599 <= expiry <= time.time() + 600
    assert certificate.not_valid_before_utc.timestamp() <= time.time() - 300
    assert "managedFields" not in request["metadata"]


def test_not_signed(signing):
    """A request that is not approved, is denied, or is for another signer gets no certificate."""
    create(signing, "pending", spec_of(CLIENT, subject("a")))
    create(signing, "denied", spec_of(CLIENT, subject("a")))
    decide(signing, "denied", "Denied")
    create(signing, "other", spec_of("example.com/signer", subject("a")))
    decide(signing, "other")
    create(signing, "last", spec_of(CLIENT, subject("a"), expirationSeconds=7 * 24 * 3600))
    decide(signing, "last")
    request = wait_until(signing, REQUESTS, "last", has_certificate)
    expiry = certificate_of(request).not_valid_after_utc.timestamp()
    assert expiry <= time.time() + 24 * 3600  # the server's limit
    for name in ("pending", "denied", "other"):
        assert not has_certificate(signing.get(f"{REQUESTS}/{name}").json)


def test_refused(signing):
    """A request that breaks the rules of its signer fails, and stays so."""
    create(signing, "server", spec_of(CLIENT, subject("a"), usages=("server auth",)))
    decide(signing, "server")
    request = wait_until(signing, REQUESTS, "server", has_type("Failed"))
    assert not has_certificate(request)
    condition = request["status"]["conditions"][1]
    assert condition["reason"] == "SignerValidationFailure"
    assert condition["message"] == "invalid usage for client certificate: server auth"
    assert condition["lastUpdateTime"]


def der(tag, *contents):
    """An element of DER; its content is that of a list of elements."""
    content = b"".join(contents)
    length = len(content)
    return bytes((tag, length) if length < 128 else (tag, 0x81, length)) + content


def hostile_request():
    """A signed request whose common name is a BIT STRING, which no Name may be."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject("@name"))
    info = builder.sign(KEY, hashes.SHA256()).tbs_certrequest_bytes
    info = info.replace(b"\x0c\x05@name", b"\x03\x05\x00name")
    signature = KEY.sign(info, ec.ECDSA(hashes.SHA256()))
    algorithm = bytes.fromhex("300a06082a8648ce3d040302")
    content = der(0x30, info, algorithm, der(0x03, b"\x00", signature))
    body = base64.encodebytes(content).decode()
    text = f"-----BEGIN CERTIFICATE REQUEST-----\n{body}-----END CERTIFICATE REQUEST-----\n"
    return base64.b64encode(text.encode()).decode()


def test_hostile_subject(signing):
    """A subject that cannot be read is refused, or the request fails; nothing is retried."""
    fields = {"request": hostile_request()}
    spec = spec_of(CLIENT, subject("a")) | fields
    response = signing.post(REQUESTS, {"metadata": {"name": "hostile"}, "spec": spec})
    assert (response.status, "failed to parse CSR" in response.message) == (403, True)
    create(signing, "hostile", spec_of(SERVING, subject("a"), usages=SERVING_USAGES) | fields)
    decide(signing, "hostile")
    request = wait_until(signing, REQUESTS, "hostile", has_type("Failed"))
    assert request["status"]["conditions"][1]["message"].startswith("unable to parse csr: ")


def test_masters(signing):
    """No request may name the group system:masters; the message is kube-apiserver's."""
    spec = spec_of(CLIENT, subject("a", groups=("system:masters",)))
    response = signing.post(REQUESTS, {"metadata": {"name": "m"}, "spec": spec})
    assert response.status == 403
    assert response.message.endswith(
        "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    )


RBAC = "/apis/rbac.authorization.k8s.io/v1"


def bind(api, user, role):
    """Give a user a cluster role."""
    group = "rbac.authorization.k8s.io"
    body = {
        "metadata": {"generateName": "test-"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    assert api.post(f"{RBAC}/clusterrolebindings", body).status == 201


def test_kubelets(signing):
    """A kubelet's request is approved and signed if its user may create selfnodeclient, for its own
    node, or nodeclient, for any node."""
    requests, prefix = ["certificatesigningrequests"], "system:certificates.k8s.io"
    rule = {"apiGroups": ["certificates.k8s.io"], "resources": requests, "verbs": ["create"]}
    role = {"metadata": {"name": "requester"}, "rules": [rule]}
    assert signing.post(f"{RBAC}/clusterroles", role).status == 201
    for user, right in ((NODE, "selfnodeclient"), ("boot", "nodeclient")):
        bind(signing, user, "requester")
        bind(signing, user, f"{prefix}:certificatesigningrequests:{right}")
    own, other = subject(NODE, groups=(NODES,)), subject("system:node:n2", groups=(NODES,))
    requested = (
        ("foreign", NODE, other), ("client", "boot", subject("system:node:n2")),
        ("own", NODE, own), ("boot", "boot", other),
    )  # fmt: skip
    for name, user, node in requested:
        create(signing, name, spec_of(KUBELET, node), **{"Impersonate-User": user})
    for name, word in (("own", "self "), ("boot", "")):
        request = wait_until(signing, REQUESTS, name, has_certificate)
        condition = request["status"]["conditions"][0]
        assert (condition["type"], condition["reason"]) == ("Approved", "AutoApproved")
        assert condition["message"] == (
            f"Auto approving {word}kubelet client certificate after SubjectAccessReview."
        )
    for name in ("foreign", "client"):
        assert not signing.get(f"{REQUESTS}/{name}").json["status"]


def signing_request(*conditions, certificate="", created=NOW):
    """A CertificateSigningRequest with conditions of the time NOW."""
    times = {"status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z"}
    return {
        "metadata": {"name": "r", "creationTimestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ")},
        "status": {
            "conditions": [{"type": type_, **times} for type_ in conditions],
            "certificate": certificate,
        },
    }


def issued_certificate(folder, duration):
    files = write_ca(folder / "ca")
    pem = sign_request(FileAuthority(files), spec_of(CLIENT, subject("a")), duration, NOW)
    return base64.b64encode(pem).decode()


def test_obsolete(tmp_path):
    """Decided requests are obsolete after one hour, pending ones after a day, issued ones with
    their certificate; approved ones without a certificate stay."""
    certificate = issued_certificate(tmp_path, timedelta(minutes=10))
    approved = signing_request("Approved")
    for request, minutes in (
        (signing_request("Approved", certificate=certificate), 10),
        (signing_request("Approved", certificate="bm8gUEVN"), 60),
        (signing_request("Denied"), 60),
        (signing_request("Approved", "Failed"), 60),
        (signing_request(), 24 * 60),
    ):
        last = NOW + timedelta(minutes=minutes)
        assert not is_obsolete(request, last), request
        assert is_obsolete(request, last + timedelta(seconds=1)), request
    assert not is_obsolete(approved, NOW + timedelta(days=100))


def test_cleaner():
    """The requests are checked every hour, as the controller's user."""

    async def run():
        clock = ManualClock()
        config = Config.of(secure_port=None, authorization_mode=("RBAC",))
        async with serve(config, Parts(clock=clock)) as running:
            client = running.cluster.server.client(APISERVER)
            requests = client.resource("certificates.k8s.io/v1", "certificatesigningrequests")
            spec = spec_of(CLIENT, subject("a"))
            await requests.create({"metadata": {"name": "old"}, "spec": spec})
            clock.advance(23 * 3600)
            await requests.create({"metadata": {"name": "a-new"}, "spec": spec})
            version = (await requests.list())["metadata"]["resourceVersion"]
            clock.advance(2 * 3600)
            async with asyncio.timeout(60):
                async for event in requests.watch(resource_version=version):
                    if event.type == "DELETED":
                        break
            assert event.object["metadata"]["name"] == "old"
            names = [each["metadata"]["name"] for each in (await requests.list())["items"]]
            assert names == ["a-new"]

    asyncio.run(run())


def test_pod_request_cleaner():
    """PodCertificateRequests are deleted after 15 minutes; the check is every five minutes."""

    async def run():
        clock = ManualClock()
        config = Config.of(secure_port=None, authorization_mode=("RBAC",))
        async with serve(config, Parts(clock=clock)) as running:
            client = running.cluster.server.client(APISERVER)
            resource = "podcertificaterequests"
            requests = client.resource("certificates.k8s.io/v1", resource, namespace="default")
            encoded = encoded_request(x509.Name([]), encoding=Encoding.DER)
            identity = {"podName": "p", "podUID": "1", "nodeName": "n", "nodeUID": "3"}
            account = {"serviceAccountName": "s", "serviceAccountUID": "2"}
            spec = {"signerName": "example.com/signer", **identity, **account}
            body = {"metadata": {"name": "r"}, "spec": spec | {"stubPKCS10Request": encoded}}
            version = (await requests.create(body))["metadata"]["resourceVersion"]
            for _ in range(2):
                clock.advance(300)
            assert len((await requests.list())["items"]) == 1
            clock.advance(300)
            async with asyncio.timeout(60):
                async for event in requests.watch(resource_version=version):
                    if event.type == "DELETED":
                        break

    asyncio.run(run())


def test_trust_bundle(tmp_path):
    """The CA of the server is published under a name with its hash; other bundles of the signer are
    deleted, and a changed one is restored."""

    async def run():
        config = Config.of(secure_port=0, cert_dir=tmp_path, authorization_mode=("RBAC",))
        async with serve(config) as running:
            client = running.cluster.server.client(APISERVER)
            bundles = client.resource("certificates.k8s.io/v1", "clustertrustbundles")
            ca_text = running.ca_file.read_text()
            async with asyncio.timeout(60):
                async for event in bundles.watch():
                    if event.type == "ADDED":
                        break
                bundle = event.object
                name = bundle["metadata"]["name"]
                assert name.startswith("kubernetes.io:kube-apiserver-serving:")
                assert bundle["spec"] == {"signerName": SIGNER, "trustBundle": ca_text}
                other = (write_ca(tmp_path / "other")).certificate.read_text()
                spec = {"signerName": SIGNER, "trustBundle": other}
                old = {"metadata": {"name": "kubernetes.io:kube-apiserver-serving:old"}}
                await bundles.create({**old, "spec": spec})
                await bundles.update({**bundle, "spec": spec})
                changes = []
                version = bundle["metadata"]["resourceVersion"]
                async for event in bundles.watch(resource_version=version):
                    own = event.object["spec"]["trustBundle"] == ca_text
                    changes.append((event.type, event.object["metadata"]["name"], own))
                    if {("DELETED", "kubernetes.io:kube-apiserver-serving:old", False),
                        ("MODIFIED", name, True)} <= set(changes):  # fmt: skip
                        break

    asyncio.run(run())


def test_root_ca(tmp_path):
    """The ConfigMap with the CA is restored after a change, as the controller's user."""

    async def run():
        config = Config.of(secure_port=0, cert_dir=tmp_path, authorization_mode=("RBAC",))
        async with serve(config) as running:
            client = running.cluster.server.client(APISERVER)
            maps = client.resource("v1", "configmaps", namespace="default")
            ca_text = running.ca_file.read_text()
            changed = False
            async with asyncio.timeout(60):
                async for event in maps.watch(fieldSelector="metadata.name=kube-root-ca.crt"):
                    if event.object["data"] != {"ca.crt": ca_text}:
                        continue
                    if changed:
                        break
                    changed = True
                    await maps.update(event.object | {"data": {"ca.crt": "other"}})

    asyncio.run(run())


def test_attest(signing, tmp_path):
    """A user without the right to attest for a signer may not write its trust bundle."""
    rule = {"apiGroups": ["certificates.k8s.io"], "resources": ["clustertrustbundles"]}
    role = {"metadata": {"name": "bundler"}, "rules": [{**rule, "verbs": ["create"]}]}
    assert signing.post(f"{RBAC}/clusterroles", role).status == 201
    bind(signing, "eve", "bundler")
    anchor = write_ca(tmp_path / "ca").certificate.read_text()
    spec = {"signerName": "example.com/a", "trustBundle": anchor}
    body = {"metadata": {"name": "example.com:a:b"}, "spec": spec}
    path, headers = f"{CERTIFICATES}/clustertrustbundles", {"Impersonate-User": "eve"}
    response = signing.post(path, body, headers=headers)
    assert response.status == 403
    assert 'user not permitted to attest for signerName "example.com/a"' in response.message


def test_approve_and_sign(signing):
    """A user who may write the approval or the status of requests also needs the verb `approve` or
    `sign` on the signer, or on all signers of its domain."""
    group, path = "certificates.k8s.io", f"{RBAC}/clusterroles"
    parts = [f"certificatesigningrequests/{name}" for name in ("approval", "status")]
    writer = {"apiGroups": [group], "resources": parts, "verbs": ["update"]}
    assert signing.post(path, {"metadata": {"name": "writer"}, "rules": [writer]}).status == 201
    bind(signing, "amy", "writer")
    created = create(signing, "verbs", spec_of("example.com/signer", subject("a")))
    approved = {"conditions": [{"type": "Approved", "status": "True", "reason": "x"}]}
    headers, url = {"Impersonate-User": "amy"}, f"{REQUESTS}/verbs"
    failed = {"type": "Failed", "status": "True", "reason": "x"}
    for verb, part, words in (("approve", "approval", "approve"), ("sign", "status", "sign")):
        body = signing.get(url).json
        conditions = (body["status"] or approved).get("conditions") or []
        new = approved if verb == "approve" else {"conditions": [*conditions, failed]}
        response = signing.put(f"{url}/{part}", body | {"status": new}, headers=headers)
        assert response.status == 403
        message = f'user not permitted to {words} requests with signerName "example.com/signer"'
        assert message in response.message
        signers = {"apiGroups": [group], "resources": ["signers"], "verbs": [verb]}
        rules = [signers | {"resourceNames": ["example.com/*"]}]
        assert signing.post(path, {"metadata": {"name": verb}, "rules": rules}).status == 201
        bind(signing, "amy", verb)
        response = signing.put(f"{url}/{part}", body | {"status": new}, headers=headers)
        assert response.status == 200, response.body
    assert created["metadata"]["uid"] == signing.get(url).json["metadata"]["uid"]
