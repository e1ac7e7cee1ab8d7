"""Runs single checks of the doctor by name, as the tests of this folder do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kapiserver.cli import parser
from kapiserver.doctor.checks import INSTALLATION_CHECKS, SERVER_CHECKS
from kapiserver.doctor.finding import Problem
from kapiserver.doctor.installation import Installation
from kapiserver.doctor.remote_server import RemoteServer
from kapiserver.server_config import config_of
from tests.clock import ManualClock
from tests.controllers.signing import subject


def installation(folder: Path, *flags: str, running: bool = False, days: int = 0) -> Installation:
    """Return the installation of a data directory with these flags of `serve`, that many days from
    now."""
    options = parser().parse_args(["serve", f"--data-dir={folder}", *flags])
    return Installation(
        config=config_of(options),
        data_dir=folder,
        clock=_clock(days),
        is_running=running,
    )


def _clock(days: float) -> ManualClock:
    """Return a clock that shows the time that many days from now."""
    return ManualClock((datetime.now(UTC) + timedelta(days=days)).timestamp())


def server_of(kubeconfig: Path, *, days: float = 0) -> RemoteServer:
    """Return the server of a kubeconfig, that many days from now by the clock of this machine."""
    return RemoteServer(kubeconfig, _clock(days), {})


def problems(name: str, examined: Installation | RemoteServer) -> list[Problem]:
    """Return what the check of that name finds."""
    checks = {check.name: check for check in (*INSTALLATION_CHECKS, *SERVER_CHECKS)}
    return list(checks[name].run(examined))


def write_certificate(folder: Path, *names: str, first_day: int = -1, last_day: int = 365) -> Path:
    """Write a self-signed certificate for DNS names and its key, and return the certificate's
    file."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = subject("tested")
    certificate = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now + timedelta(days=first_day),
        not_valid_after=now + timedelta(days=last_day),
    )
    if names:
        alternative = x509.SubjectAlternativeName([x509.DNSName(each) for each in names])
        certificate = certificate.add_extension(alternative, critical=False)
    folder.mkdir(exist_ok=True)
    file = folder / "tls.crt"
    file.write_bytes(certificate.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    text = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    file.with_suffix(".key").write_bytes(text)
    file.with_suffix(".key").chmod(0o600)
    return file
