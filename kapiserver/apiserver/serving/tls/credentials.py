"""The files in `--cert-dir`: a CA, the server's certificate and an administrator's certificate.

A certificate is created if it is missing, expires soon or lacks a name of the server.
`cryptography` is imported only to create one, so that a start with usable files is fast. Files:
`ca.crt ca.key apiserver.crt apiserver.key admin.crt admin.key`; only the owner can read the keys.
Servers that start at once in one folder take turns by a lock on `.lock`, so that all have one CA.
"""

from __future__ import annotations

import base64
import ipaddress
import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from kapiserver.apiserver.authentication.client_authorities import OWN_CA
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.private_files import PUBLIC, locked, write_private
from kapiserver.apiserver.serving.tls.context import server_context
from kapiserver.apiserver.serving.tls.settings import (
    NamedPair,
    Pair,
    TLSSettings,
    parse_named_pair,
    parse_settings,
)

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import (
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

CA_DAYS = 3650
LEAF_DAYS = 365
RENEW_DAYS = 30
"""A certificate that expires in fewer days is replaced at start."""
NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
ADMIN = "kubernetes-admin"
ADMIN_GROUP = "system:masters"

# The Validity of a certificate in DER: two UTCTimes, the encoding of dates before 2050.
_VALIDITY = re.compile(rb"\x30\x1e\x17\x0d(\d{12})Z\x17\x0d(\d{12})Z")


class Credentials(Struct, frozen=True, kw_only=True):
    """The certificate files of a server.

    ca          the CA of the serving certificate
    own_ca      the CA in --cert-dir and its key; client certificates of it are accepted
    serving     the server's certificate
    admin       a client certificate of an administrator
    trusted     CAs of client certificates: those of users, and those of front proxies
    named       certificates for clients that ask for certain names
    settings    versions and cipher suites of TLS
    """

    ca: Path
    own_ca: Pair
    serving: Pair
    admin: Pair
    trusted: tuple[Path, ...]
    named: tuple[NamedPair, ...]
    settings: TLSSettings

    def server_context(self, *, added: str = "", http2: bool = False) -> ssl.SSLContext:
        """Return the TLS context of the listening socket; client certificates are optional.
        `added` is a PEM text of further CAs of client certificates, and `http2` offers HTTP/2 to
        clients. Raises ValueError for an unusable file or text."""
        return server_context(
            self.serving,
            trusted=self.trusted,
            settings=self.settings,
            named=self.named,
            added=added,
            http2=http2,
        )

    def files(self) -> Iterator[Path]:
        """Yield the files that a TLS context is made of."""
        for pair in (self.serving, *(named.pair for named in self.named)):
            yield pair.certificate
            yield pair.key
        yield from self.trusted


def ensure_certificates(
    config: Config, folder: Path, *, now: datetime | None = None
) -> Credentials:
    """Return the certificates in `folder`, created where missing or unusable. Raises OSError,
    and ValueError for unusable settings."""
    now = now or datetime.now(UTC)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    ca = Pair(certificate=folder / OWN_CA, key=folder / "ca.key")
    serving = Pair(certificate=folder / "apiserver.crt", key=folder / "apiserver.key")
    admin = Pair(certificate=folder / "admin.crt", key=folder / "admin.key")
    certificate, key = config.certificates.tls_cert_file, config.certificates.tls_private_key_file
    names: Sequence[str] = ()
    if certificate is not None and key is not None:
        serving = Pair(certificate=certificate, key=key)
    else:
        names = alternative_names(config)
    with locked(folder / ".lock"):
        new_ca = not _is_usable(ca, (), now)
        if new_ca:
            _write_ca(ca, now)
        if new_ca or not _is_usable(admin, (), now):
            _write_leaf(admin, ca, now, subject=subject_name(ADMIN, ADMIN_GROUP))
        if names and (new_ca or not _is_usable(serving, names, now)):
            _write_leaf(serving, ca, now, subject=subject_name("kube-apiserver"), names=names)
    extra_cas = (
        config.authentication.client_ca_file,
        config.authentication.requestheader_client_ca_file,
    )
    return Credentials(
        ca=config.certificates.tls_cert_file or ca.certificate,
        own_ca=ca,
        serving=serving,
        admin=admin,
        trusted=(ca.certificate, *(file for file in extra_cas if file is not None)),
        named=tuple(map(parse_named_pair, config.certificates.tls_sni_cert_key)),
        settings=parse_settings(
            config.certificates.tls_min_version, config.certificates.tls_cipher_suites
        ),
    )


def write_serving_certificate(folder: Path, names: Sequence[str]) -> None:
    """Write a new CA and a serving certificate for names, both valid for CA_DAYS, into `ca.crt`,
    `tls.crt` and `tls.key` of a folder. Raises OSError."""
    ca = Pair(certificate=folder / OWN_CA, key=folder / "ca.key")
    serving = Pair(certificate=folder / "tls.crt", key=folder / "tls.key")
    now = datetime.now(UTC)
    _write_ca(ca, now)
    _write_leaf(
        serving, ca, now, subject=subject_name("extension-apiserver"), names=names, days=CA_DAYS
    )


def write_client_certificate(pair: Pair, ca: Pair, user: str, groups: Sequence[str]) -> None:
    """Write a client certificate of a user, signed by a CA and valid for LEAF_DAYS. Raises OSError,
    and ValueError if the key of the CA is neither RSA nor ECDSA."""
    _write_leaf(pair, ca, datetime.now(UTC), subject=subject_name(user, *groups))


def alternative_names(config: Config) -> tuple[str, ...]:
    """Return the DNS names and IP addresses by which clients reach the server."""
    names = [*NAMES, socket.gethostname().lower(), "127.0.0.1", "::1"]
    if config.serving.bind_address not in ("", "0.0.0.0", "::"):
        names.append(config.serving.bind_address)
    names.extend(config.certificates.tls_san)
    if config.logical_clusters.logical_cluster_domain:
        names.append(f"*.{config.logical_clusters.logical_cluster_domain}")
    ranges = config.services.service_cluster_ip_range.split(",")
    names.extend(str(ipaddress.ip_network(cidr.strip()).network_address + 1) for cidr in ranges)
    return tuple(dict.fromkeys(names))


def _is_usable(pair: Pair, names: Sequence[str], now: datetime) -> bool:
    """Report whether both files exist, expire late enough and contain all names."""
    if not (pair.certificate.exists() and pair.key.exists()):
        return False
    der = ssl.PEM_cert_to_DER_cert(pair.certificate.read_text())
    validity = _VALIDITY.search(der)
    if validity is None:
        return False
    not_after = validity[2].decode()  # yymmddhhmmss
    expiry = datetime.fromisoformat(f"20{not_after[:6]}T{not_after[6:]}+00:00")
    if expiry < now + timedelta(days=RENEW_DAYS):
        return False
    return all(_der_name(name) in der for name in names)


def _der_name(name: str) -> bytes:
    """Encode a subject alternative name in DER: tag, length, bytes."""
    try:
        packed, tag = ipaddress.ip_address(name).packed, 0x87
    except ValueError:
        packed, tag = name.encode(), 0x82
    length = bytes((len(packed),)) if len(packed) < 128 else bytes((0x81, len(packed)))
    return bytes((tag,)) + length + packed


def _write_ca(pair: Pair, now: datetime) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = subject_name("kapiserver-ca")
    _write(pair, authority_builder(subject, key, now).issuer_name(subject), key, signing_key=key)


def authority_builder(
    subject: x509.Name,
    key: EllipticCurvePrivateKey,
    now: datetime,
    *,
    path_length: int | None = None,
) -> x509.CertificateBuilder:
    """Return the builder of the certificate of a CA, valid for CA_DAYS, which lacks an issuer.
    `path_length` limits the CAs below it; None: no limit."""
    from cryptography import x509

    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
        key_encipherment=True, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    return (
        _builder(subject, key, now, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _write_leaf(
    pair: Pair,
    ca: Pair,
    now: datetime,
    *,
    subject: x509.Name,
    names: Sequence[str] = (),
    days: int = LEAF_DAYS,
) -> None:
    """Write a server certificate for `names`, or a client certificate without names. Raises
    ValueError if the key of the CA is neither RSA nor ECDSA."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    issuer = x509.load_pem_x509_certificate(ca.certificate.read_bytes())
    issuer_key = load_pem_private_key(ca.key.read_bytes(), None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ValueError(f"{ca.key} is neither an RSA nor an ECDSA key")
    key = ec.generate_private_key(ec.SECP256R1())
    purpose = x509.OID_SERVER_AUTH if names else x509.OID_CLIENT_AUTH
    builder = (
        _builder(subject, key, now, days)
        .issuer_name(issuer.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(_authority_key(issuer, issuer_key.public_key()), critical=False)
    )
    if names:
        names_extension = x509.SubjectAlternativeName(list(map(_general_name, names)))
        builder = builder.add_extension(names_extension, critical=False)
    _write(pair, builder, key, signing_key=issuer_key)


def _authority_key(
    issuer: x509.Certificate, key: EllipticCurvePublicKey | RSAPublicKey
) -> x509.AuthorityKeyIdentifier:
    """Return the identifier of the issuer's key as its certificate has it: Go and cryptography hash
    a key in different ways, and OpenSSL compares the identifiers."""
    from cryptography import x509

    try:
        subject = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(subject)


def subject_name(common_name: str, *organizations: str) -> x509.Name:
    """Return the subject of a certificate."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, key: EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # One hour ago, for clients whose clocks are behind.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=days))
    )


def _write(
    pair: Pair,
    builder: x509.CertificateBuilder,
    key: EllipticCurvePrivateKey,
    *,
    signing_key: EllipticCurvePrivateKey | RSAPrivateKey,
) -> None:
    from cryptography.hazmat.primitives import hashes, serialization

    certificate = builder.sign(signing_key, hashes.SHA256())
    key_text = key.private_bytes(
        serialization.Encoding.PEM,
        # SEC 1, as client-go's keyutil: fabric8's client takes a PKCS #8 key for an RSA key.
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    write_private(pair.key, key_text)
    certificate_text = certificate.public_bytes(serialization.Encoding.PEM)
    write_private(pair.certificate, certificate_text, mode=PUBLIC)


def pem_base64(path: Path) -> str:
    """Return the content of a file in base64, as a kubeconfig embeds it."""
    return base64.b64encode(path.read_bytes()).decode()
