"""Sends requests to webhooks by way of an HTTP proxy; loaded when a kubeconfig file names one.

Uses aiohttp, which takes a tenth of a second to import, and raises the errors of
`http_connection.py` instead of aiohttp's. Knows no review and no deadline: the caller cancels.
"""

from __future__ import annotations

import io
import ssl
from collections.abc import Mapping

import aiohttp
from msgspec import Struct

from kapiserver.apiserver.webhooks.http_connection import (
    Disconnected,
    RawResponse,
    ResponseTooLarge,
    UnknownHost,
)


class ProxiedRequest(Struct, frozen=True, kw_only=True):
    """One request. The certificate must have `server_name`; None means the host of the URL."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    proxy: str
    context: ssl.SSLContext
    server_name: str | None


class ProxySession:
    """Keeps connections to proxies open until it is closed."""

    def __init__(self) -> None:
        # Callers limit their calls. A limit of connections here would let a webhook that does not
        # answer delay the calls of others.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def send(self, request: ProxiedRequest, max_bytes: int) -> RawResponse:
        """Return the response. Raises ResponseTooLarge, SSLCertVerificationError, UnknownHost,
        Disconnected, OSError and ValueError."""
        try:
            return await self._send(request, max_bytes)
        except aiohttp.ClientConnectorCertificateError as error:
            raise error.certificate_error from None
        except aiohttp.ClientConnectorDNSError as error:
            raise UnknownHost(str(error)) from None
        except aiohttp.ServerDisconnectedError as error:
            raise Disconnected(str(error)) from None
        except aiohttp.ClientError as error:
            if isinstance(error, OSError):
                raise
            raise ValueError(str(error) or type(error).__name__) from None

    async def _send(self, request: ProxiedRequest, max_bytes: int) -> RawResponse:
        async with self._session.request(
            request.method,
            request.url,
            data=io.BytesIO(request.body) if request.body is not None else None,
            headers=request.headers,
            ssl=request.context,
            server_hostname=request.server_name,
            proxy=request.proxy,
            allow_redirects=False,
        ) as response:
            data = bytearray()
            async for chunk in response.content.iter_any():
                data += chunk
                if len(data) > max_bytes:
                    raise ResponseTooLarge(f"the response is larger than {max_bytes} bytes")
            headers = {name.lower(): value for name, value in response.headers.items()}
            return RawResponse(response.status, headers, data)
