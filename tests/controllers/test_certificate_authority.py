"""The rules of each signer, and what a certificate authority signs."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from kapiserver.api.certificates import pem, signer_rules
from kapiserver.apiserver.config import Config
from kapiserver.controllers.certificates.certificate_authority import FileAuthority, load_authority
from kapiserver.controllers.certificates.csr_signing import check_signing_files, sign_request
from tests.controllers.signing import (
    ADDRESS,
    CLIENT,
    CLIENT_USAGES,
    DNS,
    KUBELET,
    MAIL,
    NODE,
    NODES,
    NOW,
    SERVING,
    SERVING_USAGES,
    UID,
    URI,
    extension,
    spec_of,
    subject,
    write_ca,
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
    pem = sign_request(FileAuthority(files), spec, timedelta(days=1), NOW)
    certificate = x509.load_pem_x509_certificate(pem)
    certificate.verify_directly_issued_by(load_authority(files).certificate)
    assert list(extension(certificate, x509.SubjectAlternativeName)) == [DNS, MAIL, ADDRESS, URI]
    purposes = [each.dotted_string for each in extension(certificate, x509.ExtendedKeyUsage)]
    assert purposes == ["2.5.29.37.0", "1.3.6.1.5.5.7.3.4"]
    assert certificate.not_valid_after_utc == NOW + timedelta(days=1, minutes=-5)


def test_signature(tmp_path):
    """A request that its key has not signed gets no certificate."""
    spec = spec_of(CLIENT, subject("a"))
    text = base64.b64decode(spec["request"]).decode()
    block = next(pem.parse_blocks(text))
    changed = base64.encodebytes(block.content[:-1] + bytes([block.content[-1] ^ 1])).decode()
    text = f"-----BEGIN {block.type}-----\n{changed}-----END {block.type}-----\n"
    spec["request"] = base64.b64encode(text.encode()).decode()
    authority = FileAuthority(write_ca(tmp_path / "ca"))
    with pytest.raises(signer_rules.InvalidRequest, match="unable to verify"):
        sign_request(authority, spec, timedelta(days=1), NOW)


def test_expiry(tmp_path):
    """No certificate outlives its CA; an expired CA signs nothing."""
    files = write_ca(tmp_path / "ca", days=2)
    spec = spec_of(CLIENT, subject("a"))
    pem = sign_request(FileAuthority(files), spec, timedelta(days=300), NOW)
    certificate = x509.load_pem_x509_certificate(pem)
    assert certificate.not_valid_after_utc == NOW + timedelta(days=2)
    authority = FileAuthority(files)
    with pytest.raises(ValueError, match="the signer has expired"):
        sign_request(authority, spec, timedelta(days=1), NOW + timedelta(days=2))


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
        config = Config.of(
            cluster_signing_kubelet_client_cert_file=certificate,
            cluster_signing_kubelet_client_key_file=key,
        )
        with pytest.raises(ValueError, match=problem) as caught:
            check_signing_files(config.controller_manager)
        prefix = "failed to start kubernetes.io/kube-apiserver-client-kubelet certificate "
        assert str(caught.value).startswith(prefix)
    config = Config.of(
        cluster_signing_cert_file=files.certificate,
        cluster_signing_key_file=files.key,
        cluster_signing_legacy_unknown_cert_file=files.certificate,
        cluster_signing_legacy_unknown_key_file=files.key,
    )
    with pytest.raises(ValueError, match="default and per controller certs at the same time"):
        check_signing_files(config.controller_manager)
