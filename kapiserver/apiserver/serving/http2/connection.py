"""One client's connection of HTTP/2: the shell of `protocol.py` on a socket.

Each request has a task, up to twice the streams that the client may have open. What the tasks send
in one turn of the event loop is one write. While the client reads too little, the transport pauses
the connection: then no response moves from its stream to the transport, and no new one begins, but
frames about the connection do; `limits.py` bounds these.

A timer closes a connection whose client does not go on:

    the client                                         what happens after
    does not complete its preface or a header block    HEADER_SECONDS: abort
    has no request                                     IDLE_SECONDS: GOAWAY, then abort
    reads nothing                                      SLOW_CLIENT_SECONDS: abort

Knows no Kubernetes.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from typing import Protocol

from kapiserver.apiserver.serving.accepted_connection import AcceptedConnection
from kapiserver.apiserver.serving.connection_limits import SMALL_HEADER_BYTES, IncompleteHeaders
from kapiserver.apiserver.serving.exchange import Exchange
from kapiserver.apiserver.serving.http1 import exchange as http_exchange
from kapiserver.apiserver.serving.http1.connection import HEADER_SECONDS, IDLE_SECONDS
from kapiserver.apiserver.serving.http1.exchange import WRITE_BYTES
from kapiserver.apiserver.serving.http2.events import (
    BodyEnded,
    BodyReceived,
    Event,
    Requested,
)
from kapiserver.apiserver.serving.http2.exchange import Http2Exchange
from kapiserver.apiserver.serving.http2.protocol import ServerProtocol, State
from kapiserver.apiserver.serving.http2.settings import Http2Settings
from kapiserver.codecs.http2.frames import INADEQUATE_SECURITY

CHECK_SECONDS = 8.0
"""How often a connection looks whether its client goes on."""

_log = logging.getLogger(__name__)


class Http2Owner(Protocol):
    """The part of the listener that a connection uses."""

    @property
    def incomplete_headers(self) -> IncompleteHeaders:
        """The bytes of incomplete headers of all connections."""

    async def dispatch(self, exchange: Exchange) -> None:
        """Respond to a request."""

    def connection_made(self, connection: Http2Connection) -> None:
        """A connection is ready."""

    def connection_lost(self, connection: Http2Connection) -> None:
        """A connection was closed."""


class Http2Connection(AcceptedConnection):
    """One client's connection.

    protocol            its frames
    is_writing_paused   whether the client has much of the responses still to read
    """

    __slots__ = (
        "_exchanges",
        "_goaway_chance",
        "_has_incomplete_headers",
        "_idle_since",
        "_incomplete_since",
        "_is_flushing",
        "_loop",
        "_owner",
        "_paused_since",
        "_tasks",
        "_timer",
        "_writable",
        "is_writing_paused",
        "protocol",
    )

    def __init__(self, owner: Http2Owner, settings: Http2Settings) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._owner = owner
        self._goaway_chance = settings.goaway_chance
        self.protocol = ServerProtocol(max_streams=settings.max_streams)
        self.is_writing_paused = False
        self._writable = asyncio.Event()
        self._exchanges: dict[int, Http2Exchange] = {}
        """The exchanges of open streams, by their numbers."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_flushing = False
        self._timer: asyncio.TimerHandle | None = None
        self._idle_since = self._paused_since = 0.0
        self._incomplete_since: float | None = None
        """Since when the preface or a header block is incomplete."""
        self._has_incomplete_headers = False

    def on_authenticated(self) -> None:
        """A request has authenticated."""
        if self._discard is not None:
            super().on_authenticated()
            self.protocol.trust()

    @property
    def awaits_head(self) -> bool:
        """False: GOAWAY tells the client which requests to send again."""
        return False

    def shut_down(self) -> None:
        """Let the client send its next requests on another connection."""
        self.protocol.shut_down()
        self.flush_soon()

    def stop(self) -> None:
        """Cancel the running requests, and close the connection."""
        for exchange in tuple(self._exchanges.values()):
            exchange.cancel()
        for task in self._tasks:
            task.cancel()
        self.protocol.leave()
        self._flush()

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is ready, after its TLS handshake."""
        self.take_transport(transport)
        self._incomplete_since = self._idle_since = self._loop.time()
        self._timer = self._loop.call_later(CHECK_SECONDS, self._on_timer)
        if not is_adequate(transport.get_extra_info("ssl_object")):
            self.protocol.fail(INADEQUATE_SECURITY, "HTTP/2 needs TLS 1.2 and a modern cipher")
        self._owner.connection_made(self)
        self.flush_soon()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection was closed: end what waits for the client."""
        self.transport = None
        if self._timer is not None:
            self._timer.cancel()
        for exchange in tuple(self._exchanges.values()):
            exchange.lose()
        self._exchanges.clear()
        self.resume_writing()  # wakes `wait_writable`, which raises
        self.on_authenticated()
        self._owner.incomplete_headers.set(self, 0)
        self._owner.connection_lost(self)

    def pause_writing(self) -> None:
        """The client has much to read."""
        self.is_writing_paused = True
        self._paused_since = self._loop.time()
        self._writable.clear()

    def resume_writing(self) -> None:
        """The client has read most of it, or is gone."""
        self.is_writing_paused = False
        self._writable.set()
        if self.protocol.has_output:
            self.flush_soon()

    async def wait_writable(self) -> None:
        """Return when the client has read most of the responses. Raises ConnectionResetError."""
        if self.is_writing_paused:
            await self._writable.wait()
        if self.transport is None:
            raise ConnectionResetError

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client, and respond to the requests in them."""
        protocol = self.protocol
        for event in protocol.receive(data, self._loop.time()):
            self._on_event(event)
        if protocol.block_bytes or self._incomplete_since is not None:
            self._watch_headers()
        if protocol.has_output or protocol.is_finished:
            self.flush_soon()

    def _watch_headers(self) -> None:
        """Look whether a header block is incomplete, and how much it holds."""
        size = self.protocol.block_bytes
        if not size and self.protocol.state is not State.PREFACE:
            self._incomplete_since = None
        elif self._incomplete_since is None:
            self._incomplete_since = self._loop.time()
        if size > SMALL_HEADER_BYTES or self._has_incomplete_headers:
            self._has_incomplete_headers = size > SMALL_HEADER_BYTES
            self._owner.incomplete_headers.set(self, size)

    # Writing.

    def flush_soon(self) -> None:
        """Write what the protocol has to send in this turn of the event loop."""
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def flush(self) -> None:
        """Write what the protocol has to send: now if the connection has one request, else with
        what the others send in this turn of the event loop."""
        if len(self._exchanges) == 1 and not self._is_flushing:
            self._flush()
        else:
            self.flush_soon()

    def _flush(self) -> None:
        self._is_flushing = False
        transport, protocol = self.transport, self.protocol
        if transport is None or transport.is_closing():
            return
        data = protocol.take_output(0 if self.is_writing_paused else WRITE_BYTES)
        if data:
            transport.write(data)
        if protocol.is_finished:
            transport.close()
        elif protocol.has_output and not self.is_writing_paused:
            self.flush_soon()

    # Requests.

    def _on_event(self, event: Event) -> None:
        stream_id = event.stream.id
        if isinstance(event, Requested):
            exchange = Http2Exchange(self, event)
            self._exchanges[stream_id] = exchange
            if self._goaway_chance and random.random() < self._goaway_chance:
                self.protocol.shut_down()
            task = self._loop.create_task(self._respond(exchange, stream_id))
            exchange.task = task
            self._tasks.add(task)
            return
        exchange_or_none = self._exchanges.get(stream_id)
        if exchange_or_none is None:  # the response is written
            return
        if isinstance(event, BodyReceived):
            exchange_or_none.receive(event.data)
        elif isinstance(event, BodyEnded):
            exchange_or_none.body.complete()
        else:
            exchange_or_none.lose()

    async def _respond(self, exchange: Http2Exchange, stream_id: int) -> None:
        try:
            await self._owner.dispatch(exchange)
        except asyncio.CancelledError:
            exchange.cancel()
            raise
        except Exception:
            _log.exception("a stream of client %s failed", self.remote)
            exchange.abort()
        finally:
            exchange.end()
            self._exchanges.pop(stream_id, None)
            self._tasks.discard(exchange.task)
            self.protocol.running -= 1
            self._idle_since = self._loop.time()

    # Time.

    def _on_timer(self) -> None:
        self.check(self._loop.time())
        if self.transport is not None:
            self._timer = self._loop.call_later(CHECK_SECONDS, self._on_timer)

    def check(self, now: float) -> None:
        """Close the connection if the client does not go on."""
        incomplete = now - self._incomplete_since if self._incomplete_since is not None else 0.0
        paused = now - self._paused_since if self.is_writing_paused else 0.0
        idle = 0.0 if self._tasks else now - self._idle_since
        if (
            incomplete >= HEADER_SECONDS
            or paused >= http_exchange.SLOW_CLIENT_SECONDS
            or idle >= IDLE_SECONDS + HEADER_SECONDS
        ):
            self.abort()
        elif idle >= IDLE_SECONDS:
            self.shut_down()


def is_adequate(tls: ssl.SSLObject | None) -> bool:
    """Report whether HTTP/2 may be spoken over a connection: by RFC 9113, section 9.2, with an
    ephemeral key and authenticated encryption. Connections without TLS are those of tests."""
    cipher = tls.cipher() if tls is not None else None
    if cipher is None or cipher[1] == "TLSv1.3":
        return True
    name = cipher[0]
    is_authenticated = "GCM" in name or "CHACHA20" in name or "CCM" in name
    return cipher[1] == "TLSv1.2" and name.startswith(("ECDHE-", "DHE-")) and is_authenticated
