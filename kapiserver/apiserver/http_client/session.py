"""Sends HTTP requests whose bodies and responses are streams, and connections that are upgraded.

Redirects are responses like all others. Knows no Kubernetes. Mirrors Client of Go's net/http.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Sequence

from msgspec import Struct

from kapiserver.apiserver.http_client.connection import HttpResponse, Outgoing
from kapiserver.apiserver.http_client.pool import ConnectionPool, Origin

CONNECT_SECONDS = 30.0
"""Limit of connecting, TLS included; that of Go's default transport."""
_PORTS = {False: 80, True: 443}


class HttpRequest(Struct, frozen=True, kw_only=True):
    """One request.

    target      path and query, quoted as they are to be sent
    headers     all of them, Host and Content-Length included, or the origin and the body decide
    connect_seconds     limit of connecting, TLS included
    """

    method: str
    origin: Origin
    target: str
    headers: Sequence[tuple[str, str]]
    body: bytes | AsyncIterator[bytes] | None = None
    connect_seconds: float | None = CONNECT_SECONDS


class StreamingClient(ConnectionPool):
    """Sends requests, and keeps connections open until it is closed."""

    def request(self, request: HttpRequest) -> Coroutine[None, None, HttpResponse]:
        """Send a request and return its response when the head has arrived. Raises the errors of
        `send`, and ValueError for a header that is not one line."""
        outgoing = _outgoing(request, keep_alive=self.keep_alive)
        return self.send(request.origin, outgoing, request.connect_seconds)


def _outgoing(request: HttpRequest, *, keep_alive: bool) -> Outgoing:
    """Return a request as it is written. Raises ValueError."""
    body, is_chunked = request.body, False
    head = [f"{request.method} {request.target} HTTP/1.1"]
    head += [f"{name}: {value}" for name, value in request.headers]
    lines = "\n".join(head).lower()  # names begin lines
    if lines.count("\n") != len(head) - 1 or "\r" in lines:
        raise ValueError("net/http: invalid header field value")
    # What is added below has no line ends: no connection can be made to such a host.
    if "\nhost:" not in lines:
        head.insert(1, f"Host: {_host(request.origin)}")
    if not keep_alive and "\nconnection:" not in lines:
        head.append("Connection: close")
    if "\ncontent-length:" not in lines:
        if isinstance(body, bytes):
            head.append(f"Content-Length: {len(body)}")
        elif body is not None:
            head.append("Transfer-Encoding: chunked")
            is_chunked = True
        elif request.method in ("POST", "PUT", "PATCH"):
            head.append("Content-Length: 0")
    data = ("\r\n".join(head) + "\r\n\r\n").encode("utf-8", "surrogateescape")
    if body is None or isinstance(body, bytes):
        return Outgoing(method=request.method, data=data + (body or b""))
    return Outgoing(method=request.method, data=data, body=body, is_chunked=is_chunked)


def _host(origin: Origin) -> str:
    """Return the header Host: without the port if it is the usual one."""
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    return host if origin.port == _PORTS[origin.context is not None] else f"{host}:{origin.port}"
