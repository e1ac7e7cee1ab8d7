"""TLS versions, cipher suites and named certificates, in the words of kube-apiserver's flags.

Mirrors ciphersuites_flag.go and namedcertkey_flag.go of k8s.io/component-base/cli/flag.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

VERSIONS: Mapping[str, ssl.TLSVersion] = {
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}

_TLS_1_3_SUITES = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)
"""TLS 1.3 always offers all of these, in Go too; flags may name them, without effect."""
_OPENSSL_NAMES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
}
"""Cipher suites up to TLS 1.2, without those of RC4 and 3DES, which OpenSSL no longer has."""
_DEFAULT_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The suites of Go that have forward secrecy and authenticated encryption."""


class Pair(Struct, frozen=True, kw_only=True):
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class NamedPair(Struct, frozen=True, kw_only=True):
    """A certificate for clients that ask for one of the names; without names, for one of the names
    in the certificate. A name may begin with `*.`."""

    pair: Pair
    names: tuple[str, ...] = ()


class TLSSettings(Struct, frozen=True, kw_only=True):
    """The versions and cipher suites that a server offers.

    ciphers     cipher suites up to TLS 1.2, in OpenSSL's words; "" for none
    """

    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    ciphers: str = _DEFAULT_CIPHERS


def parse_settings(min_version: str, cipher_suites: Sequence[str]) -> TLSSettings:
    """Return the settings of `--tls-min-version` and `--tls-cipher-suites`. Raises ValueError with
    kube-apiserver's words."""
    version = VERSIONS.get(min_version)
    if version is None:
        raise ValueError(f'unknown tls version "{min_version}"')
    if not cipher_suites:
        return TLSSettings(min_version=version)
    for name in cipher_suites:
        if name not in _OPENSSL_NAMES and name not in _TLS_1_3_SUITES:
            raise ValueError(f"Cipher suite {name} not supported or doesn't exist")
    names = (_OPENSSL_NAMES[name] for name in cipher_suites if name in _OPENSSL_NAMES)
    ciphers = ":".join(dict.fromkeys(names))
    return TLSSettings(min_version=version if ciphers else ssl.TLSVersion.TLSv1_3, ciphers=ciphers)


def parse_named_pair(text: str) -> NamedPair:
    """Parse a value of `--tls-sni-cert-key`: `CERT,KEY` or `CERT,KEY:NAME,...`. Raises ValueError
    with kube-apiserver's words."""
    files, colon, names = text.partition(":")
    if colon and not names.strip():
        raise ValueError("empty names list is not allowed")
    paths = [part.strip() for part in files.strip().split(",")]
    if len(paths) != 2:
        raise ValueError("expected comma separated certificate and key file paths")
    return NamedPair(
        pair=Pair(certificate=Path(paths[0]), key=Path(paths[1])),
        names=tuple(name.strip() for name in names.split(",")) if colon else (),
    )
