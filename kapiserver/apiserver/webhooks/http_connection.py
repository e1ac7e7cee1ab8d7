"""Connections of the client of webhooks: HTTP/1.1, one exchange at a time, kept open between calls.

A call needs a third of the CPU time that it needs with aiohttp (decision 063). Knows no review,
no proxy and no deadline: the caller cancels. Mirrors http.Transport of Go's net/http.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast
from urllib.parse import quote, urlsplit

import httptools
from msgspec import Struct

from kapiserver.apiserver.http_client.addresses import Resolver
from kapiserver.apiserver.http_client.errors import (
    Disconnected,
    ResponseTooLarge,
    UnknownHost,
)

MAX_IDLE = 8
"""Idle connections to one address that stay open."""
MAX_HEADER_BYTES = 64 << 10
_SAFE = "%/:=&?~#+!$,;'@()*[]"


class Origin(NamedTuple):
    """Where to connect: host, port, and the name that the certificate must have. `context` is None
    without TLS."""

    host: str
    port: int
    context: ssl.SSLContext | None
    name: str


class UrlParts(NamedTuple):
    """The parts of a URL that a request needs; `path` includes the query."""

    scheme: str
    host: str
    port: int
    host_header: str
    path: str


@functools.lru_cache(maxsize=1024)
def split_url(url: str) -> UrlParts:
    """Return the parts of an HTTP or HTTPS URL. Raises ValueError."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(f"invalid URL: {url}")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    path = quote(parts.path or "/", safe=_SAFE)
    if parts.query:
        path += "?" + quote(parts.query, safe=_SAFE)
    host_header = parts.netloc.rpartition("@")[2].encode("idna").decode()
    return UrlParts(parts.scheme, host, port, host_header, path)


def request_bytes(
    method: str, path: str, host_header: str, headers: Mapping[str, str], body: bytes | None
) -> bytes:
    """Return a request. Raises ValueError for a header that is not one line of Latin-1."""
    head = _request_head(method, path, host_header, tuple(headers.items()))
    if body is None:
        return head + b"\r\n"
    return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


@functools.lru_cache(maxsize=1024)
def _request_head(
    method: str, path: str, host_header: str, headers: Sequence[tuple[str, str]]
) -> bytes:
    """Return the request line and the headers. Raises ValueError."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host_header}"]
    lines += [f"{name}: {value}" for name, value in headers]
    head = "\r\n".join(lines)
    if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1:
        raise ValueError("net/http: invalid header field value")
    return head.encode("latin-1") + b"\r\n"


class RawResponse(Struct):
    """A response; the names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytearray


class Connection(asyncio.Protocol):
    """One connection. `is_open` says whether another exchange can follow."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._exchange_result: asyncio.Future[RawResponse] | None = None
        self._response = RawResponse(0, {}, bytearray())
        self._parser: httptools.HttpResponseParser | None = None
        self._max_bytes = 0
        self._header_bytes = 0
        self._has_headers = False
        self.is_open = False

    async def exchange(self, request: bytes, max_bytes: int) -> RawResponse:
        """Send a request and return the response. Raises Disconnected, ResponseTooLarge, OSError
        and ValueError. The connection closes if that fails or is cancelled."""
        assert self._transport is not None
        self._max_bytes = max_bytes
        self._begin_response()
        self._parser = httptools.HttpResponseParser(self)
        self._exchange_result = asyncio.get_running_loop().create_future()
        is_complete = False
        try:
            self._transport.write(request)
            response = await self._exchange_result
            is_complete = True
            return response
        finally:
            self._exchange_result = None
            if not is_complete:
                self.close()

    def close(self) -> None:
        """Close the connection at once. Idempotent."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def _begin_response(self) -> None:
        self._response = RawResponse(0, {}, bytearray())
        self._header_bytes = 0
        self._has_headers = False

    def _fail(self, error: Exception) -> None:
        if self._exchange_result is not None and not self._exchange_result.done():
            self._exchange_result.set_exception(error)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if self._exchange_result is None or self._parser is None:
            self.close()  # no request is open
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(ValueError("malformed HTTP response"))
        except httptools.HttpParserError as error:
            cause = error.__context__ if isinstance(error.__context__, ValueError) else None
            self._fail(cause or ValueError(f"malformed HTTP response: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        headers = self._response.headers
        is_delimited = "content-length" in headers or "transfer-encoding" in headers
        if self._has_headers and not is_delimited and exc is None:
            self._finish()  # the end of the connection is the end of the body
        else:
            self._fail(exc or Disconnected("EOF"))

    def _finish(self) -> None:
        if self._exchange_result is not None and not self._exchange_result.done():
            self._exchange_result.set_result(self._response)

    # Callbacks of the parser.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > MAX_HEADER_BYTES:
            raise ResponseTooLarge(f"the headers are larger than {MAX_HEADER_BYTES} bytes")
        self._response.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self._response.status = self._parser.get_status_code()
        self._has_headers = self._response.status >= 200

    def on_body(self, data: bytes) -> None:
        body = self._response.body
        body += data
        if len(body) > self._max_bytes:
            raise ResponseTooLarge(f"the response is larger than {self._max_bytes} bytes")

    def on_message_complete(self) -> None:
        assert self._parser is not None
        if not self._has_headers:  # 100 Continue
            self._begin_response()
            return
        if not self._parser.should_keep_alive():
            self.is_open = False
        self._finish()


class ConnectionPool:
    """The connections of one client."""

    def __init__(self) -> None:
        self._idle: dict[Origin, list[Connection]] = {}
        self._resolver = Resolver()

    async def exchange(self, origin: Origin, request: bytes, max_bytes: int) -> RawResponse:
        """Send a request on an idle or new connection and return the response. Raises UnknownHost,
        ssl.SSLError and the errors of `Connection.exchange`."""
        connection = self._take(origin) or await self._connect(origin)
        response = await connection.exchange(request, max_bytes)
        idle = self._idle.setdefault(origin, [])
        if connection.is_open and len(idle) < MAX_IDLE:
            idle.append(connection)
        else:
            connection.close()
        return response

    def close(self) -> None:
        """Close all idle connections. Idempotent."""
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()
        self._resolver.close()

    def _take(self, origin: Origin) -> Connection | None:
        idle = self._idle.get(origin, [])
        while idle:
            connection = idle.pop()
            if connection.is_open:
                return connection
        self._idle.pop(origin, None)
        return None

    async def _connect(self, origin: Origin) -> Connection:
        loop = asyncio.get_running_loop()
        failures: list[OSError] = [UnknownHost(origin.host)]
        for host in await self._resolver.addresses(origin.host):
            server_hostname = None if origin.context is None else origin.name or origin.host
            try:
                _, connection = await loop.create_connection(
                    Connection,
                    host,
                    origin.port,
                    ssl=origin.context,
                    server_hostname=server_hostname,
                )
            except ssl.SSLError:
                raise
            except OSError as error:
                failures = [error]
            else:
                return connection
        raise failures.pop()  # an error that this frame kept would be in a cycle with it
