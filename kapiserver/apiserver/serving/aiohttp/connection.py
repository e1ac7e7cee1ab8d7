"""One client's connection that aiohttp serves: limits heads of requests, and changes the protocol.

Stands between the transport and aiohttp's protocol, and passes bytes on. Knows no Kubernetes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from kapiserver.apiserver.serving.accepted_connection import AcceptedConnection
from kapiserver.apiserver.serving.connection_limits import (
    HEADER_BYTES,
    SMALL_HEADER_BYTES,
    IncompleteHeaders,
)
from kapiserver.apiserver.serving.http1.connection import HEADER_SECONDS
from kapiserver.apiserver.serving.http1.errors import HEADERS_TOO_LARGE
from kapiserver.apiserver.serving.http1.response_head import plain_text_response


class AiohttpConnectionOwner(Protocol):
    """The part of the listener that a connection uses."""

    @property
    def incomplete_headers(self) -> IncompleteHeaders:
        """The bytes of incomplete headers of all connections."""

    def connection_made(self, connection: AiohttpConnection) -> None:
        """A connection is ready."""

    def connection_lost(self, connection: AiohttpConnection) -> None:
        """A connection was closed."""


class AiohttpConnection(AcceptedConnection):
    """One client's connection."""

    __slots__ = (
        "_head_bytes",
        "_head_since",
        "_head_timer",
        "_is_in_request",
        "_loop",
        "_on_lost",
        "_owner",
        "_receive",
        "_served",
        "_writable",
    )

    def __init__(self, served: asyncio.Protocol, owner: AiohttpConnectionOwner) -> None:
        """`served` is aiohttp's protocol."""
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._served = served
        self._owner = owner
        self._on_lost: Callable[[], object] | None = None
        self._receive: Callable[[bytes], None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_in_request = False
        self._head_bytes = 0
        """Bytes received since the last request ended, and before the next one has begun."""
        self._head_since = self._loop.time()
        """When the first of these bytes arrived; 0.0 if there are none."""
        self._head_timer: asyncio.TimerHandle | None = None

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is ready, after its TLS handshake."""
        self.take_transport(transport)
        self._head_since = self._loop.time()
        self._head_timer = self._loop.call_later(HEADER_SECONDS, self._check_head)
        self._served.connection_made(transport)
        self._owner.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection was closed: end what waits for the client."""
        self.transport = self._receive = None
        self._owner.connection_lost(self)
        self._owner.incomplete_headers.set(self, 0)
        if self._head_timer is not None:
            self._head_timer.cancel()
        self._writable.set()
        self.on_authenticated()
        if self._on_lost is not None:
            self._on_lost()
        self._served.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass bytes of the client on."""
        if self._receive is not None:
            self._receive(data)
            return
        if not self._is_in_request:
            self._count_head(len(data))
        self._served.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass the end of the client's bytes on."""
        return self._served.eof_received()

    def pause_writing(self) -> None:
        """The client has much to read."""
        self._writable.clear()
        self._served.pause_writing()

    def resume_writing(self) -> None:
        """The client has read most of it, or is gone."""
        self._writable.set()
        self._served.resume_writing()

    # Heads of requests.

    def begin_request(self) -> None:
        """The head of a request is complete."""
        self._is_in_request = True
        if self._head_bytes > SMALL_HEADER_BYTES:
            self._owner.incomplete_headers.set(self, 0)
        self._head_bytes = 0
        self._head_since = 0.0

    def end_request(self) -> None:
        """The response to the request is written."""
        self._is_in_request = False
        self._on_lost = None

    def _count_head(self, size: int) -> None:
        """Count bytes of a head that is incomplete, as far as is known. aiohttp limits each of its
        lines, not their sum."""
        if not self._head_bytes and not self._head_since:
            self._head_since = self._loop.time()
        self._head_bytes += size
        if self._head_bytes > SMALL_HEADER_BYTES:
            self._owner.incomplete_headers.set(self, self._head_bytes)
        if self._head_bytes > HEADER_BYTES and self.transport is not None:
            self.transport.write(plain_text_response(HEADERS_TOO_LARGE))
            self.transport.close()

    def _check_head(self) -> None:
        """Close the connection if a head has been incomplete for too long."""
        if self._head_since and self._loop.time() - self._head_since >= HEADER_SECONDS:
            self.abort()
        else:
            self._head_timer = self._loop.call_later(HEADER_SECONDS, self._check_head)

    # A change of the protocol, as `serving/upgrade.py` needs it.

    def call_when_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` when the connection is lost during the running request, or now if it is
        lost already."""
        self._on_lost = callback
        if self.transport is None:
            callback()

    def switch_protocol(self, receive: Callable[[bytes], None]) -> None:
        """Pass all further bytes of the client to `receive`."""
        self._receive = receive

    def pause_reading(self) -> None:
        """Stop reading from the client."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the client again."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    async def wait_writable(self) -> None:
        """Return when the client has read most of the responses. Raises ConnectionResetError."""
        await self._writable.wait()
        if self.transport is None:
            raise ConnectionResetError
