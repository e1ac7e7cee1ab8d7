"""Sends HTTP requests whose bodies and responses are streams, and connections that are upgraded.

Built on aiohttp's client, which takes a tenth of a second to import: import this module late. A
body is sent as fast as the server reads it, and a response is read as fast as the caller takes it.
Redirects are responses like all others. Knows no Kubernetes. Mirrors http.Transport of Go's
net/http.
"""

from __future__ import annotations

import io
import socket
import ssl
import traceback
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver, AbstractStreamWriter, ResolveResult
from aiohttp.payload import AsyncIterablePayload
from msgspec import Struct

from kapiserver.apiserver.http_client.addresses import Guard, Resolver
from kapiserver.apiserver.http_client.errors import (
    AddressNotAllowed,
    ConnectTimeout,
    Disconnected,
    UnknownHost,
)
from kapiserver.apiserver.http_client.upgraded import UpgradedConnection

CONNECT_SECONDS = 30.0
"""Limit of connecting, TLS included; that of Go's default transport."""
MAX_HEADER_BYTES = 64 << 10
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that aiohttp would add."""


class TimeLimits(Struct, frozen=True, kw_only=True):
    """Seconds that each phase of a request may take; None means no limit.

    connect     until the connection is open, TLS included
    idle        between two parts of the response, its head included
    """

    connect: float | None = CONNECT_SECONDS
    idle: float | None = None


class HttpRequest(Struct, frozen=True, kw_only=True):
    """One request.

    url         quoted as it is to be sent
    headers     all of them, Host and Content-Length included, or the URL and the body decide
    context     TLS for https
    server_name the certificate must have this name; "" means the host of the URL
    proxy       URL of an HTTP proxy; "" for none
    connect_seconds     limit of connecting, TLS included; None means that of the client
    """

    method: str
    url: str
    headers: Sequence[tuple[str, str]]
    body: bytes | AsyncIterator[bytes] | None = None
    context: ssl.SSLContext | None = None
    server_name: str = ""
    proxy: str = ""
    connect_seconds: float | None = None


class HttpResponse:
    """A response whose head has arrived. Close it."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = [(_text(name), _text(value)) for name, value in response.raw_headers]

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises Disconnected if it is cut off, OSError."""
        with _as_own_errors():
            async for piece in self._response.content.iter_any():
                yield piece

    def upgraded(self) -> UpgradedConnection:
        """Take over the connection of a response with status 101."""
        connection = self._response.connection
        assert connection is not None
        transport, protocol = connection.transport, connection.protocol
        assert transport is not None
        assert protocol is not None
        # aiohttp keeps what has arrived after the head for the parser of another protocol.
        rest = _Rest()
        protocol.set_parser(rest, None)
        upgraded = UpgradedConnection(transport, bytes(rest.data))
        protocol.connection_lost(None)  # it has lost the transport, and drops its parsers
        return upgraded

    def close(self) -> None:
        """Close the connection, unless it may be used again. Idempotent."""
        self._response.close()


class _StreamedBody(AsyncIterablePayload):
    """A body that arrives piece by piece. aiohttp would keep the head back until the first piece,
    though the server may answer before."""

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        writer.send_headers()
        await super().write_with_length(writer, content_length)


class _Rest:
    """Takes the bytes after the head of a response."""

    def __init__(self) -> None:
        self.data = bytearray()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.data += data
        return False, b""

    def feed_eof(self) -> None:
        pass


class StreamingClient:
    """Sends requests, and keeps connections open until it is closed.

    The number of connections is not limited: callers limit their requests, and a server that does
    not answer must not delay requests to others.
    """

    def __init__(
        self,
        *,
        guard: Guard | None = None,
        limits: TimeLimits = TimeLimits(),  # noqa: B008 # it is frozen
        keep_alive: bool = True,
    ) -> None:
        """With a guard, the client connects only to addresses that the guard allows."""
        self._limits = limits
        self._resolver = Resolver(guard)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                resolver=_AiohttpResolver(self._resolver),
                use_dns_cache=False,
                force_close=not keep_alive,
            ),
            timeout=self._timeout(None),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_AUTOMATIC,
            auto_decompress=False,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        await self._session.close()
        self._resolver.close()

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request and return its response when the head has arrived. Raises
        AddressNotAllowed, UnknownHost, ConnectTimeout, ssl.SSLError, Disconnected, OSError,
        TimeoutError and ValueError."""
        url = yarl.URL(request.url, encoded=True)
        if not request.proxy:
            await self._check_literal(url.host or "")
        body: io.BytesIO | _StreamedBody | None = None
        if isinstance(request.body, bytes):
            body = io.BytesIO(request.body)
        elif request.body is not None:
            body = _StreamedBody(request.body)
        with _as_own_errors():
            return HttpResponse(
                await self._session.request(
                    request.method,
                    url,
                    data=body,
                    headers=request.headers,
                    ssl=request.context or True,
                    server_hostname=request.server_name or None,
                    proxy=request.proxy or None,
                    allow_redirects=False,
                    timeout=self._timeout(request.connect_seconds),
                )
            )

    def _timeout(self, connect_seconds: float | None) -> aiohttp.ClientTimeout:
        connect = self._limits.connect if connect_seconds is None else connect_seconds
        return aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=self._limits.idle)

    async def _check_literal(self, host: str) -> None:
        """Raise AddressNotAllowed for an address that the guard refuses. aiohttp asks no resolver
        for what looks like an address."""
        if ":" in host or host.replace(".", "").isdigit():
            await self._resolver.addresses(host)


class _AiohttpResolver(AbstractResolver):
    """A Resolver as aiohttp calls it."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host, IPv4 and IPv6."""
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in await self._resolver.addresses(host)
        ]

    async def close(self) -> None:
        """Nothing: the client closes the resolver."""


@contextmanager
def _as_own_errors() -> Iterator[None]:
    """Raise the errors of `errors.py` and of Python in place of aiohttp's."""
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:
        own = _own_error(error)
        _clear_frames(error)
    else:
        return
    try:
        raise own
    finally:
        del own  # its traceback refers to this frame


def _own_error(error: aiohttp.ClientError | OSError) -> Exception:
    if isinstance(error, aiohttp.ClientConnectorError):
        return _connect_error(error)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return ConnectTimeout(str(error))
    if isinstance(error, aiohttp.ServerTimeoutError):
        return TimeoutError(str(error))
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return Disconnected(str(error))
    if isinstance(error, aiohttp.ClientOSError):
        return ConnectionResetError(error.errno, error.strerror)
    if isinstance(error, aiohttp.ClientError):
        return ValueError(str(error) or type(error).__name__)
    return error


def _connect_error(error: aiohttp.ClientConnectorError) -> Exception:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return error.certificate_error
    cause: BaseException | None = error.os_error
    while cause is not None:
        if isinstance(cause, AddressNotAllowed | UnknownHost | ssl.SSLError):
            return cause
        cause = cause.__cause__ or cause.__context__
    if isinstance(error.os_error, ConnectionError) and error.errno is None:
        return Disconnected(str(error))  # in the TLS handshake
    return OSError(error.errno, error.strerror or str(error))


def _clear_frames(error: BaseException | None) -> None:
    """Break the reference cycles of an error and its causes: frames of aiohttp's connector hold
    lists of errors, and the request with its body."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _text(data: bytes) -> str:
    """Return the text of a header, which begins no other line."""
    text = data.decode("utf-8", "surrogateescape")
    return text if text.isprintable() else "".join(" " if each < " " else each for each in text)
