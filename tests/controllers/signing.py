"""Signing requests and certificate authorities for tests."""

from __future__ import annotations

import base64
import ipaddress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kapiserver.apiserver.serving.tls.settings import Pair

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


def encoded_request(name, names=(), key=KEY, encoding=Encoding.PEM):
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return base64.b64encode(builder.sign(key, algorithm).public_bytes(encoding)).decode()


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


def extension(certificate, kind):
    return certificate.extensions.get_extension_for_class(kind).value
