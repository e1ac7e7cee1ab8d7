"""A certificate authority whose files are on disk, and the certificates that it signs.

The cryptography package is loaded when first needed. Mirrors
pkg/controller/certificates/authority and ca_provider.go of pkg/controller/certificates/signer.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from kapiserver.api.certificates.keys import encode_key, is_self_signed, public_key_of
from kapiserver.api.certificates.signer_rules import SIGNERS, InvalidRequest, RequestContent
from kapiserver.apiserver.serving.tls.settings import Pair

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512

    SigningKey: TypeAlias = (
        ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey
    )

BACKDATE = timedelta(minutes=5)
"""How long before the time of signing a certificate begins to be valid, for clocks that are
behind."""
SHORT = timedelta(hours=8)
"""A certificate with a shorter duration is valid for all of it after the time of signing."""

_KEY_USAGES = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
_EXTENDED_KEY_USAGES = {
    "any": "2.5.29.37.0",
    "server auth": "1.3.6.1.5.5.7.3.1",
    "client auth": "1.3.6.1.5.5.7.3.2",
    "code signing": "1.3.6.1.5.5.7.3.3",
    "email protection": "1.3.6.1.5.5.7.3.4",
    "s/mime": "1.3.6.1.5.5.7.3.4",
    "ipsec end system": "1.3.6.1.5.5.7.3.5",
    "ipsec tunnel": "1.3.6.1.5.5.7.3.6",
    "ipsec user": "1.3.6.1.5.5.7.3.7",
    "timestamping": "1.3.6.1.5.5.7.3.8",
    "ocsp signing": "1.3.6.1.5.5.7.3.9",
    "microsoft sgc": "1.3.6.1.4.1.311.10.3.3",
    "netscape sgc": "2.16.840.1.113730.4.1",
}
"""Object identifiers, in the order in which Go writes them."""
_SUBJECT_ATTRIBUTES = (
    "2.5.4.6", "2.5.4.10", "2.5.4.11", "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.17",
)  # fmt: skip
_SINGLE_SUBJECT_ATTRIBUTES = ("2.5.4.3", "2.5.4.5")
"""Common name and serial number, of which the last one counts."""


class CertificateAuthority(Struct, frozen=True):
    """A CA certificate and its key."""

    certificate: x509.Certificate
    key: SigningKey

    def sign(self, request: RequestContent, duration: timedelta, now: datetime) -> bytes:
        """Return a certificate for a request as PEM. It is valid for `duration`, but not longer
        than the CA. Raises InvalidRequest; ValueError if the CA has expired."""
        from cryptography import x509
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import Encoding

        if not is_self_signed(request.parsed):
            raise InvalidRequest("unable to verify certificate request signature")
        expiry = self.certificate.not_valid_after_utc
        not_after = now + duration - (BACKDATE if duration >= SHORT else timedelta())
        if now >= expiry:
            raise ValueError(f"the signer has expired: NotAfter={expiry}")
        try:
            builder = x509.CertificateBuilder(
                issuer_name=self.certificate.subject,
                subject_name=_subject(request.parsed.subject),
                public_key=request.parsed.public_key(),
                serial_number=x509.random_serial_number(),
                not_valid_before=now - BACKDATE,
                not_valid_after=min(not_after, expiry),
            )
            for extension, critical in (*_extensions(request), *self._authority_key()):
                builder = builder.add_extension(extension, critical=critical)
            certificate = builder.sign(self.key, _hash_algorithm(self.key))
        except (TypeError, ValueError, UnsupportedAlgorithm) as error:
            raise InvalidRequest(f"failed to sign certificate: {error}") from None
        return certificate.public_bytes(Encoding.PEM)

    def sign_authority(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        """Return the certificate of a CA below this one, of a builder that lacks the issuer."""
        builder = builder.issuer_name(self.certificate.subject)
        for extension, critical in self._authority_key():
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self.key, _hash_algorithm(self.key))

    def _authority_key(self) -> Iterator[tuple[x509.ExtensionType, bool]]:
        from cryptography import x509

        try:
            subject_key = self.certificate.extensions.get_extension_for_class(
                x509.SubjectKeyIdentifier
            ).value
        except x509.ExtensionNotFound:
            return
        authority = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(subject_key)
        yield authority, False


class FileAuthority(Struct, frozen=True):
    """A CA in two files, which are read for each request, so that a new one is used at once."""

    files: Pair
    signers: Sequence[str] = SIGNERS

    def sign(self, request: RequestContent, duration: timedelta, now: datetime) -> bytes:
        """Return a certificate for a request. Raises InvalidRequest; ValueError for unusable
        files."""
        return load_authority(self.files).sign(request, duration, now)


def load_authority(files: Pair) -> CertificateAuthority:
    """Return the certificate authority of two PEM files. Raises ValueError with the words of
    kube-controller-manager."""
    with _named_errors(f'error reading CA cert file "{files.certificate}"'):
        certificate = _parse_certificate(files.certificate.read_bytes())
    with _named_errors(f'error reading CA key file "{files.key}"'):
        return CertificateAuthority(certificate, _parse_key(files.key.read_bytes(), certificate))


def parse_authority(certificate: bytes, key: bytes) -> CertificateAuthority:
    """Return the certificate authority of two PEM texts. Raises ValueError."""
    parsed = _parse_certificate(certificate)
    return CertificateAuthority(parsed, _parse_key(key, parsed))


@contextmanager
def _named_errors(text: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise ValueError(f"{text}: {error}") from None


def _parse_certificate(pem: bytes) -> x509.Certificate:
    from cryptography import x509

    certificates = x509.load_pem_x509_certificates(pem)
    if len(certificates) != 1:
        raise ValueError(f"expected 1 certificate, found {len(certificates)}")
    return certificates[0]


def _parse_key(pem: bytes, certificate: x509.Certificate) -> SigningKey:
    """Return the key of a certificate."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, None)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(error) from None
    if not isinstance(
        key, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey
    ):
        raise ValueError("unsupported type of key")
    if public_key_of(certificate) != encode_key(key.public_key()):
        raise ValueError("x509: provided PrivateKey doesn't match parent's PublicKey")
    return key


def is_expired(certificate_text: str, now: datetime) -> bool:
    """Return whether the first certificate of a PEM text has expired; False if the text has no
    valid one."""
    from kapiserver.api.certificates.pem import parse_blocks, parse_certificate

    block = next(parse_blocks(certificate_text), None)
    certificate = parse_certificate(block) if block is not None else None
    return certificate is not None and certificate.not_valid_after_utc < now.astimezone(UTC)


def _subject(subject: x509.Name) -> x509.Name:
    """Return the attributes of a subject that Go keeps, in Go's order: a certificate names nobody
    by an attribute that the signer has not checked, such as a UID or a second common name."""
    from cryptography import x509

    def attributes(oid: str) -> list[x509.NameAttribute[str | bytes]]:
        return subject.get_attributes_for_oid(x509.ObjectIdentifier(oid))

    groups = [attributes(oid) for oid in _SUBJECT_ATTRIBUTES]
    groups.extend(attributes(oid)[-1:] for oid in _SINGLE_SUBJECT_ATTRIBUTES)
    return x509.Name([x509.RelativeDistinguishedName(group) for group in groups if group])


def _extensions(request: RequestContent) -> Iterator[tuple[x509.ExtensionType, bool]]:
    """Yield the extensions of a certificate for a request, and whether they are critical."""
    from cryptography import x509

    key_usages = {_KEY_USAGES[usage] for usage in request.usages if usage in _KEY_USAGES}
    if key_usages:
        names = dict.fromkeys(_KEY_USAGES.values(), False)
        yield x509.KeyUsage(**{name: name in key_usages for name in names}), True
    requested_oids = {_EXTENDED_KEY_USAGES.get(usage) for usage in request.usages}
    purposes = [
        oid for oid in dict.fromkeys(_EXTENDED_KEY_USAGES.values()) if oid in requested_oids
    ]
    if purposes:
        yield x509.ExtendedKeyUsage([x509.ObjectIdentifier(oid) for oid in purposes]), False
    yield x509.BasicConstraints(ca=False, path_length=None), True
    if request.names:
        _check_addresses(request.names)
        is_critical = not list(request.parsed.subject)
        yield x509.SubjectAlternativeName(request.names), is_critical


def _check_addresses(names: Sequence[x509.GeneralName]) -> None:
    for name in names:
        if isinstance(name.value, ipaddress.IPv4Network | ipaddress.IPv6Network):
            raise ValueError(f"x509: cannot parse IP address {name.value}")


def _hash_algorithm(key: SigningKey) -> SHA256 | SHA384 | SHA512 | None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    if isinstance(key, ed25519.Ed25519PrivateKey):
        return None
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.key_size > 256:
        return hashes.SHA384() if key.curve.key_size == 384 else hashes.SHA512()
    return hashes.SHA256()
