"""What every protocol of a client's connection does before a request has authenticated.

The acceptor makes the protocol before the TLS handshake, so that connections with an incomplete
handshake count towards the limits. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class AcceptedConnection(asyncio.Protocol):
    """One client's connection.

    transport       None before the TLS handshake, and when the connection was closed
    """

    __slots__ = ("_abort_handshake", "_discard", "transport")

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._abort_handshake: Callable[[], object] | None = None
        self._discard: Callable[[], None] | None = None

    def begin_handshake(self, abort: Callable[[], object], discard: Callable[[], None]) -> None:
        """Set how to abort the connection before its transport exists, and what to call when it
        authenticates or is lost."""
        self._abort_handshake = abort
        self._discard = discard

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
