"""PEM: blocks, certificates and signing requests.

The cryptography package is loaded when first needed. Knows no kind. Mirrors the parts of Go's
encoding/pem that API objects need.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, CertificateSigningRequest

_BLOCK = re.compile(
    r"^-----BEGIN ([^\n]*?)-----[ \t\r]*\n((?:(?!-----)[^\n]*\n)*)-----END \1-----[ \t\r]*$",
    re.MULTILINE,
)
COMMON_NAME, ORGANIZATION = "2.5.4.3", "2.5.4.10"
"""Object identifiers of attributes of a subject."""
_MALFORMED_REQUEST = "asn1: structure error: malformed certificate request"


class Block(Struct, frozen=True):
    """A PEM block: its type, whether it has headers, and its content (DER)."""

    type: str
    has_headers: bool
    content: bytes


def parse_blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a text. Text between blocks and invalid blocks are skipped."""
    for match in _BLOCK.finditer(f"{text}\n"):
        lines = [line.strip() for line in match[2].splitlines()]
        headers = [line for line in lines if ":" in line]
        body = "".join(line for line in lines if ":" not in line)
        try:
            content = base64.b64decode(body, validate=True)
        except ValueError:  # not base64, or not ASCII
            continue
        yield Block(match[1], bool(headers), content)


def parse_certificate(block: Block) -> Certificate | None:
    """Return the certificate of a block, or None if it is invalid."""
    from cryptography import x509  # imported late: slow to load, and rarely needed

    try:
        return x509.load_der_x509_certificate(block.content)
    except (ValueError, x509.InvalidVersion):
        return None


def subject_values(certificate: Certificate | CertificateSigningRequest, oid: str) -> list[str]:
    """Return the values of one attribute of the subject, such as the organizations. Raises
    ValueError for a subject with an attribute of a wrong type."""
    from cryptography import x509

    try:
        attributes = certificate.subject.get_attributes_for_oid(x509.ObjectIdentifier(oid))
    except TypeError as error:
        raise ValueError(str(error)) from None
    return [str(attribute.value) for attribute in attributes]


def is_authority(certificate: Certificate) -> bool:
    """Return whether a certificate is a CA certificate."""
    from cryptography import x509

    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (
        x509.DuplicateExtension,
        x509.ExtensionNotFound,
        x509.UnsupportedGeneralNameType,
        ValueError,
    ):
        return False


def alternative_names(certificate: Certificate) -> tuple[list[str], list[str]]:
    """Return the DNS names and the mail addresses of a certificate."""
    from cryptography import x509

    try:
        kind = x509.SubjectAlternativeName
        names = certificate.extensions.get_extension_for_class(kind).value
    except (
        x509.DuplicateExtension,
        x509.ExtensionNotFound,
        x509.UnsupportedGeneralNameType,
        ValueError,
    ):
        return [], []
    mail_addresses = names.get_values_for_type(x509.RFC822Name)
    return list(names.get_values_for_type(x509.DNSName)), list(mail_addresses)


def parse_signing_request(text: str) -> CertificateSigningRequest:
    """Return the signing request of a PEM text. Raises ValueError with Go's message."""
    from cryptography import x509

    block = next(parse_blocks(text), None)
    if block is None or block.type != "CERTIFICATE REQUEST":
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    try:
        return x509.load_der_x509_csr(block.content)
    except (ValueError, x509.InvalidVersion):
        raise ValueError(_MALFORMED_REQUEST) from None


def request_problem(text: str) -> str:
    """Return why a PEM text is not a valid signing request, or "" if it is."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        request = parse_signing_request(text)
    except ValueError as error:
        return str(error)
    try:
        if not request.is_signature_valid:
            raise InvalidSignature
    except InvalidSignature:
        return "x509: certificate signature verification failed"
    except (ValueError, UnsupportedAlgorithm):
        return _MALFORMED_REQUEST
    return ""
