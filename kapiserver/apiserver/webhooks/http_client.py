"""Sends HTTP requests to webhooks and issuers; error messages are those of Go's HTTP client.

Knows no review and no kubeconfig. Mirrors k8s.io/client-go/rest.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import io
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import aiohttp

from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.json import SORT_KEYS, decode_value, encode_value

TIMEOUT = 30.0
"""Seconds until a call of a webhook fails."""
MAX_BYTES = 64 << 20
"""The largest response."""
JSON_HEADERS: Mapping[str, str] = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
}
_ERROR_BYTES = 2048
"""Bytes of an error response's body that go into the message."""
_RETRIED = frozenset((429, 500, 504))


class WebhookFailed(Exception):
    """The call failed; the message is kube-apiserver's.

    status      of the error response; 0 if there was no response
    transient   whether another attempt may succeed: client-go's DefaultShouldRetry
    """

    def __init__(self, message: str, *, status: int = 0, transient: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.transient = transient


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address of a webhook.

    url   as shown in error messages
    dial  host and port to connect to, if not those of the URL
    name  the name in its certificate; "" means the URL's host
    proxy URL of an HTTP proxy; "" for none
    """

    url: str
    dial: tuple[str, int] | None = None
    name: str = ""
    proxy: str = ""


@dataclass(slots=True, kw_only=True)
class Call:
    """One request, without its address."""

    method: str = "POST"
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: JSON_HEADERS)
    timeout: float
    max_bytes: int


class HttpClient:
    """Sends requests, and keeps connections open until it is closed. Redirects are errors."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> HttpClient:
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Idempotent; another call opens them again."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def send(self, address: Address, context: ssl.SSLContext, call: Call) -> bytes:
        """Return the body of a successful response. Raises WebhookFailed."""
        name = f'{call.method.capitalize()} "{address.url}"'
        try:
            return await asyncio.wait_for(self._send(address, context, call), call.timeout)
        except TimeoutError:
            raise WebhookFailed(f"{name}: context deadline exceeded") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            transient = isinstance(error, ConnectionResetError | aiohttp.ServerDisconnectedError)
            text = f"{name}: {_error_text(error)}"
            raise WebhookFailed(text, transient=transient) from None

    async def _send(self, address: Address, context: ssl.SSLContext, call: Call) -> bytes:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None), cookie_jar=aiohttp.DummyCookieJar()
            )
        url, headers = address.url, dict(call.headers)
        if address.dial is not None:
            url, headers["Host"] = _dialled(address.url, *address.dial)
        async with self._session.request(
            call.method,
            url,
            data=io.BytesIO(call.body) if call.body is not None else None,
            headers=headers,
            ssl=context,
            server_hostname=address.name or None,
            proxy=address.proxy or None,
            allow_redirects=False,
        ) as response:
            data = bytearray()
            async for chunk in response.content.iter_any():
                data += chunk
                if len(data) > call.max_bytes:
                    raise WebhookFailed(f"the response is larger than {call.max_bytes} bytes")
            if not 200 <= response.status < 300:
                transient = response.status in _RETRIED or "Retry-After" in response.headers
                text = _status_text(response.status, response.content_type, bytes(data))
                raise WebhookFailed(text, status=response.status, transient=transient)
        return bytes(data)


async def encode_review(review: Any) -> bytes:
    """Return a review as JSON; encoded in a thread, because it may be a long list."""
    return await asyncio.to_thread(encode_value, review, option=SORT_KEYS)


async def decode_review(data: bytes) -> Any:
    """Return the value of a JSON response. Raises WebhookFailed."""
    try:
        return await asyncio.to_thread(decode_value, data)
    except CodecError as error:
        raise WebhookFailed(str(error)) from None


@functools.lru_cache(maxsize=64)
def tls_context(authorities: str) -> ssl.SSLContext:
    """Return the TLS context of a client that trusts the CAs in a PEM text, or the system's for "".
    Raises WebhookFailed."""
    try:
        return ssl.create_default_context(cadata=authorities or None)
    except (ValueError, ssl.SSLError) as error:
        raise WebhookFailed(f"unable to load root certificates: {error}") from None


def _dialled(url: str, host: str, port: int) -> tuple[str, str]:
    """Return a URL with another host and port, and the Host header of the original."""
    scheme, _, rest = url.partition("://")
    host_header, slash, path = rest.partition("/")
    return f"{scheme}://{_join_host_port(host, port)}{slash}{path}", host_header


def _join_host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_VERIFY_ERRORS = {
    10: "x509: certificate has expired or is not yet valid",
    18: "x509: certificate signed by unknown authority",
    19: "x509: certificate signed by unknown authority",
    20: "x509: certificate signed by unknown authority",
    21: "x509: certificate signed by unknown authority",
}
"""Go's messages by OpenSSL's verification error code."""


def _error_text(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        certificate_error = error.certificate_error
        code = getattr(certificate_error, "verify_code", 0)
        return f"tls: failed to verify certificate: {_VERIFY_ERRORS.get(code, certificate_error)}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError) and error.errno == errno.ECONNREFUSED:
        port = error.port or 443
        return f"dial tcp {_join_host_port(error.host, port)}: connect: connection refused"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__


_STATUS_TEXTS: Mapping[int, str] = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be "
    "processing the request",
}


def _status_text(status: int, content_type: str, data: bytes) -> str:
    """Return client-go's message for an error response."""
    try:
        document = decode_value(data)
        if document["kind"] == "Status" and isinstance(document["message"], str):
            return str(document["message"])
    except (CodecError, LookupError, TypeError):
        pass
    text = data[:_ERROR_BYTES].decode("utf-8", "replace").strip()
    text = text if content_type.startswith("text/") else "unknown"
    if status in (403, 406):
        return text
    if status in _STATUS_TEXTS:
        return _STATUS_TEXTS[status]
    if status >= 500:
        quoted = encode_value(text).decode()
        return f"an error on the server ({quoted}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"
