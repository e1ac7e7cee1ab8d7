"""Connections by way of an HTTP proxy: tunnels for HTTPS, and the credentials for the proxy.

Mirrors dialConn of Go's net/http, and RFC 9110, 9.3.6 (CONNECT).
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from http import HTTPStatus
from typing import cast

from kapiserver.apiserver.http_client.connection import MAX_HEADER_BYTES, Connection
from kapiserver.apiserver.http_client.errors import Disconnected, ResponseTooLarge
from kapiserver.apiserver.http_client.urls import split_url

_END = b"\r\n\r\n"


def proxy_headers(url: str) -> list[tuple[str, str]]:
    """Return the headers for the proxy of a URL: its credentials, if the URL has some."""
    user_info = split_url(url).user_info
    if not user_info:
        return []
    value = base64.b64encode(user_info.encode()).decode()
    return [("Proxy-Authorization", f"Basic {value}")]


class ProxyReply(asyncio.Protocol):
    """The answer of a proxy to CONNECT."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._transport: asyncio.Transport | None = None
        self._arrived = asyncio.get_running_loop().create_future()

    async def tunnel(
        self, target: str, url: str, connection: Connection, context: ssl.SSLContext, name: str
    ) -> None:
        """Have the proxy of a URL connect to HOST:PORT, and begin TLS with that, whose certificate
        must have the name. Raises ValueError if the proxy refuses, Disconnected, ssl.SSLError and
        OSError."""
        transport = self._transport
        assert transport is not None
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        lines += [f"{name}: {value}" for name, value in proxy_headers(url)]
        try:
            transport.write("\r\n".join([*lines, "", ""]).encode())
            status = await self._arrived
            if not 200 <= status < 300:
                raise ValueError(_reason(status))
            loop = asyncio.get_running_loop()
            secure = await loop.start_tls(transport, connection, context, server_hostname=name)
            assert secure is not None
            connection.connection_made(secure)
        except BaseException:
            transport.abort()
            raise

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        if self._arrived.done():
            return
        if len(self._data) > MAX_HEADER_BYTES:
            self._arrived.set_exception(ResponseTooLarge("the head of the proxy is too large"))
        elif _END in self._data:
            version, _, rest = self._data.partition(b" ")
            if version.startswith(b"HTTP/1.") and rest[:3].isdigit():
                self._arrived.set_result(int(rest[:3]))
            else:
                self._arrived.set_exception(ValueError("malformed HTTP response"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._arrived.done():
            self._arrived.set_exception(exc or Disconnected("EOF"))


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"status code {status}"
