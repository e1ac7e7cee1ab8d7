"""Public keys of pod certificates, and proofs of possession.

The cryptography package is loaded when first needed. Knows no kind. Mirrors the checks of keys in
pkg/apis/certificates/validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
    from cryptography.x509 import Certificate, CertificateSigningRequest

    PublicKey: TypeAlias = PublicKeyTypes

_CURVES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521", "secp224r1": "P-224"}
_ALLOWED_CURVES = frozenset(("P-256", "P-384", "P-521"))
_RSA_BITS = (3072, 4096)


def parse_public_key(content: bytes) -> PublicKey | None:
    """Return the public key of a DER encoding, or None if Go does not know the key type."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, x448
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        key = load_der_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        return None
    if isinstance(key, ed448.Ed448PublicKey | x448.X448PublicKey):
        return None
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name not in _CURVES:
        return None
    return key


def parse_request(content: bytes) -> CertificateSigningRequest | None:
    """Return the signing request of a DER encoding, or None if it is invalid."""
    from cryptography import x509

    try:
        return x509.load_der_x509_csr(content)
    except (ValueError, x509.InvalidVersion):
        return None


def public_key_of(certificate: Certificate | CertificateSigningRequest) -> bytes:
    """Return the DER encoding of the public key of a certificate or of a signing request, or b"" if
    its type is unknown."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return encode_key(certificate.public_key())
    except (ValueError, UnsupportedAlgorithm):
        return b""


def encode_key(key: PublicKey) -> bytes:
    """Return the DER encoding of a key. Equal keys have equal encodings."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def key_problem(key: PublicKey) -> tuple[str | None, str]:
    """Return the rejected value (None: the key itself) and the message if a key is not allowed. The
    message is "" if it is."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, ed25519.Ed25519PublicKey):
        return None, ""
    if isinstance(key, ec.EllipticCurvePublicKey):
        curve = _CURVES[key.curve.name]
        is_wrong = curve not in _ALLOWED_CURVES
        return (
            f"curve {curve}",
            "elliptic public keys must use curve P256 or P384" if is_wrong else "",
        )
    if isinstance(key, rsa.RSAPublicKey):
        bits = -(-key.key_size // 8) * 8
        is_wrong = bits not in _RSA_BITS
        detail = "RSA keys must have modulus size 3072 or 4096"
        return f"{bits}-bit modulus", detail if is_wrong else ""
    return None, "unknown public key type; supported types are Ed25519, ECDSA, and RSA"


def verify_signature(key: PublicKey, signature: bytes, content: bytes) -> bool:
    """Return whether `signature` is a signature of the content by an allowed key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, content)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, content, ec.ECDSA(SHA256()))
        elif isinstance(key, rsa.RSAPublicKey):
            pss_padding = padding.PSS(padding.MGF1(SHA256()), padding.PSS.AUTO)
            key.verify(signature, content, pss_padding, SHA256())
        else:
            return False
    except InvalidSignature:
        return False
    return True


def is_self_signed(request: CertificateSigningRequest) -> bool:
    """Return whether a signing request is signed by its own key."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        return request.is_signature_valid
    except (InvalidSignature, ValueError, UnsupportedAlgorithm):
        return False
