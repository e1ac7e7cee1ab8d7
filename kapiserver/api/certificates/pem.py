"""Reading PEM: the blocks of a text, and what their certificates and requests say.

The parts that parse are loaded when first needed. Knows no kind. Mirrors Go's encoding/pem as far
as API objects use it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_BLOCK = re.compile(
    r"^-----BEGIN ([^\n]*?)-----[ \t\r]*\n((?:(?!-----)[^\n]*\n)*)-----END \1-----[ \t\r]*$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Block:
    """One block: its type, whether it has headers, and its content (DER)."""

    type: str
    has_headers: bool
    content: bytes


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a text; what lies between them, and what does not decode, is passed over."""
    for found in _BLOCK.finditer(f"{text}\n"):
        lines = [line.strip() for line in found[2].splitlines()]
        headers = [line for line in lines if ":" in line]
        body = "".join(line for line in lines if ":" not in line)
        try:
            content = base64.b64decode(body, validate=True)
        except binascii.Error:
            continue
        yield Block(found[1], bool(headers), content)


def certificate(block: Block) -> Certificate | None:
    """The certificate of a block, or None where it is none."""
    from cryptography import x509  # slow to load, and rarely needed

    try:
        return x509.load_der_x509_certificate(block.content)
    except (ValueError, x509.InvalidVersion):
        return None


def is_authority(is_authority: Certificate) -> bool:
    """Whether a certificate may sign others."""
    from cryptography import x509

    try:
        return is_authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (
        x509.DuplicateExtension,
        x509.ExtensionNotFound,
        x509.UnsupportedGeneralNameType,
        ValueError,
    ):
        return False


def alternative_names(alternative_names: Certificate) -> tuple[list[str], list[str]]:
    """The DNS names and the addresses of mail that a certificate is for."""
    from cryptography import x509

    try:
        kind = x509.SubjectAlternativeName
        names = alternative_names.extensions.get_extension_for_class(kind).value
    except (
        x509.DuplicateExtension,
        x509.ExtensionNotFound,
        x509.UnsupportedGeneralNameType,
        ValueError,
    ):
        return [], []
    mail = names.get_values_for_type(x509.RFC822Name)
    return list(names.get_values_for_type(x509.DNSName)), list(mail)


def wrong_with_request(text: str) -> str:
    """What is wrong with a signing request in PEM; "" when it is fine."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    first = next(blocks(text), None)
    if first is None or first.type != "CERTIFICATE REQUEST":
        return "PEM block type must be CERTIFICATE REQUEST"
    try:
        if not x509.load_der_x509_csr(first.content).is_signature_valid:
            raise InvalidSignature
    except InvalidSignature:
        return "x509: certificate signature verification failed"
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion):
        return "asn1: structure error: malformed certificate request"
    return ""
