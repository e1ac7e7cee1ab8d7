"""CertificateSigningRequests are approved, signed and deleted; the CA is published."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import time
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kapiserver.api.certificates import signer_rules
from kapiserver.apiserver.authentication.user import APISERVER
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls_settings import Pair
from kapiserver.app import serve
from kapiserver.controllers.certificate_authority import load_authority
from kapiserver.controllers.csr_cleaner import is_obsolete
from kapiserver.controllers.csr_signing import check_signing_files, sign_request
from kapiserver.controllers.trust_bundle_publisher import SIGNER
from tests.clock import ManualClock
from tests.controllers.waiting import wait_until

KEY = ec.generate_private_key(ec.SECP256R1())
CERTIFICATES = "/apis/certificates.k8s.io/v1"
REQUESTS = f"{CERTIFICATES}/certificatesigningrequests"
UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
CLIENT, SERVING = "kube-apiserver-client", "kubelet-serving"
KUBELET = "kube-apiserver-client-kubelet"
CLIENT_USAGES = ("digital signature", "client auth")
SERVING_USAGES = ("digital signature", "key encipherment", "server auth")
NODE, NODES = "system:node:n1", "system:nodes"
DNS, MAIL = x509.DNSName("n1"), x509.RFC822Name("a@b.c")
ADDRESS = x509.IPAddress(ipaddress.ip_address("10.0.0.1"))
URI = x509.UniformResourceIdentifier("https://n1/")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def subject(*common_names, groups=(), uid=""):
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    if uid:
        attributes.append(x509.NameAttribute(UID, uid))
    attributes += [x509.NameAttribute(NameOID.COMMON_NAME, name) for name in common_names]
    return x509.Name(attributes)


def encoded_request(name, names=(), key=KEY):
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return base64.b64encode(builder.sign(key, algorithm).public_bytes(Encoding.PEM)).decode()


def spec_of(signer, name, names=(), usages=CLIENT_USAGES, **fields):
    request = encoded_request(name, names)
    signer = signer if "/" in signer else f"kubernetes.io/{signer}"
    return {"request": request, "signerName": signer, "usages": list(usages), **fields}


def write_ca(folder, key=None, *, days=3650, now=NOW, name="test-ca"):
    """The files of a certificate authority in a new folder."""
    folder.mkdir()
    key = key or ec.generate_private_key(ec.SECP256R1())
    issuer = subject(name)
    builder = x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=issuer,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - timedelta(days=1),
        not_valid_after=now + timedelta(days=days),
    ).add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    files = Pair(certificate=folder / "ca.crt", key=folder / "ca.key")
    files.certificate.write_bytes(builder.sign(key, algorithm).public_bytes(Encoding.PEM))
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


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


def extension(certificate, kind):
    return certificate.extensions.get_extension_for_class(kind).value


def test_signed(signing, authority):
    """An approved request is signed: its subject without attributes that the signer has not
    checked, its usages, no CA, the requested duration."""
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
    managers = [each.get("manager") for each in request["metadata"]["managedFields"]]
    assert "kube-controller-manager" in managers


def test_not_signed(signing):
    """A request that is not approved, is denied, or is for another signer gets no certificate."""
    create(signing, "pending", spec_of(CLIENT, subject("a")))
    create(signing, "denied", spec_of(CLIENT, subject("a")))
    decide(signing, "denied", "Denied")
    create(signing, "other", spec_of("example.com/signer", subject("a")))
    decide(signing, "other")
    create(signing, "last", spec_of(CLIENT, subject("a")))
    decide(signing, "last")
    wait_until(signing, REQUESTS, "last", has_certificate)
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


def test_masters(signing):
    """No request may name the group system:masters; the message is kube-apiserver's."""
    spec = spec_of(CLIENT, subject("a", groups=("system:masters",)))
    response = signing.post(REQUESTS, {"metadata": {"name": "m"}, "spec": spec})
    assert response.status == 403
    assert response.message.endswith(
        "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    )


RULES = [
    (CLIENT, subject("a"), (), CLIENT_USAGES, ""),
    (CLIENT, subject("a"), (), ("client auth",), ""),
    (CLIENT, subject("a"), (DNS,), ("client auth", "key encipherment"), ""),
    (CLIENT, subject("a"), (), ("digital signature",),
     "missing required usage for client certificate: client auth"),
    (CLIENT, subject("a"), (), ("client auth", "cert sign"),
     "invalid usage for client certificate: cert sign"),
    (KUBELET, subject(NODE, groups=(NODES,)), (), CLIENT_USAGES, ""),
    (KUBELET, subject(NODE, groups=(NODES,)), (), (*CLIENT_USAGES, "key encipherment"), ""),
    (KUBELET, subject(NODE), (), CLIENT_USAGES, "subject organization is not system:nodes"),
    (KUBELET, subject(NODE, groups=(NODES, "x")), (), CLIENT_USAGES,
     "subject organization is not system:nodes"),
    (KUBELET, subject("n1", groups=(NODES,)), (), CLIENT_USAGES,
     "subject common name does not begin with system:node:"),
    (KUBELET, subject(NODE, "n1", groups=(NODES,)), (), CLIENT_USAGES,
     "subject common name does not begin with system:node:"),
    (KUBELET, subject(NODE, groups=(NODES,)), (DNS,), CLIENT_USAGES,
     "DNS subjectAltNames are not allowed"),
    (KUBELET, subject(NODE, groups=(NODES,)), (MAIL,), CLIENT_USAGES,
     "Email subjectAltNames are not allowed"),
    (KUBELET, subject(NODE, groups=(NODES,)), (ADDRESS,), CLIENT_USAGES,
     "IP subjectAltNames are not allowed"),
    (KUBELET, subject(NODE, groups=(NODES,)), (URI,), CLIENT_USAGES,
     "URI subjectAltNames are not allowed"),
    (KUBELET, subject(NODE, groups=(NODES,)), (), ("client auth",),
     "usages did not match [client auth digital signature key encipherment]"),
    (SERVING, subject(NODE, groups=(NODES,)), (DNS,), SERVING_USAGES, ""),
    (SERVING, subject(NODE, groups=(NODES,)), (ADDRESS,), ("server auth", "digital signature"), ""),
    (SERVING, subject(NODE, groups=(NODES,)), (), SERVING_USAGES,
     "DNS or IP subjectAltName is required"),
    (SERVING, subject(NODE, groups=(NODES,)), (DNS, MAIL), SERVING_USAGES,
     "Email subjectAltNames are not allowed"),
    (SERVING, subject(NODE, groups=(NODES,)), (DNS, URI), SERVING_USAGES,
     "URI subjectAltNames are not allowed"),
    (SERVING, subject(NODE, groups=("x",)), (DNS,), SERVING_USAGES,
     "subject organization is not system:nodes"),
    (SERVING, subject("n1", groups=(NODES,)), (DNS,), SERVING_USAGES,
     "subject common name does not begin with system:node:"),
    (SERVING, subject(NODE, groups=(NODES,)), (DNS,), CLIENT_USAGES,
     "usages did not match [digital signature key encipherment server auth]"),
    ("legacy-unknown", subject("a"), (MAIL,), ("cert sign", "any"), ""),
]  # fmt: skip


@pytest.mark.parametrize(("signer", "name", "names", "usages", "problem"), RULES)
def test_rules(signer, name, names, usages, problem):
    """Each signer has the rules, and the words, of kube-controller-manager."""
    spec = spec_of(signer, name, names, usages)
    request = signer_rules.read_request(spec)
    if not problem:
        signer_rules.check_request(spec["signerName"], request)
        return
    with pytest.raises(signer_rules.InvalidRequest) as caught:
        signer_rules.check_request(spec["signerName"], request)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    "key",
    [
        ec.generate_private_key(ec.SECP384R1()),
        ed25519.Ed25519PrivateKey.generate(),
        rsa.generate_private_key(65537, 2048),
    ],
    ids=["P-384", "Ed25519", "RSA"],
)
def test_authorities(key, tmp_path):
    """A CA may have any type of key; alternative names, of four kinds, are kept."""
    files = write_ca(tmp_path / "ca", key)
    names = (URI, ADDRESS, x509.RegisteredID(UID), MAIL, DNS)
    spec = spec_of("legacy-unknown", subject("a"), names, ("any", "s/mime", "crl sign"))
    pem = sign_request(files, spec, timedelta(days=1), NOW)
    certificate = x509.load_pem_x509_certificate(pem)
    certificate.verify_directly_issued_by(load_authority(files).certificate)
    assert list(extension(certificate, x509.SubjectAlternativeName)) == [DNS, MAIL, ADDRESS, URI]
    purposes = [each.dotted_string for each in extension(certificate, x509.ExtendedKeyUsage)]
    assert purposes == ["2.5.29.37.0", "1.3.6.1.5.5.7.3.4"]
    assert certificate.not_valid_after_utc == NOW + timedelta(days=1, minutes=-5)


def test_expiry(tmp_path):
    """No certificate outlives its CA; an expired CA signs nothing."""
    files = write_ca(tmp_path / "ca", days=2)
    spec = spec_of(CLIENT, subject("a"))
    pem = sign_request(files, spec, timedelta(days=300), NOW)
    certificate = x509.load_pem_x509_certificate(pem)
    assert certificate.not_valid_after_utc == NOW + timedelta(days=2)
    with pytest.raises(ValueError, match="the signer has expired"):
        sign_request(files, spec, timedelta(days=1), NOW + timedelta(days=2))


def test_files(tmp_path):
    """An unusable CA is refused at start in kube-controller-manager's words."""
    files, other = write_ca(tmp_path / "1"), write_ca(tmp_path / "2")
    two = tmp_path / "two"
    two.write_bytes(files.certificate.read_bytes() * 2)
    for certificate, key, problem in (
        (files.certificate, other.key, "doesn't match parent's PublicKey"),
        (two, files.key, "expected 1 certificate, found 2"),
        (tmp_path / "none", files.key, "error reading CA cert file"),
        (files.certificate, files.certificate, "error reading CA key file"),
    ):
        config = Config(
            cluster_signing_kubelet_client_cert_file=certificate,
            cluster_signing_kubelet_client_key_file=key,
        )
        with pytest.raises(ValueError, match=problem) as caught:
            check_signing_files(config)
        prefix = "failed to start kubernetes.io/kube-apiserver-client-kubelet certificate "
        assert str(caught.value).startswith(prefix)
    both = Config(
        cluster_signing_cert_file=files.certificate,
        cluster_signing_key_file=files.key,
        cluster_signing_legacy_unknown_cert_file=files.certificate,
        cluster_signing_legacy_unknown_key_file=files.key,
    )
    with pytest.raises(ValueError, match="default and per controller certs at the same time"):
        check_signing_files(both)


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
    for name, user, node in (("foreign", NODE, other), ("own", NODE, own), ("boot", "boot", other)):
        create(signing, name, spec_of(KUBELET, node), **{"Impersonate-User": user})
    for name, word in (("own", "self "), ("boot", "")):
        request = wait_until(signing, REQUESTS, name, has_certificate)
        condition = request["status"]["conditions"][0]
        assert (condition["type"], condition["reason"]) == ("Approved", "AutoApproved")
        assert condition["message"] == (
            f"Auto approving {word}kubelet client certificate after SubjectAccessReview."
        )
    assert not signing.get(f"{REQUESTS}/foreign").json["status"]


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
    pem = sign_request(files, spec_of(CLIENT, subject("a")), duration, NOW)
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
        config = Config(secure_port=None, authorization_mode=("RBAC",))
        async with serve(config, clock=clock) as running:
            client = running.app.server.client(APISERVER)
            requests = client.resource("certificates.k8s.io/v1", "certificatesigningrequests")
            spec = spec_of(CLIENT, subject("a"))
            await requests.create({"metadata": {"name": "old"}, "spec": spec})
            clock.advance(23 * 3600)
            await requests.create({"metadata": {"name": "new"}, "spec": spec})
            version = (await requests.list())["metadata"]["resourceVersion"]
            clock.advance(2 * 3600)
            async with asyncio.timeout(60):
                async for event in requests.watch(resource_version=version):
                    if event.type == "DELETED":
                        break
            assert event.object["metadata"]["name"] == "old"
            names = [each["metadata"]["name"] for each in (await requests.list())["items"]]
            assert names == ["new"]

    asyncio.run(run())


def test_trust_bundle(tmp_path):
    """The CA of the server is published under a name with its hash; other bundles of the signer are
    deleted, and a changed one is restored."""

    async def run():
        config = Config(secure_port=0, cert_dir=tmp_path, authorization_mode=("RBAC",))
        async with serve(config) as running:
            client = running.app.server.client(APISERVER)
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
        config = Config(secure_port=0, cert_dir=tmp_path, authorization_mode=("RBAC",))
        async with serve(config) as running:
            client = running.app.server.client(APISERVER)
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
