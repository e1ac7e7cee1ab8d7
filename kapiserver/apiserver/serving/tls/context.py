"""The TLS contexts of a listening socket: one for each certificate, chosen by the name that the
client asks for (SNI).

Mirrors BuildNamedCertificates of pkg/server/dynamiccertificates of k8s.io/apiserver and the choice
of a certificate in Go's crypto/tls. Unlike there, a client that connects to an IP address and names
no host always gets the default certificate.
"""

from __future__ import annotations

import asyncio
import ssl
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from kapiserver.api.certificates.pem import COMMON_NAME, alternative_names, subject_values
from kapiserver.api.names import dns1123_subdomain
from kapiserver.apiserver.request import Certificate
from kapiserver.apiserver.serving.tls.settings import NamedPair, Pair, TLSSettings

HTTP1, HTTP2 = "http/1.1", "h2"
"""The names of the protocols in the handshake (ALPN)."""

MAX_VERIFIED = 20_480
"""As many as OpenSSL keeps sessions (SSL_SESSION_CACHE_MAX_SIZE_DEFAULT)."""

_SniCallback: TypeAlias = Callable[[ssl.SSLObject, str | None, ssl.SSLContext], None]


class TLSLayer(ssl.SSLObject):
    """The TLS layer of one connection.

    host    the host that the client has named in the handshake (SNI), in lower case; "" if none
    """

    host = ""


class TLSContext(ssl.SSLContext):
    """The context of a listening socket for one serving certificate.

    verified    certificates of clients that handshakes have verified, by their hashes: at most
                MAX_VERIFIED, the last ones
    """

    sslobject_class = TLSLayer

    def __init__(self, _protocol: int) -> None:
        self.verified: OrderedDict[str, Certificate] = OrderedDict()

    def remember(self, certificate: Certificate) -> None:
        """Take a certificate that a handshake has verified."""
        self.verified[certificate.sha256] = certificate
        self.verified.move_to_end(certificate.sha256)
        if len(self.verified) > MAX_VERIFIED:
            self.verified.popitem(last=False)


def host_of_handshake(transport: asyncio.BaseTransport | None) -> str:
    """Return the host that a client has named in its TLS handshake, in lower case; "" if none."""
    layer = transport.get_extra_info("ssl_object") if transport is not None else None
    return layer.host if isinstance(layer, TLSLayer) else ""


def server_context(
    default: Pair,
    *,
    trusted: Sequence[Path],
    settings: TLSSettings,
    named: Sequence[NamedPair] = (),
    added: str = "",
    http2: bool = False,
) -> ssl.SSLContext:
    """Return the context of a listening socket; client certificates are optional, and must be
    signed by a CA in the `trusted` files or in `added`, a PEM text. `http2` offers HTTP/2 before
    HTTP/1.1. Raises ValueError for an unusable file or text."""
    context = _context(default, trusted, settings)
    contexts = [
        _named_context(index, credentials, trusted, settings)
        for index, credentials in enumerate(named)
    ]
    if added:
        for ssl_context in (context, *contexts):
            _trust(ssl_context, added)
    context.sni_callback = _choose_by_name(_by_name(named, contexts))
    # The context of a name negotiates the protocol with its own list.
    for ssl_context in (context, *contexts):
        ssl_context.set_alpn_protocols([HTTP2, HTTP1] if http2 else [HTTP1])
    return context


def _context(pair: Pair, trusted: Sequence[Path], settings: TLSSettings) -> ssl.SSLContext:
    context = TLSContext(ssl.PROTOCOL_TLS_SERVER)
    with warnings.catch_warnings():  # ssl deprecates TLS 1.0 and 1.1
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = settings.min_version
    if settings.ciphers:
        context.set_ciphers(settings.ciphers)
    try:
        context.load_cert_chain(pair.certificate, pair.key)
    except OSError as error:  # ssl.SSLError is one; neither names the files
        raise ValueError(f"cannot use {pair.certificate} with key {pair.key}: {error}") from error
    context.verify_mode = ssl.CERT_OPTIONAL
    # As in Go, a client CA may be an intermediate one, without its root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    for path in trusted:
        try:
            context.load_verify_locations(path)
        except ssl.SSLError as error:
            raise ValueError(f"{path} contains no certificate: {error.reason}") from error
        except OSError as error:
            raise ValueError(f"cannot read {path}: {error}") from error
    return context


def _trust(context: ssl.SSLContext, pem: str) -> None:
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"the added client CAs are unusable: {error}") from error
    # Only this process knows which CA has signed the certificate of a session: sessions of TLS 1.2
    # are resumed where they began, those of TLS 1.3 not at all.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0


def _named_context(
    index: int, named: NamedPair, trusted: Sequence[Path], settings: TLSSettings
) -> ssl.SSLContext:
    try:
        return _context(named.pair, trusted, settings)
    except ValueError as error:
        name = f"{named.pair.certificate}::{named.pair.key}"
        raise ValueError(f'invalid SNI cert keypair [{index}/"{name}"]: {error}') from error


def _by_name(
    named: Sequence[NamedPair], contexts: Sequence[ssl.SSLContext]
) -> Mapping[str, ssl.SSLContext]:
    """Return the context of each name or pattern: explicit names win over those in certificates,
    and earlier certificates over later ones."""
    explicit: dict[str, ssl.SSLContext] = {}
    extracted: dict[str, ssl.SSLContext] = {}
    for credentials, context in zip(named, contexts, strict=True):
        for name in credentials.names:
            explicit.setdefault(name, context)
        for name in () if credentials.names else certificate_names(credentials.pair.certificate):
            extracted.setdefault(name, context)
    return extracted | explicit


def certificate_names(path: Path) -> list[str]:
    """Return the common name, if it is a DNS name, and the DNS names of the first certificate in a
    PEM file."""
    from cryptography import x509  # imported late: slow to load, and rarely needed

    certificate = x509.load_pem_x509_certificates(path.read_bytes())[0]
    common_names = subject_values(certificate, COMMON_NAME)[-1:]
    dns_names, _ = alternative_names(certificate)
    return [*filter(_is_domain, common_names), *dns_names]


def _is_domain(name: str) -> bool:
    is_address = name.replace(".", "").isdecimal() or ":" in name
    return not is_address and (name == "*" or not dns1123_subdomain(name.removeprefix("*.")))


def _choose_by_name(by_name: Mapping[str, ssl.SSLContext]) -> _SniCallback:
    def choose(connection: ssl.SSLObject, name: str | None, _default: ssl.SSLContext) -> None:
        lower = (name or "").lower()
        if isinstance(connection, TLSLayer):
            connection.host = lower
        wildcard = ".".join(("*", *lower.split(".")[1:]))
        context = by_name.get(lower) or by_name.get(wildcard)
        if name and context is not None:
            connection.context = context

    return choose
