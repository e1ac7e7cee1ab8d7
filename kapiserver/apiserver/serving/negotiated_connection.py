"""A client's connection during its TLS handshake, which decides what protocol it speaks (ALPN).

Knows no HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from kapiserver.apiserver.serving.accepted_connection import AcceptedConnection


class NegotiatedConnection(AcceptedConnection):
    """A connection that hands its transport over when the handshake is complete. Until a request
    has authenticated, it stands for the connection in the limits of connections."""

    __slots__ = ("_choose",)

    def __init__(self, choose: Callable[[str | None], AcceptedConnection]) -> None:
        """`choose` returns the connection that speaks a negotiated protocol, None for no
        negotiation."""
        super().__init__()
        self._choose = choose

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is complete: hand the transport over."""
        self._abort_handshake = None
        self.transport = cast(asyncio.Transport, transport)
        tls = transport.get_extra_info("ssl_object")
        protocol = tls.selected_alpn_protocol() if tls is not None else None
        connection = self._choose(protocol)
        connection.begin_handshake(self.abort, self.on_authenticated)
        self.transport.set_protocol(connection)
        connection.connection_made(transport)
