"""The CAs of client certificates: files of PEM certificates that are read again when they change.

Mirrors pkg/server/dynamiccertificates of k8s.io/apiserver.
"""

from __future__ import annotations

import hashlib
import logging
import re
import ssl
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.request import Certificate

OWN_CA = "ca.crt"
"""The CA in --cert-dir, which is always trusted."""
CHECK_SECONDS = 1.0
"""The shortest time between two looks at the files, as in `file_watch.py`: for each request they
would cost a tenth of a GET."""
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)

_log = logging.getLogger(__name__)


class ClientAuthorities:
    """The CA certificates of some files, and others that a program adds."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Read the files. Raises ValueError for one without certificates, OSError."""
        self._files = files
        self._states = self._file_states()
        self._next_check = time.monotonic() + CHECK_SECONDS
        self._digests = frozenset(_digests(files))
        self._added: frozenset[str] = frozenset()

    def trust(self, pem: str) -> None:
        """Use the certificates in a PEM text besides those of the files, in place of an earlier
        text."""
        self._added = frozenset(map(_digest, pem_certificates(pem)))

    def have_signed(self, certificate: Certificate) -> bool:
        """Report whether the chain of a verified certificate has one of the CAs, as the files were
        a second ago or later; an unusable file changes nothing."""
        now = time.monotonic()
        if now >= self._next_check:
            self._next_check = now + CHECK_SECONDS
            self._reload()
        chain = certificate.chain
        return not (self._digests.isdisjoint(chain) and self._added.isdisjoint(chain))

    def _reload(self) -> None:
        states = self._file_states()
        if states == self._states:
            return
        try:
            self._digests = frozenset(_digests(self._files))
        except (OSError, ValueError) as error:
            _log.error("the changed client CAs are not used: %s", error)
        self._states = states

    def _file_states(self) -> list[tuple[int, int] | None]:
        states: list[tuple[int, int] | None] = []
        for file in self._files:
            try:
                stat = file.stat()
                states.append((stat.st_mtime_ns, stat.st_ino))
            except OSError:
                states.append(None)
        return states


def client_authority_files(config: Config) -> list[Path]:
    """Return the files with the CAs of users: the own one, if the server has TLS, and that of
    --client-ca-file."""
    generated_ca = (
        config.certificates.cert_dir / OWN_CA if config.certificates.cert_dir is not None else None
    )
    files = (
        generated_ca if generated_ca is not None and generated_ca.exists() else None,
        config.authentication.client_ca_file,
    )
    return [file for file in files if file is not None]


def read_certificates(file: Path) -> list[str]:
    """Return the certificates in a PEM file, as PEM texts. Raises ValueError for a file without
    any, OSError."""
    certificates = pem_certificates(file.read_text(encoding="utf-8", errors="replace"))
    if not certificates:
        raise ValueError(f"{file} contains no certificate")
    return certificates


def pem_certificates(text: str) -> list[str]:
    """Return the certificates in a PEM text; each ends with a newline."""
    return [match.rstrip("\n") + "\n" for match in _PEM.findall(text)]


def _digests(files: Sequence[Path]) -> Iterator[str]:
    for file in files:
        for text in read_certificates(file):
            yield _digest(text)


def _digest(text: str) -> str:
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(text)).hexdigest()
