"""One HTTP/1.1 connection to another server, and the responses that arrive on it.

A body is written as fast as the server reads it, and a response is received as fast as the caller
takes it. httptools parses; a call needs a third of the CPU time that it needs with aiohttp's client
(decisions 063 and 133). Knows no Kubernetes. Mirrors persistConn of Go's net/http.

A connection is in one of these states:

| state | next state |
| --- | --- |
| idle: no response is open | `send`: a response is awaited |
| a response is awaited or arrives | its end: idle, if both sides keep the connection and the body of the request is sent, or else closed; status 101: upgraded |
| upgraded: the bytes after the head are kept | `HttpResponse.upgraded`: another protocol owns the transport |
| closed | |
"""  # noqa: E501 # a table

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import cast

import httptools
from msgspec import Struct

from kapiserver.api.go_format import quote
from kapiserver.apiserver.http_client.errors import Disconnected, ResponseTooLarge
from kapiserver.apiserver.http_client.upgraded import UpgradedConnection

MAX_HEADER_BYTES = 64 << 10
"""A response whose head, or trailers, are not complete after this many bytes is refused."""
MAX_UNREAD = 256 << 10
"""While this many bytes of a response are not taken, the connection receives no more."""
_SWITCHING_PROTOCOLS = 101
_LAST_CHUNK = b"0\r\n\r\n"


class Outgoing(Struct, frozen=True, kw_only=True):
    """A request as it is written.

    data        the head, and the body unless that is a stream
    body        the body if it is a stream
    is_chunked  whether the stream is sent in chunks; otherwise the head has its length
    """

    method: str
    data: bytes
    body: AsyncIterator[bytes] | None = None
    is_chunked: bool = False


class HttpResponse:
    """A response. `Connection.send` returns it when the head has arrived. Close it.

    status      0 until the head has arrived
    raw_headers names and values as they were sent
    """

    def __init__(self, connection: Connection, *, has_body: bool) -> None:
        self.status = 0
        self.raw_headers: list[tuple[bytes, bytes]] = []
        self._headers: list[tuple[str, str]] | None = None
        self.is_complete = False
        self._connection = connection
        self._has_body = has_body
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        """None once the response has ended: the parser refers to the response."""
        self._unhandled_bytes = 0
        """The bytes that have arrived since the last piece of the body, or since the start."""
        self._pieces: list[bytes] = []
        self._unread = 0
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._is_read_whole = False
        """Whether the reader waits for the end, or for MAX_UNREAD bytes."""

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Names and values as they were sent; bytes that are no UTF-8 are surrogates."""
        if self._headers is None:
            self._headers = [
                (header_name(name), header_text(value)) for name, value in self.raw_headers
            ]
        return self._headers

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises Disconnected if it is cut off, OSError and
        ValueError."""
        while True:
            if self._pieces:
                pieces, self._pieces = self._pieces, []
                self._unread = 0
                if not self.is_complete:
                    self._connection.resume_reading()
                yield pieces[0] if len(pieces) == 1 else b"".join(pieces)
            elif self.is_complete:
                return
            else:
                await self.wait()

    async def read(self, limit: int) -> bytes:
        """Return the whole body. Raises ResponseTooLarge for more than `limit` bytes, and the
        errors of `pieces`."""
        if not (self.is_complete and len(self._pieces) <= 1 and self._unread <= limit):
            self._is_read_whole = True
            return await self._read_pieces(limit)
        return self._pieces.pop() if self._pieces else b""

    async def _read_pieces(self, limit: int) -> bytes:
        data = bytearray()
        async for piece in self.pieces():
            data += piece
            if len(data) > limit:
                raise ResponseTooLarge(f"the response is larger than {limit} bytes")
        return bytes(data)

    def upgraded(self) -> UpgradedConnection:
        """Take over the connection of a response with status 101."""
        return self._connection.hand_over()

    def close(self) -> None:
        """Close the connection unless the response is complete. Idempotent."""
        if not self.is_complete:
            self._connection.close()

    # Called by the connection.

    def receive(self, data: bytes) -> bytes:
        """Parse bytes that arrive, and return those that follow the head of a response with status
        101. Raises ValueError for bytes that are not a response."""
        parser = self._parser
        assert parser is not None
        self._unhandled_bytes += len(data)
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self.status != _SWITCHING_PROTOCOLS:
                raise ValueError("malformed HTTP response") from None
            return data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            cause = error.__context__ if isinstance(error.__context__, ValueError) else None
            raise cause or ValueError(self._malformed(data, error)) from None
        if self._unhandled_bytes > MAX_HEADER_BYTES and not self.is_complete:
            raise ResponseTooLarge(f"the headers are larger than {MAX_HEADER_BYTES} bytes")
        return b""

    def _malformed(self, data: bytes, error: httptools.HttpParserError) -> str:
        """Return Go's message for a response that does not begin as HTTP, or that of the parser for
        another fault."""
        line = header_text(data.partition(b"\n")[0].removesuffix(b"\r"))
        if self.status or self.raw_headers or line.startswith("HTTP/"):
            return f"malformed HTTP response: {error}"
        reason = f"malformed HTTP response {quote(line)}"
        return f"net/http: HTTP/1.x transport connection broken: {reason}"

    def end(self, error: Exception | None) -> None:
        """The connection is lost. The end of a body without a length is the end of the
        connection."""
        names = {name.lower() for name, _ in self.raw_headers}
        is_delimited = bool(names & {b"content-length", b"transfer-encoding"})
        if self.status and not is_delimited and error is None:
            self.is_complete = True
        self.fail(error or Disconnected("EOF"))

    def fail(self, error: Exception) -> None:
        """Raise an error where the response is read, unless it is complete or has failed."""
        if self._parser is not None:
            self._parser = None
            self._error = error
        self.wake()

    def wake(self) -> None:
        """Wake the reader if it has something to do."""
        if self._is_read_whole and self._parser is not None and self._unread <= MAX_UNREAD:
            return
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Wait until something has arrived. Raises an error once."""
        if self._parser is None:
            # An error that the response kept would be in a cycle with the frames that raised it.
            error, self._error = self._error, None
            try:
                raise error or Disconnected("EOF")
            finally:
                del error
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # Callbacks of the parser.

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:  # or else it is a trailer, which nobody reads
            self.raw_headers.append((name, value))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status >= 200 or status == _SWITCHING_PROTOCOLS:
            self.status = status
            if not self._has_body:  # the parser knows no methods, and would wait for a body
                self._complete()

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)
        self._unhandled_bytes = 0
        self._unread += len(data)
        if self._unread > MAX_UNREAD:
            self._connection.pause_reading()

    def on_message_complete(self) -> None:
        if not self.status:  # 100 Continue
            self.raw_headers.clear()
        elif self.status != _SWITCHING_PROTOCOLS:
            self._complete()

    def _complete(self) -> None:
        parser, self._parser = self._parser, None
        if parser is not None:
            self.is_complete = True
            self._connection.complete(keep_alive=parser.should_keep_alive())


class Connection(asyncio.Protocol):
    """A connection for one exchange at a time.

    is_open         whether another exchange may follow
    has_received    whether bytes of the present response have arrived
    """

    def __init__(self, on_idle: Callable[[Connection], object]) -> None:
        """`on_idle` is called when a response is complete and another exchange may follow."""
        self.is_open = False
        self.has_received = False
        self._on_idle = on_idle
        self._transport: asyncio.Transport | None = None
        self._response: HttpResponse | None = None
        self._sending: asyncio.Task[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._is_paused = False
        self._rest: bytes | None = None
        """Bytes of the next protocol, once the server has changed it."""

    async def send(self, request: Outgoing) -> HttpResponse:
        """Send a request and return the response when its head has arrived. Raises Disconnected,
        OSError and ValueError. The connection closes if that fails or is cancelled."""
        assert self._transport is not None
        self.has_received = False
        response = self._response = HttpResponse(self, has_body=request.method != "HEAD")
        try:
            self._transport.write(request.data)
            if request.body is not None:
                send_body = self._send_body(response, request.body, is_chunked=request.is_chunked)
                self._sending = asyncio.create_task(send_body)
            while not response.status:
                await response.wait()
        except BaseException:
            self.close()
            raise
        return response

    def close(self) -> None:
        """Close the connection at once. Idempotent."""
        self.is_open = False
        self._stop_sending()
        response, self._response = self._response, None
        if response is not None:
            response.fail(Disconnected("EOF"))
        if self._transport is not None:
            self._transport.abort()

    def complete(self, *, keep_alive: bool) -> None:
        """The response is complete."""
        is_sent = self._sending is None or self._sending.done()
        self._response = None
        self.resume_reading()
        if keep_alive and is_sent and self.is_open:
            self._sending = None
            self._on_idle(self)
        else:
            self.close()

    def hand_over(self) -> UpgradedConnection:
        """Return the connection to what speaks the new protocol."""
        assert self._transport is not None
        transport, self._transport, self.is_open = self._transport, None, False
        upgraded = UpgradedConnection(transport, self._rest or b"")
        if not transport.is_closing():
            transport.resume_reading()
        return upgraded

    def pause_reading(self) -> None:
        """Receive nothing until `resume_reading`."""
        if self._transport is not None and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Receive again. Idempotent."""
        if self._is_paused:
            self._is_paused = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    async def _send_body(
        self, response: HttpResponse, pieces: AsyncIterator[bytes], *, is_chunked: bool
    ) -> None:
        """Write a body. If its source fails, the response fails with the same error."""
        transport = self._transport
        assert transport is not None
        try:
            async for piece in pieces:
                if piece:
                    transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
                if self._writable is not None:
                    await self._writable
            if is_chunked:
                transport.write(_LAST_CHUNK)
        except ConnectionError:
            pass  # the end of the connection is the end of the response
        except Exception as error:
            response.fail(error)
            self.close()

    def _stop_sending(self) -> None:
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.cancel()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        response = self._response
        if self._rest is not None:
            self._rest += data
            return
        if response is None:
            self.close()  # no request is open
            return
        self.has_received = True
        try:
            rest = response.receive(data)
        except ValueError as error:
            response.fail(error)
            self.close()
            return
        if response.status == _SWITCHING_PROTOCOLS:
            self._rest, self.is_open = rest, False
            self.pause_reading()
        response.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self.resume_writing()
        self._stop_sending()
        response, self._response = self._response, None
        if response is not None:
            response.end(exc)

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None:
            with contextlib.suppress(asyncio.InvalidStateError):
                writable.set_result(None)


_MAX_NAMES = 512
_MAX_CACHED_NAME = 64
_names: dict[bytes, str] = {}
"""Names of headers, by the bytes that servers sent; emptied when full."""


def header_name(data: bytes) -> str:
    """Return the name of a header as text."""
    name = _names.get(data)
    if name is None:
        name = header_text(data)
        if len(data) <= _MAX_CACHED_NAME:
            if len(_names) >= _MAX_NAMES:
                _names.clear()
            _names[data] = name
    return name


def header_text(data: bytes) -> str:
    """Return the value of a header as text, which begins no other line; bytes that are no UTF-8 are
    surrogates."""
    text = data.decode("utf-8", "surrogateescape")
    return (
        text if text.isprintable() else "".join(" " if letter < " " else letter for letter in text)
    )
