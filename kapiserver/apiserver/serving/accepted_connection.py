"""What every protocol of a client's connection does before a request has authenticated.

The acceptor makes the protocol before the TLS handshake, so that connections with an incomplete
handshake count towards the limits. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from kapiserver.apiserver.request import Certificate
from kapiserver.apiserver.serving.tls.client_certificate import client_certificate
from kapiserver.apiserver.serving.tls.context import host_of_handshake


class AcceptedConnection(asyncio.Protocol):
    """One client's connection.

    transport       None before the TLS handshake, and when the connection was closed
    remote          the client's address
    certificate     the client's certificate, which TLS has verified, or None
    tls_host        the host that the client named in the TLS handshake (SNI), or ""
    """

    __slots__ = (
        "_abort_handshake",
        "_discard",
        "certificate",
        "remote",
        "tls_host",
        "transport",
    )

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.remote = self.tls_host = ""
        self.certificate: Certificate | None = None
        self._abort_handshake: Callable[[], object] | None = None
        self._discard: Callable[[], None] | None = None

    def begin_handshake(self, abort: Callable[[], object], discard: Callable[[], None]) -> None:
        """Set how to abort the connection before its transport exists, and what to call when it
        authenticates or is lost."""
        self._abort_handshake = abort
        self._discard = discard

    def take_transport(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport, whose TLS handshake is complete."""
        self._abort_handshake = None
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass
        peer = transport.get_extra_info("peername")
        self.remote = str(peer[0]) if peer else ""
        self.certificate = client_certificate(transport)
        self.tls_host = host_of_handshake(transport)

    def fail_handshake(self) -> None:
        """The connection was lost before its transport existed."""
        self._abort_handshake = None
        self.on_authenticated()

    def on_authenticated(self) -> None:
        """A request has authenticated: the connection no longer counts as unauthenticated."""
        discard, self._discard = self._discard, None
        if discard is not None:
            discard()

    def abort(self) -> None:
        """Close the connection at once."""
        if self.transport is not None:
            self.transport.abort()
        elif self._abort_handshake is not None:
            self._abort_handshake()
