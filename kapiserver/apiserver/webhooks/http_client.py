"""Sends HTTP requests to webhooks and issuers; error messages are those of Go's HTTP client.

Knows no review and no kubeconfig. Mirrors k8s.io/client-go/rest.
"""

from __future__ import annotations

import asyncio
import functools
import posixpath
import ssl
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

from msgspec import Struct, field

from kapiserver.apiserver.http_client.connection import Outgoing
from kapiserver.apiserver.http_client.errors import (
    Disconnected,
    HostPort,
    ResponseTooLarge,
    error_text,
)
from kapiserver.apiserver.http_client.pool import ConnectionPool, Origin
from kapiserver.apiserver.http_client.proxies import proxy_headers
from kapiserver.apiserver.http_client.urls import UrlParts, split_url
from kapiserver.apiserver.time_limit import TimeLimit
from kapiserver.apiserver.webhooks.metrics import NO_RESPONSE, ClientMetrics
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.json import SORT_KEYS, decode_value, encode_value
from kapiserver.spans import trace_headers
from kapiserver.storage.objects.write_turns import give_up_turns

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

    status      the status of the error response; 0 if there was no response
    transient   whether another attempt may succeed: client-go's DefaultShouldRetry
    timed_out   whether the time of the call was over
    """

    def __init__(
        self, message: str, *, status: int = 0, transient: bool = False, timed_out: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.transient = transient
        self.timed_out = timed_out


class Address(Struct, frozen=True, kw_only=True):
    """The address of a webhook.

    url   the URL as error messages show it
    dial  host and port to connect to, if not those of the URL
    name  the name in its certificate; "" means the URL's host
    proxy URL of an HTTP proxy; "" for none
    """

    url: str
    dial: tuple[str, int] | None = None
    name: str = ""
    proxy: str = ""


class RawResponse(Struct):
    """A response; the names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Call(Struct, kw_only=True):
    """One request, without its address."""

    method: str = "POST"
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: JSON_HEADERS)
    timeout: float
    max_bytes: int


class HttpClient:
    """Sends requests, and keeps connections open until it is closed. Redirects are errors."""

    def __init__(self, metrics: ClientMetrics | None = None) -> None:
        self._metrics = metrics or ClientMetrics()
        self._pool = ConnectionPool()
        self._time_limit = TimeLimit()

    async def __aenter__(self) -> HttpClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Idempotent; another call opens them again."""
        self._pool.close()

    async def send(self, address: Address, context: ssl.SSLContext, call: Call) -> bytes:
        """Return the body of a successful response. Raises WebhookFailed."""
        return (await self.exchange(address, context, call)).body

    async def exchange(self, address: Address, context: ssl.SSLContext, call: Call) -> RawResponse:
        """Return a successful response. Raises WebhookFailed."""
        give_up_turns()
        try:
            url = split_url(address.url)
        except ValueError as error:
            raise _failure(address, call, _error_text(address, error)) from None
        labels = call.method, url.host_header
        started, code = perf_counter(), NO_RESPONSE
        try:
            with self._time_limit.within(call.timeout):
                response = await self._send(address, url, context, call)
            code = str(response.status)
        except TimeoutError:
            raise _failure(address, call, "context deadline exceeded", timed_out=True) from None
        except ResponseTooLarge as error:
            raise WebhookFailed(str(error)) from None
        except (OSError, ValueError) as error:
            transient = isinstance(error, ConnectionResetError | Disconnected)
            text = _error_text(address, error)
            raise _failure(address, call, text, transient=transient) from None
        finally:
            self._metrics.requests.add((code, *labels))
            self._metrics.seconds.observe(labels, perf_counter() - started)
            self._metrics.request_bytes.observe(labels, len(call.body or b""))
        self._metrics.response_bytes.observe(labels, len(response.body))
        _check_status(response)
        return response

    async def _send(
        self, address: Address, url: UrlParts, context: ssl.SSLContext, call: Call
    ) -> RawResponse:
        host, port = address.dial or (url.host, url.port)
        tls = context if url.scheme == "https" else None
        origin = Origin(host, port, tls, address.name or url.host, address.proxy)
        response = await self._pool.send(origin, _outgoing(address, url, call))
        try:
            body = await response.read(call.max_bytes)
        finally:
            response.close()
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in response.raw_headers
        }
        return RawResponse(response.status, headers, body)


def _outgoing(address: Address, url: UrlParts, call: Call) -> Outgoing:
    """Return a request as it is written. Raises ValueError for a header that is not one line of
    Latin-1."""
    path, headers = url.path, tuple(call.headers.items())
    if address.proxy and url.scheme == "http":  # the proxy gets the whole URL
        path = f"http://{url.host_header}{path}"
        headers += tuple(proxy_headers(address.proxy))
    head = _request_head(call.method, path, url.host_header, headers)
    for name, value in trace_headers():  # another value for each call: it is not in the cache
        head += f"{name}: {value}\r\n".encode("latin-1")
    if call.body is None:
        return Outgoing(method=call.method, data=head + b"\r\n")
    length = len(call.body)
    data = b"%bContent-Length: %d\r\n\r\n%b" % (head, length, call.body)
    return Outgoing(method=call.method, data=data)


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


def _failure(
    address: Address, call: Call, text: str, *, transient: bool = False, timed_out: bool = False
) -> WebhookFailed:
    name = f'{call.method.capitalize()} "{address.url}"'
    return WebhookFailed(f"{name}: {text}", transient=transient, timed_out=timed_out)


def _check_status(response: RawResponse) -> None:
    """Raise WebhookFailed if a response is not successful."""
    data, status = response.body, response.status
    if 200 <= status < 300:
        return
    transient = status in _RETRIED or "retry-after" in response.headers
    content_type = response.headers.get("content-type", "")
    text = _status_text(status, content_type, data)
    raise WebhookFailed(text, status=status, transient=transient)


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
    """Return a shared TLS context of clients that trust the CAs in a PEM text, or the system's for
    "". Raises WebhookFailed."""
    return new_tls_context(authorities)


def new_tls_context(authorities: str) -> ssl.SSLContext:
    """Return a new TLS context of the same kind. Raises WebhookFailed."""
    try:
        return client_context(authorities)
    except ValueError as error:
        raise WebhookFailed(str(error)) from None


def client_context(authorities: str) -> ssl.SSLContext:
    """Return a new TLS context that verifies servers as Go does: each certificate in `authorities`
    is trusted, whether it is a root, an intermediate CA or that of a server, as in the bundles of
    envtest. Raises ValueError."""
    try:
        context = ssl.create_default_context(cadata=authorities or None)
    except (ValueError, ssl.SSLError) as error:
        raise ValueError(f"unable to load root certificates: {error}") from None
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13 sets it
    return context


def clean_url(url: str) -> str:
    """Return a URL with the path that client-go would request: Go's path.Join removes a slash at
    the end, and empty parts."""
    scheme, _, address = url.partition("://")
    host, _, path = address.partition("/")
    return f"{scheme}://{host}{posixpath.normpath('/' + path.lstrip('/'))}"


def _error_text(address: Address, error: Exception) -> str:
    url = split_url(address.proxy or address.url)
    host_port = HostPort(*(address.dial or (url.host, url.port)))
    return error_text(error, host_port, name=split_url(address.url).host)


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
