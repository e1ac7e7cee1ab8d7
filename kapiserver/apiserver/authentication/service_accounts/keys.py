"""The keys that sign and verify service account tokens: PEM files of RSA or ECDSA keys.

The `cryptography` library is imported with the first key. Mirrors pkg/serviceaccount of
kube-apiserver.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

from msgspec import Struct


class Key(Struct, frozen=True, kw_only=True):
    """A key of the issuer.

    id          the `kid` of tokens and of the JSON Web Key Set
    private     signs tokens; None for a key that only verifies
    """

    id: str
    algorithm: str
    public: Any
    private: Any = None

    @property
    def algorithms(self) -> tuple[str]:
        """The algorithm, as a list."""
        return (self.algorithm,)


def generate_key() -> bytes:
    """Return a new ECDSA private key as PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def create_key_file(path: Path) -> None:
    """Write a new private key to a file that only its owner can read. Raises OSError."""
    from kapiserver.apiserver.private_files import write_private

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(path, generate_key())


_PEM_KEY = re.compile(
    rb"-----BEGIN ((?:RSA |EC )?(?:PRIVATE|PUBLIC) KEY|CERTIFICATE)-----.+?-----END \1-----\n?",
    re.DOTALL,
)
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


def read_key(path: Path) -> Key:
    """Read a key file. Raises OSError, ValueError for a file without a key."""
    try:
        return parse_key(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} contains no key: {error}") from error


def read_keys(path: Path) -> list[Key]:
    """Read all keys of a file. Raises OSError, ValueError for a file without a key."""
    try:
        blocks = [match[0] for match in _PEM_KEY.finditer(path.read_bytes())]
        return [parse_key(block) for block in blocks or (b"",)]
    except ValueError as error:
        raise ValueError(f"{path} contains no key: {error}") from error


def parse_key(data: bytes) -> Key:
    """Return the key in a PEM text: private, public or of a certificate. Raises ValueError."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    private: Any = None
    public: Any
    if b"PRIVATE KEY" in data:
        private = serialization.load_pem_private_key(data, None)
        public = private.public_key()
    elif b"CERTIFICATE" in data:
        from cryptography import x509  # takes 15 ms, and few keys are in certificates

        public = x509.load_pem_x509_certificate(data).public_key()
    else:
        public = serialization.load_pem_public_key(data)
    if isinstance(public, rsa.RSAPublicKey):
        algorithm = "RS256"
    elif isinstance(public, ec.EllipticCurvePublicKey) and public.curve.name in _CURVES:
        algorithm = _CURVES[public.curve.name]
    else:
        raise ValueError("service account keys must be RSA or ECDSA keys")
    der = public.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    digest = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()
    return Key(id=digest, algorithm=algorithm, public=public, private=private)
