"""Reads the certificate of a client, which TLS has verified. Knows no HTTP.

A TLS session that a client resumes has the certificate, and not the chain that OpenSSL has built in
the handshake before. So the context remembers what it has verified. Only sessions that this context
began can be resumed, and none with another certificate.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Sequence
from typing import Any

from kapiserver.apiserver.request import Certificate
from kapiserver.apiserver.serving.tls.context import TLSContext

_UID_ATTRIBUTE = "1.3.6.1.4.1.57683.2"


def client_certificate(transport: asyncio.BaseTransport | None) -> Certificate | None:
    """Return the client's certificate, which TLS has verified, or None."""
    peer_certificate = transport.get_extra_info("peercert") if transport is not None else None
    if transport is None or not peer_certificate:
        return None
    layer = transport.get_extra_info("ssl_object")
    context, sha256 = layer.context, _digest(layer.getpeercert(binary_form=True))
    # Python 3.13 made it a method of SSLObject. None for a resumed session.
    chain = layer._sslobj.get_verified_chain() or ()
    if not isinstance(context, TLSContext):  # that of a program with aiohttp
        return _certificate(peer_certificate, sha256, chain)
    if not chain and (verified := context.verified.get(sha256)):
        return verified
    certificate = _certificate(peer_certificate, sha256, chain)
    if chain:
        context.remember(certificate)
    return certificate


def _certificate(
    peer_certificate: dict[str, Any], sha256: str, chain: Sequence[Any]
) -> Certificate:
    attributes = [part for relative in peer_certificate.get("subject", ()) for part in relative]
    names = [value for key, value in attributes if key == "commonName"]
    expiries = [peer_certificate["notAfter"], *(issuer.get_info()["notAfter"] for issuer in chain)]
    return Certificate(
        common_name=names[-1] if names else "",
        organizations=tuple(value for key, value in attributes if key == "organizationName"),
        uids=tuple(value for key, value in attributes if key == _UID_ATTRIBUTE),
        sha256=sha256,
        not_after=min(map(ssl.cert_time_to_seconds, expiries)),
        chain=frozenset(_digest(issuer.public_bytes(_DER)) for issuer in chain),
    )


_DER = 2
"""The encoding of `_ssl.Certificate.public_bytes`: `_ssl.ENCODING_DER`."""


def _digest(der: bytes) -> str:
    return hashlib.sha256(der).hexdigest()
