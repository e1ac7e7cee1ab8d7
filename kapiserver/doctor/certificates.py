"""Checks of certificate files: expiry, keys and names."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509

from kapiserver.apiserver.serving.server import url_host
from kapiserver.doctor.finding import ERROR, WARNING, Problem
from kapiserver.doctor.installation import Installation

SOON = timedelta(days=30)
"""The remaining life below which a certificate gets a warning."""
_PEM = b"-----BEGIN CERTIFICATE-----"


def expiring_certificates(installation: Installation) -> Iterator[Problem]:
    """Look at the dates of every file with certificates that the server uses."""
    own = [installation.cert_dir / name for name in ("ca.crt", "apiserver.crt", "admin.crt")]
    files = {*own, *installation.files.values()}
    files.update(pair.certificate for pair in installation.pairs())
    for file in sorted(files):
        remedy = (
            "restart the server, which makes a new one"
            if file in own
            else "replace the file; a server that runs reads it again"
        )
        for certificate in certificates_of(file):
            yield from expiry(certificate, str(file), installation.now, remedy)


def certificates_of(file: Path) -> list[x509.Certificate]:
    """Return the certificates in a file; none if it has none or cannot be read."""
    try:
        data = file.read_bytes()
    except OSError:
        return []
    return load_certificates(data)


def load_certificates(data: bytes) -> list[x509.Certificate]:
    """Return the certificates of a PEM text; none if it has none."""
    if _PEM not in data:
        return []
    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError:
        return []


def expiry(
    certificate: x509.Certificate, about: str, now: datetime, remedy: str
) -> Iterator[Problem]:
    """Yield a problem of a certificate that is not valid now or expires soon."""
    name = certificate.subject.rfc4514_string() or "a certificate without subject"
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < first:
        yield Problem(
            severity=ERROR, about=about, message=f"{name} is not valid before {first:%F %T} UTC",
            remedy="set the clock of this machine, or replace the certificate",
        )  # fmt: skip
    if now >= last:
        yield Problem(
            severity=ERROR, about=about, message=f"{name} has expired on {last:%F %T} UTC",
            remedy=remedy,
        )  # fmt: skip
    elif last - now < SOON:
        days = (last - now) // timedelta(days=1)
        yield Problem(
            severity=WARNING, about=about,
            message=f"{name} expires in {days} days, on {last:%F %T} UTC", remedy=remedy,
        )  # fmt: skip


def wrong_keys(installation: Installation) -> Iterator[Problem]:
    """Load each certificate with its key."""
    for pair in installation.pairs():
        if not pair.certificate.exists() or not pair.key.exists():
            continue  # the check of settings has reported it
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(pair.certificate, pair.key)
        except ssl.SSLError as error:
            reason = "is not the key of" if "MISMATCH" in str(error) else "cannot be used with"
            yield Problem(
                severity=ERROR,
                about=str(pair.key),
                message=f"{reason} {pair.certificate}",
                remedy="use the key with which the certificate was requested",
            )
        except OSError as error:
            yield Problem(
                severity=ERROR, about=str(error.filename or pair.key), message=str(error.strerror),
                remedy="let the user who runs the server read the file",
            )  # fmt: skip


def missing_names(installation: Installation) -> Iterator[Problem]:
    """Compare the names of the serving certificate with the address that clients use."""
    file = installation.config.certificates.tls_cert_file
    certificates = certificates_of(file) if file is not None else []
    if not certificates:
        return  # the server makes a certificate with its names at each start
    host = url_host(installation.config.serving.bind_address).strip("[]")
    if not covers(certificates[0], host):
        yield Problem(
            severity=ERROR,
            about=str(file),
            message=f"is not for {host}, the address in the kubeconfig that the server writes; its "
            f"names: {', '.join(alternative_names(certificates[0])) or 'none'}",
            remedy="request a certificate with this name, or set --bind-address to one of its "
            "addresses",
        )


def alternative_names(certificate: x509.Certificate) -> list[str]:
    """Return the DNS names and the addresses of a certificate."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = names.get_values_for_type(x509.IPAddress)
    return [*names.get_values_for_type(x509.DNSName), *map(str, addresses)]


def covers(certificate: x509.Certificate, host: str) -> bool:
    """Report whether a certificate is for a host name or an address."""
    names = alternative_names(certificate)
    try:
        return str(ipaddress.ip_address(host)) in names
    except ValueError:
        return host in names or f"*.{host.partition('.')[2]}" in names
