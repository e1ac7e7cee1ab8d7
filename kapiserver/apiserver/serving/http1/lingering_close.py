"""Closes a connection whose client may still be sending. Knows no HTTP.

If a connection is closed while bytes of its client are unread, the system resets it, and the client
may lose the response (RFC 9112, 9.6). The server therefore ends its own side first, and drops what
arrives until the client ends its side or sends nothing more. Go's server waits for half a second.
"""

from __future__ import annotations

import asyncio

LINGER_SECONDS = 5.0
"""The maximum time until the connection is closed."""
LINGER_BYTES = 64 << 20
"""The maximum size of what is dropped."""
QUIET_SECONDS = 0.5
"""A client that sends nothing for this time has stopped sending."""


class LingeringClose:
    """Ends a connection whose client may still be sending."""

    def __init__(self, transport: asyncio.Transport) -> None:
        """Begin to end a connection whose last bytes were written."""
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + LINGER_SECONDS
        self._dropped = 0
        if transport.can_write_eof():  # not with TLS
            transport.write_eof()
        self._wait()

    def receive(self, data: bytes) -> None:
        """Drop bytes of the client."""
        self._dropped += len(data)
        if self._dropped > LINGER_BYTES:
            self._transport.close()

    def _wait(self) -> None:
        if not self._transport.is_closing():  # the client has not ended its side
            self._loop.call_later(QUIET_SECONDS, self._close_if_quiet, self._dropped)

    def _close_if_quiet(self, dropped: int) -> None:
        if dropped == self._dropped or self._loop.time() >= self._end:
            self._transport.close()
        else:
            self._wait()
