"""Public keys that certificates of pods may have, and what shows that somebody holds one.

The parts that parse are loaded when first needed. Knows no kind. Mirrors the checks of keys in
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


def public_key(content: bytes) -> PublicKey | None:
    """A key (DER), or None where it is none that Go knows."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, x448
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        found = load_der_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        return None
    if isinstance(found, ed448.Ed448PublicKey | x448.X448PublicKey):
        return None
    if isinstance(found, ec.EllipticCurvePublicKey) and found.curve.name not in _CURVES:
        return None
    return found


def request(content: bytes) -> CertificateSigningRequest | None:
    """A signing request (DER), or None where it is none."""
    from cryptography import x509

    try:
        return x509.load_der_x509_csr(content)
    except (ValueError, x509.InvalidVersion):
        return None


def key_of(key_of: Certificate | CertificateSigningRequest) -> bytes:
    """The key of a certificate or a request (DER); b"" where it is unknown."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return encoded(key_of.public_key())
    except (ValueError, UnsupportedAlgorithm):
        return b""


def encoded(key: PublicKey) -> bytes:
    """A key (DER), the same for the same key."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def wrong_with_key(key: PublicKey) -> tuple[str | None, str]:
    """Why a key is not allowed: what of it is wrong (None: the key as such), and the message."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, ed25519.Ed25519PublicKey):
        return None, ""
    if isinstance(key, ec.EllipticCurvePublicKey):
        curve = _CURVES[key.curve.name]
        wrong = curve not in _ALLOWED_CURVES
        return f"curve {curve}", "elliptic public keys must use curve P256 or P384" if wrong else ""
    if isinstance(key, rsa.RSAPublicKey):
        bits = -(-key.key_size // 8) * 8
        wrong = bits not in _RSA_BITS
        detail = "RSA keys must have modulus size 3072 or 4096"
        return f"{bits}-bit modulus", detail if wrong else ""
    return None, "unknown public key type; supported types are Ed25519, ECDSA, and RSA"


def is_signed(key: PublicKey, signature: bytes, content: bytes) -> bool:
    """Whether the holder of an allowed key has signed the content."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, content)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, content, ec.ECDSA(SHA256()))
        elif isinstance(key, rsa.RSAPublicKey):
            salted = padding.PSS(padding.MGF1(SHA256()), padding.PSS.AUTO)
            key.verify(signature, content, salted, SHA256())
        else:
            return False
    except InvalidSignature:
        return False
    return True


def signs_itself(signs_itself: CertificateSigningRequest) -> bool:
    """Whether a request is signed with the key it asks a certificate for."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        return signs_itself.is_signature_valid
    except (InvalidSignature, ValueError, UnsupportedAlgorithm):
        return False
