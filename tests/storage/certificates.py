"""Certificates of an authority, a server and a client, for servers of stores."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path


class Certificates:
    """A certificate authority, a server's certificate and a client's, as files."""

    def __init__(self, folder: Path, name: str) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        signer = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

        def sign(subject: str, ca: bool) -> Path:
            key = signer if ca else ec.generate_private_key(ec.SECP256R1())
            subject_attributes = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
            address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
            certificate = (
                x509.CertificateBuilder()
                .subject_name(issuer if ca else subject_attributes)
                .issuer_name(issuer)
                .public_key(key.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - day)
                .not_valid_after(now + day)
                .add_extension(x509.BasicConstraints(ca, None), critical=True)
                .add_extension(x509.SubjectAlternativeName([address]), critical=False)
                .sign(signer, hashes.SHA256())
            )
            pem = serialization.Encoding.PEM
            path = folder / f"{name}-{subject}.crt"
            path.write_bytes(certificate.public_bytes(pem))
            path.with_suffix(".key").write_bytes(
                key.private_bytes(
                    pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
                )
            )
            return path

        self.ca = sign("ca", ca=True)
        self.server = sign("server", ca=False)
        self.client = sign("client", ca=False)
