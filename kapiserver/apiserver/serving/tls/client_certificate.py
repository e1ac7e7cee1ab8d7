"""Reads the certificate of a client, which TLS has verified. Knows no HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import ssl

from kapiserver.apiserver.request import Certificate

_UID_ATTRIBUTE = "1.3.6.1.4.1.57683.2"


def client_certificate(transport: asyncio.BaseTransport | None) -> Certificate | None:
    """Return the client's certificate, which TLS has verified, or None."""
    peer_certificate = transport.get_extra_info("peercert") if transport is not None else None
    if transport is None or not peer_certificate:
        return None
    ssl_object = transport.get_extra_info("ssl_object")
    attributes = [part for relative in peer_certificate.get("subject", ()) for part in relative]
    names = [value for key, value in attributes if key == "commonName"]
    # Python 3.13 made it a method of SSLObject. None for a resumed session.
    chain = ssl_object._sslobj.get_verified_chain() or ()
    expiries = [peer_certificate["notAfter"], *(each.get_info()["notAfter"] for each in chain)]
    return Certificate(
        common_name=names[-1] if names else "",
        organizations=tuple(value for key, value in attributes if key == "organizationName"),
        uids=tuple(value for key, value in attributes if key == _UID_ATTRIBUTE),
        sha256=_digest(ssl_object.getpeercert(binary_form=True)),
        not_after=min(map(ssl.cert_time_to_seconds, expiries)),
        chain=frozenset(_digest(each.public_bytes(_DER)) for each in chain),
    )


_DER = 2
"""The encoding of `_ssl.Certificate.public_bytes`: `_ssl.ENCODING_DER`."""


def _digest(der: bytes) -> str:
    return hashlib.sha256(der).hexdigest()
