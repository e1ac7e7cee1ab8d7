"""The transport over etcd's JSON gateway, based on etcd3-py.

etcd3-py builds URLs and the session, which is aiohttp's client. This module adds TLS verification,
several endpoints, errors and time-outs. It does not use etcd3-py's models, which cost more than the
call. This is the only module that imports etcd3, and it is imported only for
`--etcd-transport=gateway`, because aiohttp takes long to import. Knows no key and no revision.
"""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from urllib.parse import urlsplit

import aiohttp
import orjson
from etcd3.aio_client import AioClient

from kapiserver.spans import trace_headers
from kapiserver.storage.errors import StorageError, Unavailable
from kapiserver.storage.etcd import transport
from kapiserver.storage.etcd.gateway_json import GatewayCodec
from kapiserver.storage.etcd.transport import (
    CONNECT_SECONDS,
    DEFAULT_PORT,
    MAX_MESSAGE_BYTES,
    RequestNotSent,
    ResponseLost,
    refusal,
)

MAX_CONNECTIONS = 128
"""Connections to one endpoint; further requests wait for a free one."""
_METADATA = "Grpc-Metadata-"
"""Begins the names of headers that the gateway passes on to etcd."""
WHOLE_BYTES = 1 << 20
"""Larger requests are written piece by piece, because TLS encrypts at once what it is given."""


class _Gateway(AioClient):  # type: ignore[misc] # etcd3-py has no types
    """etcd3-py's client of one endpoint, without the blocking request of /version in its
    constructor."""

    session: aiohttp.ClientSession

    def __init__(self, endpoint: str, tls: ssl.SSLContext | None) -> None:
        self._endpoint = endpoint
        self._tls = tls
        url = urlsplit(endpoint)
        super().__init__(
            host=url.hostname,
            port=url.port or DEFAULT_PORT,
            protocol=url.scheme,
            pool_size=MAX_CONNECTIONS,
        )

    def _retrieve_version(self) -> None:
        pass

    def _verify_version(self) -> None:
        pass

    def _get_prefix(self) -> None:
        self.api_prefix = "/v3"  # etcd 3.4 and later

    @property
    def baseurl(self) -> str:
        return self._endpoint

    def send(
        self, method: str, message: bytes, headers: dict[str, str], timeout: aiohttp.ClientTimeout
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Return the context manager of the response, which sends the request. aiohttp does not
        repeat a POST whose connection is lost: the gateway may have written already. Raises
        RequestNotSent after `close`."""
        if self.session.closed:
            raise RequestNotSent("the connection is closed")
        return self.session.post(
            self._url(method),
            data=io.BytesIO(message) if len(message) > WHOLE_BYTES else message,
            headers={"Accept-Encoding": "identity", **headers},
            timeout=timeout,
            allow_redirects=False,
            ssl=self._tls or True,
        )


class GatewayTransport:
    """Calls and streams of the gateway."""

    def __init__(self, tls: ssl.SSLContext | None, prefix: str) -> None:
        """`prefix` begins every key, and is not part of the keys in responses."""
        self.codec = GatewayCodec(prefix)
        self._tls = tls
        self._gateways: dict[str, _Gateway] = {}

    async def call(self, endpoint: str, method: str, message: bytes, token: str) -> bytes:
        """Send a request and return the response; see `Transport`."""
        seconds = transport.CALL_SECONDS
        limits = aiohttp.ClientTimeout(total=None, connect=seconds, sock_read=seconds)
        headers = {"Authorization": token} if token else {}
        headers |= {f"{_METADATA}{name}": value for name, value in trace_headers()}
        with _gateway_errors():
            async with self._gateway(endpoint).send(method, message, headers, limits) as response:
                async with asyncio.timeout(seconds):
                    body = await _whole_body(response)
        if response.status != 200:
            raise _refusal(response.status, body)
        return body

    @asynccontextmanager
    async def stream(
        self, endpoint: str, method: str, message: bytes, token: str
    ) -> AsyncGenerator[GatewayMessageStream]:
        """Open a stream with one request; see `Transport`."""
        # A member without a leader then ends the stream instead of going silent.
        headers = {f"{_METADATA}hasleader": "true"}
        if token:
            headers["Authorization"] = token
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        with _gateway_errors():
            async with self._gateway(endpoint).send(method, message, headers, limits) as response:
                if response.status != 200:
                    raise _refusal(response.status, await _whole_body(response))
                stream = GatewayMessageStream(response)
                try:
                    yield stream
                finally:
                    stream.close()

    async def close(self) -> None:
        """Close all connections, also those that a call opens meanwhile. Idempotent."""
        while self._gateways:
            _, gateway = self._gateways.popitem()
            await gateway.close()

    def _gateway(self, endpoint: str) -> _Gateway:
        gateway = self._gateways.get(endpoint)
        if gateway is None:
            gateway = self._gateways[endpoint] = _Gateway(endpoint, self._tls)
        return gateway


@contextmanager
def _gateway_errors() -> Iterator[None]:
    """Raise RequestNotSent for an error before the request was sent, and ResponseLost for one
    after."""
    try:
        yield
    except (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError) as error:
        raise RequestNotSent(str(error)) from error
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise ResponseLost(str(error) or type(error).__name__) from error


async def _whole_body(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of a response. Raises ResponseLost if it is too long, or cut off."""
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > MAX_MESSAGE_BYTES:
            raise ResponseLost("the answer is too long")
    body = b"".join(pieces)
    headers = response.headers
    if "Content-Length" not in headers and "Transfer-Encoding" not in headers:
        # The end of the connection ends the body, which may therefore be cut off.
        try:
            orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise ResponseLost("the answer is incomplete") from error
    return body


class GatewayMessageStream:
    """The messages of a stream. The gateway ends each with a newline."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._buffer = bytearray()
        self._searched = 0

    def __aiter__(self) -> AsyncIterator[Sequence[bytes]]:
        return self

    async def __anext__(self) -> Sequence[bytes]:
        """Return the result of the next message. Raises Unavailable, EtcdError."""
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            if self._searched > MAX_MESSAGE_BYTES:
                raise Unavailable("etcd: a message of a stream is too long")
            chunk = await self._response.content.readany()
            if not chunk:
                raise StopAsyncIteration
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return (_result(line),)

    def close(self) -> None:
        """Close the connection of the stream at once: a TLS close would wait for etcd.
        Idempotent."""
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._response.close()


def _result(line: bytes) -> bytes:
    """Return the message of a line, `{"result": MESSAGE}`."""
    try:
        fields = orjson.loads(line)
        if "error" in fields:
            raise _refusal(503, line)
        return orjson.dumps(fields["result"])
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise Unavailable("etcd: a message of a stream is invalid") from error


def _refusal(status: int, body: bytes) -> StorageError:
    """Return the error of a response, in the formats of etcd 3.4, 3.5 and 3.6."""
    try:
        fields = orjson.loads(body)
        fields = fields["error"] if isinstance(fields.get("error"), dict) else fields
        code = int(fields.get("code") or fields.get("grpc_code") or 2)
        message = str(fields.get("message") or fields.get("error") or "")
    except (ValueError, TypeError, KeyError, AttributeError):
        return Unavailable(f"etcd: HTTP status {status}")
    return refusal(code, message)
