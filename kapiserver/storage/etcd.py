"""The etcd client: calls and streams of etcd's JSON gateway, based on etcd3-py.

etcd3-py builds requests, URLs, headers and the session of streams. This module overrides it to add
TLS verification, several endpoints, authentication, timeouts, errors, streams and the connections
of calls (`storage/etcd_http.py`). It does not use etcd3-py's models, which cost more than the call.
This is the only module that imports etcd3, and it is imported only if etcd is used. Knows no key
and no revision.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson
from etcd3.aio_client import AioClient

from kapiserver.storage.errors import StorageError, Unavailable
from kapiserver.storage.etcd_config import EtcdConfig
from kapiserver.storage.etcd_http import ConnectionPool, HTTPResponse, RequestNotSent, ResponseLost

CONNECT_SECONDS = 2.0
CALL_SECONDS = 5.0
"""Timeout of one call to one endpoint."""
ALL_ENDPOINTS_SECONDS = 2 * CALL_SECONDS
"""Timeout of a call to all endpoints, if none responds."""
MAX_MESSAGE_BYTES = 512 << 20
"""Maximum bytes of a stream message; a watch that catches up receives many events in one."""

TRANSIENT_RETRY_SECONDS = 5.0
"""How long to retry while the cluster reports a transient refusal."""
PAUSE_SECONDS = 0.05

_LOGIN_ERRORS = ("invalid auth token", "revision of auth store is old", "user name is empty")
"""Errors after which to log in again."""
_AUTH_DISABLED = "authentication is not enabled"
_TRANSIENT_WRITE_ERRORS = (
    "etcdserver: no leader",
    "etcdserver: not leader",
    "etcdserver: too many requests",
)
"""Transient refusals before anything was written."""
_TRANSIENT_READ_ERRORS = (*_TRANSIENT_WRITE_ERRORS, "etcdserver: leader changed")
"""Transient refusals of reads."""


class EtcdError(StorageError):
    """etcd refused a request; `code` is the gRPC status code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class _NotProcessed(Exception):
    """The request was not processed: no connection, or a refusal; `transient` if a retry may
    succeed."""

    def __init__(self, text: str, *, transient: bool = False) -> None:
        super().__init__(text)
        self.transient = transient


class _Gateway(AioClient):  # type: ignore[misc]
    """etcd3-py's client with a replaceable endpoint and our own connections for calls, and without
    the blocking request of /version in its constructor."""

    def __init__(self, endpoint: str, tls: ssl.SSLContext | None) -> None:
        self.endpoint = endpoint
        self._tls = tls
        self._pools: dict[str, ConnectionPool] = {}
        url = urlsplit(endpoint)
        super().__init__(host=url.hostname, port=url.port or 2379, protocol=url.scheme)

    def _retrieve_version(self) -> None:
        pass

    def _verify_version(self) -> None:
        pass

    def _get_prefix(self) -> None:
        self.api_prefix = "/v3"  # etcd 3.4 and later

    @property
    def baseurl(self) -> str:
        return self.endpoint

    async def close(self) -> None:
        for pool in self._pools.values():
            pool.close()
        await super().close()

    def _post(self, url: str, data: Any = None, **_: Any) -> Awaitable[HTTPResponse]:
        """Send one call; used by `call_rpc`."""
        endpoint = self.endpoint
        pool = self._pools.get(endpoint)
        if pool is None:
            pool = self._pools[endpoint] = ConnectionPool(endpoint, self._tls)
        headers = b""
        if self.token:
            headers = b"Authorization: %b\r\n" % self.token.encode()
        return pool.post(url.removeprefix(endpoint), headers, data, seconds=CALL_SECONDS)

    def stream(self, method: str, data: bytes) -> Any:
        """Open a stream; returns the context manager of aiohttp's response."""
        # A member without a leader then ends the stream instead of going silent.
        headers = {"Grpc-Metadata-hasleader": "true"}
        if self.token:
            headers["Authorization"] = self.token
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        return self.session.post(
            self._url(method), data=data, headers=headers, timeout=limits, ssl=self._tls or True
        )


class EtcdClient:
    """The client of a cluster. Calls raise Unavailable in bounded time if no endpoint responds,
    and EtcdError for a refusal."""

    def __init__(self, config: EtcdConfig) -> None:
        """Raises OSError for certificate files that cannot be read."""
        self._config = config
        self._endpoint_index = 0
        tls = None
        if any(endpoint.startswith("https:") for endpoint in config.endpoints):
            tls = _tls(config)
        self._gateway = _Gateway(config.endpoints[0], tls)
        self._login_lock = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._streams: dict[aiohttp.ClientResponse, str] = {}

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        await self._gateway.close()

    async def read(self, method: str, request: Mapping[str, Any]) -> Any:
        """Call a method that writes nothing. Tries every endpoint within the timeout."""
        return await self._call_endpoints(
            method, request, _TRANSIENT_READ_ERRORS, (Unavailable, _NotProcessed)
        )

    async def write(self, method: str, request: Mapping[str, Any]) -> Any:
        """Call a method that writes. Tries another endpoint only if this one certainly did not
        process the request; after Unavailable the write may have happened."""
        return await self._call_endpoints(
            method, request, _TRANSIENT_WRITE_ERRORS, (_NotProcessed,)
        )

    @asynccontextmanager
    async def stream(self, method: str, request: Mapping[str, Any]) -> AsyncGenerator[Messages]:
        """Open a stream and yield its messages. Raises Unavailable, EtcdError."""
        endpoint = self._gateway.endpoint
        try:
            await self._ensure_login()
            endpoint = self._gateway.endpoint
            async with self._gateway.stream(method, orjson.dumps(request)) as response:
                if response.status != 200:
                    raise _refusal(response.status, await response.read())
                self._streams[response] = endpoint
                try:
                    yield Messages(response)
                finally:
                    del self._streams[response]
        except EtcdError as error:
            if any(text in error.message for text in _LOGIN_ERRORS):
                self.drop_token()
            raise
        except _NotProcessed as error:
            raise Unavailable(f"etcd: {error}") from error
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            self._next_endpoint(endpoint)
            raise Unavailable(f"etcd: {_error_text(error)}") from error
        except RuntimeError as error:  # aiohttp raises it for a closed session
            raise Unavailable("etcd: the connection is closed") from error

    def drop_token(self) -> None:
        """Log in again before the next request; watches do not report an expired token."""
        self._gateway.token = None

    async def _call_endpoints(
        self,
        method: str,
        request: Mapping[str, Any],
        transient: Sequence[str],
        retry_on: tuple[type[Exception], ...],
    ) -> Any:
        """Try every endpoint after an error of `retry_on`, and repeat while it is transient."""
        start = self._loop.time()
        endpoints_left = len(self._config.endpoints)
        while True:
            try:
                return await self._call_authenticated(method, request, transient)
            except retry_on as error:
                endpoints_left -= 1
                waited = self._loop.time() - start
                if not endpoints_left or waited >= ALL_ENDPOINTS_SECONDS:
                    is_transient = isinstance(error, _NotProcessed) and error.transient
                    if not is_transient or waited > TRANSIENT_RETRY_SECONDS:
                        text = str(error).removeprefix("etcd: ")
                        raise Unavailable(f"etcd: {text}") from error
                    endpoints_left = len(self._config.endpoints)
                    await asyncio.sleep(PAUSE_SECONDS)

    async def _call_authenticated(
        self, method: str, request: Mapping[str, Any], transient: Sequence[str]
    ) -> Any:
        await self._ensure_login()
        token = self._gateway.token
        try:
            return await self._call(method, request, transient)
        except EtcdError as error:
            if not self._config.username or not any(
                text in error.message for text in _LOGIN_ERRORS
            ):
                raise
            await self._log_in(token)
        return await self._call(method, request, transient)

    async def _ensure_login(self) -> None:
        if self._config.username and self._gateway.token is None:
            await self._log_in(None)

    async def _log_in(self, old_token: str | None) -> None:
        """Get a token, unless a concurrent call did."""
        async with self._login_lock:
            if self._gateway.token not in (None, old_token):
                return
            self._gateway.token = None
            credentials = {"name": self._config.username, "password": self._password()}
            try:
                response = await self._call(
                    "/auth/authenticate", credentials, _TRANSIENT_WRITE_ERRORS
                )
                self._gateway.token = response["token"]
            except EtcdError as error:
                if _AUTH_DISABLED not in error.message:
                    raise
                self._gateway.token = (
                    ""  # authentication is disabled, until a call is refused for it
                )

    def _password(self) -> str:
        """Read the password file each time, because the password may change."""
        if self._config.password_file is None:
            return ""
        try:
            return self._config.password_file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeError) as error:
            raise Unavailable(f"etcd: no password: {error}") from error

    async def _call(self, method: str, request: Mapping[str, Any], transient: Sequence[str]) -> Any:
        endpoint = self._gateway.endpoint
        try:
            response = await self._gateway.call_rpc(method, orjson.dumps(request), raw=True)
        except RequestNotSent as error:
            self._next_endpoint(endpoint)
            raise _NotProcessed(str(error)) from error
        except ResponseLost as error:
            self._next_endpoint(endpoint)
            raise Unavailable(f"etcd: {error}") from error
        if response.status == 200:
            try:
                return orjson.loads(response.body)
            except orjson.JSONDecodeError as error:
                raise Unavailable("etcd: the answer is no JSON") from error
        refusal = _refusal(response.status, response.body)
        if any(text in str(refusal) for text in transient):
            self._next_endpoint(endpoint)
            raise _NotProcessed(str(refusal).removeprefix("etcd: "), transient=True)
        if isinstance(refusal, Unavailable):
            self._next_endpoint(endpoint)
        raise refusal

    def _next_endpoint(self, failed: str) -> None:
        """Use the next endpoint from now on, unless a concurrent call switched already."""
        if self._gateway.endpoint == failed:
            self._endpoint_index = (self._endpoint_index + 1) % len(self._config.endpoints)
            self._gateway.endpoint = self._config.endpoints[self._endpoint_index]
            if self._gateway.endpoint != failed:  # its streams may hang
                for response, endpoint in tuple(self._streams.items()):
                    if endpoint == failed:
                        response.close()


class Messages:
    """The parsed messages of a stream. The gateway ends each with a newline."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._content = response.content
        self._buffer = bytearray()
        self._searched = 0

    def __aiter__(self) -> Messages:
        return self

    async def __anext__(self) -> Any:
        """Return the result of the next message. Raises Unavailable, EtcdError."""
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            if self._searched > MAX_MESSAGE_BYTES:
                raise Unavailable("etcd: a message of a stream is too long")
            chunk = await self._content.readany()
            if not chunk:
                raise StopAsyncIteration
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise Unavailable("etcd: a message of a stream is no JSON") from error
        if "error" in message:
            raise _refusal(503, line)
        return message["result"]


def _tls(config: EtcdConfig) -> ssl.SSLContext:
    with _with_file_name(config.cafile):
        context = ssl.create_default_context(cafile=config.cafile)
    if config.certfile is not None:
        with _with_file_name(config.certfile), _with_file_name(config.keyfile):
            context.load_cert_chain(config.certfile, config.keyfile)
    return context


@contextmanager
def _with_file_name(file: Path | None) -> Iterator[None]:
    """Add the file name to ssl's errors."""
    if file is not None:
        file.open("rb").close()
    try:
        yield
    except ssl.SSLError as error:
        raise OSError(f"{file}: {error}") from error


_GRPC_UNAVAILABLE = (1, 4, 14)  # Canceled, DeadlineExceeded, Unavailable


def _refusal(status: int, body: bytes) -> StorageError:
    """Return the error of a response, in the formats of etcd 3.4, 3.5 and 3.6."""
    try:
        fields = orjson.loads(body)
        fields = fields["error"] if isinstance(fields.get("error"), dict) else fields
        code = int(fields.get("code") or fields.get("grpc_code") or 2)
        message = str(fields.get("message") or fields.get("error") or "")
    except (ValueError, TypeError, KeyError, AttributeError):
        return Unavailable(f"etcd: HTTP status {status}")
    if code in _GRPC_UNAVAILABLE:
        return Unavailable(f"etcd: {message}")
    return EtcdError(code, message)


def _error_text(error: BaseException) -> str:
    return str(error) or type(error).__name__
