"""The connection to etcd: calls and streams of its JSON gateway, by way of etcd3-py.

The client makes requests, URLs, headers and the session of streams; ours are TLS checks, several
endpoints, log-in, bounded times, errors, streams and the connections that calls go over
(`storage/etcd_http.py`), by overriding. Its models are left aside: they cost more than the call.
The only module that imports etcd3; it is itself imported only where etcd is used. Knows no key and
no revision.
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
"""For one answer of one endpoint."""
GIVE_UP_SECONDS = 2 * CALL_SECONDS
"""For the answers of all of them, as long as none comes."""
LONGEST_MESSAGE = 512 << 20
"""Bytes of one message of a stream; a watch that catches up gets many events in one."""

ELECTION_SECONDS = 5.0
"""How long a cluster is asked again that says it cannot just now."""
PAUSE_SECONDS = 0.05

_STALE = ("invalid auth token", "revision of auth store is old", "user name is empty")
"""Log in (anew)."""
_UNGUARDED = "authentication is not enabled"
_UNDONE = ("etcdserver: no leader", "etcdserver: not leader", "etcdserver: too many requests")
"""Refusals that come before anything is done, and pass."""
_UNREAD = (*_UNDONE, "etcdserver: leader changed")
"""Those of a read."""


class EtcdError(StorageError):
    """etcd understood and refused; `code` is gRPC's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class _Unreached(Exception):
    """The request was not carried out: no connection, or refused at the door; `passing`: just
    now."""

    def __init__(self, words: str, *, passing: bool = False) -> None:
        super().__init__(words)
        self.passing = passing


class _Gateway(AioClient):  # type: ignore[misc]
    """etcd3-py's client without its constructor's blocking look at /version, with the endpoint of
    the moment and with connections of our own for calls."""

    def __init__(self, endpoint: str, tls: ssl.SSLContext | None) -> None:
        self.endpoint = endpoint
        self._tls = tls
        self._pools: dict[str, ConnectionPool] = {}
        where = urlsplit(endpoint)
        super().__init__(host=where.hostname, port=where.port or 2379, protocol=where.scheme)

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
        """What `call_rpc` sends: one call."""
        endpoint = self.endpoint
        pool = self._pools.get(endpoint)
        if pool is None:
            pool = self._pools[endpoint] = ConnectionPool(endpoint, self._tls)
        headers = b""
        if self.token:
            headers = b"Authorization: %b\r\n" % self.token.encode()
        return pool.post(url.removeprefix(endpoint), headers, data, seconds=CALL_SECONDS)

    def stream(self, method: str, data: bytes) -> Any:
        """Ask for what does not end: a context manager of aiohttp's response."""
        # A member that has lost its leader ends the stream instead of falling silent.
        headers = {"Grpc-Metadata-hasleader": "true"}
        if self.token:
            headers["Authorization"] = self.token
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        return self.session.post(
            self._url(method), data=data, headers=headers, timeout=limits, ssl=self._tls or True
        )


class EtcdClient:
    """A cluster. Every call raises Unavailable in bounded time when no endpoint answers, and
    EtcdError for a refusal."""

    def __init__(self, config: EtcdConfig) -> None:
        """Raises OSError for certificate files that are no good."""
        self._config = config
        self._at = 0
        tls = None
        if any(each.startswith("https:") for each in config.endpoints):
            tls = _tls(config)
        self._gateway = _Gateway(config.endpoints[0], tls)
        self._login = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._streams: dict[aiohttp.ClientResponse, str] = {}

    async def close(self) -> None:
        """Drop all connections. Idempotent."""
        await self._gateway.close()

    async def read(self, method: str, request: Mapping[str, Any]) -> Any:
        """Ask what changes nothing: each endpoint is tried before this gives up, if there is time
        for that."""
        return await self._ask(method, request, _UNREAD, (Unavailable, _Unreached))

    async def write(self, method: str, request: Mapping[str, Any]) -> Any:
        """Ask for a change. Another endpoint is tried only if this one has done nothing for sure;
        after Unavailable the change may have happened all the same."""
        return await self._ask(method, request, _UNDONE, (_Unreached,))

    @asynccontextmanager
    async def stream(self, method: str, request: Mapping[str, Any]) -> AsyncGenerator[Messages]:
        """Ask and read messages until one side ends it. Raises Unavailable, EtcdError."""
        endpoint = self._gateway.endpoint
        try:
            await self._log_in_first()
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
            if any(words in error.message for words in _STALE):
                self.drop_token()
            raise
        except _Unreached as error:
            raise Unavailable(f"etcd: {error}") from error
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            self._move_on(endpoint)
            raise Unavailable(f"etcd: {_words(error)}") from error
        except RuntimeError as error:  # aiohttp's word for a session that is closed
            raise Unavailable("etcd: the connection is closed") from error

    def drop_token(self) -> None:
        """Log in anew before the next request: watches do not say that a token has ended."""
        self._gateway.token = None

    async def _ask(
        self,
        method: str,
        request: Mapping[str, Any],
        passing: Sequence[str],
        again: tuple[type[Exception], ...],
    ) -> Any:
        """Try every endpoint after what is in `again`, and once more for as long as it passes."""
        begin = self._loop.time()
        left = len(self._config.endpoints)
        while True:
            try:
                return await self._authenticated(method, request, passing)
            except again as error:
                left -= 1
                waited = self._loop.time() - begin
                if not left or waited >= GIVE_UP_SECONDS:
                    waits = isinstance(error, _Unreached) and error.passing
                    if not waits or waited > ELECTION_SECONDS:
                        words = str(error).removeprefix("etcd: ")
                        raise Unavailable(f"etcd: {words}") from error
                    left = len(self._config.endpoints)
                    await asyncio.sleep(PAUSE_SECONDS)

    async def _authenticated(
        self, method: str, request: Mapping[str, Any], passing: Sequence[str]
    ) -> Any:
        await self._log_in_first()
        token = self._gateway.token
        try:
            return await self._call(method, request, passing)
        except EtcdError as error:
            if not self._config.username or not any(words in error.message for words in _STALE):
                raise
            await self._log_in(token)
        return await self._call(method, request, passing)

    async def _log_in_first(self) -> None:
        if self._config.username and self._gateway.token is None:
            await self._log_in(None)

    async def _log_in(self, stale: str | None) -> None:
        """Get a token, unless another call just has."""
        async with self._login:
            if self._gateway.token not in (None, stale):
                return
            self._gateway.token = None
            credentials = {"name": self._config.username, "password": self._password()}
            try:
                answer = await self._call("/auth/authenticate", credentials, _UNDONE)
                self._gateway.token = answer["token"]
            except EtcdError as error:
                if _UNGUARDED not in error.message:
                    raise
                self._gateway.token = ""  # nobody needs one, until a call is refused for want of it

    def _password(self) -> str:
        """Read each time: a password may be changed while a server runs."""
        if self._config.password_file is None:
            return ""
        try:
            return self._config.password_file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeError) as error:
            raise Unavailable(f"etcd: no password: {error}") from error

    async def _call(self, method: str, request: Mapping[str, Any], passing: Sequence[str]) -> Any:
        endpoint = self._gateway.endpoint
        try:
            answer = await self._gateway.call_rpc(method, orjson.dumps(request), raw=True)
        except RequestNotSent as error:
            self._move_on(endpoint)
            raise _Unreached(str(error)) from error
        except ResponseLost as error:
            self._move_on(endpoint)
            raise Unavailable(f"etcd: {error}") from error
        if answer.status == 200:
            try:
                return orjson.loads(answer.body)
            except orjson.JSONDecodeError as error:
                raise Unavailable("etcd: the answer is no JSON") from error
        refusal = _refusal(answer.status, answer.body)
        if any(words in str(refusal) for words in passing):
            self._move_on(endpoint)
            raise _Unreached(str(refusal).removeprefix("etcd: "), passing=True)
        if isinstance(refusal, Unavailable):
            self._move_on(endpoint)
        raise refusal

    def _move_on(self, failed: str) -> None:
        """Ask the next endpoint from now on, unless somebody has moved on already."""
        if self._gateway.endpoint == failed:
            self._at = (self._at + 1) % len(self._config.endpoints)
            self._gateway.endpoint = self._config.endpoints[self._at]
            if self._gateway.endpoint != failed:  # its streams may hang without a word
                for response, endpoint in tuple(self._streams.items()):
                    if endpoint == failed:
                        response.close()


class Messages:
    """The messages of one stream, parsed. The gateway ends each with a newline."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._content = response.content
        self._buffer = bytearray()
        self._searched = 0

    def __aiter__(self) -> Messages:
        return self

    async def __anext__(self) -> Any:
        """The next message's result. Raises Unavailable, EtcdError."""
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            if self._searched > LONGEST_MESSAGE:
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
    with _named(config.cafile):
        context = ssl.create_default_context(cafile=config.cafile)
    if config.certfile is not None:
        with _named(config.certfile), _named(config.keyfile):
            context.load_cert_chain(config.certfile, config.keyfile)
    return context


@contextmanager
def _named(file: Path | None) -> Iterator[None]:
    """Put a file's name into errors of ssl's, which have none."""
    if file is not None:
        file.open("rb").close()
    try:
        yield
    except ssl.SSLError as error:
        raise OSError(f"{file}: {error}") from error


_GRPC_UNAVAILABLE = (1, 4, 14)  # Canceled, DeadlineExceeded, Unavailable


def _refusal(status: int, body: bytes) -> StorageError:
    """The error in an answer, as etcd 3.4, 3.5 and 3.6 write it."""
    try:
        found = orjson.loads(body)
        found = found["error"] if isinstance(found.get("error"), dict) else found
        code = int(found.get("code") or found.get("grpc_code") or 2)
        message = str(found.get("message") or found.get("error") or "")
    except (ValueError, TypeError, KeyError, AttributeError):
        return Unavailable(f"etcd: HTTP status {status}")
    if code in _GRPC_UNAVAILABLE:
        return Unavailable(f"etcd: {message}")
    return EtcdError(code, message)


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
