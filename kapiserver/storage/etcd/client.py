"""The client of an etcd cluster: chooses the endpoint, logs in, and tries again.

The transport (`grpc.py` or `gateway.py`) moves messages to one endpoint. Knows no key and no
revision.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

from kapiserver.storage.errors import OutcomeUnknown, Unavailable
from kapiserver.storage.etcd.config import EtcdConfig
from kapiserver.storage.etcd.tls import tls_context
from kapiserver.storage.etcd.transport import (
    CALL_SECONDS,
    Call,
    EtcdError,
    MessageStream,
    RequestNotSent,
    ResponseLost,
    Transport,
)

ALL_ENDPOINTS_SECONDS = 2 * CALL_SECONDS
"""Timeout of a call to all endpoints, if none responds."""
TRANSIENT_RETRY_SECONDS = 5.0
"""How long to retry while the cluster reports a transient refusal."""
PAUSE_SECONDS = 0.05

_LOGIN_ERRORS = ("invalid auth token", "revision of auth store is old", "user name is empty")
"""Errors after which the client logs in again."""
_AUTH_DISABLED = "authentication is not enabled"
_REFUSALS = (
    "etcdserver: no leader",
    "etcdserver: not leader",
    "etcdserver: too many requests",
)
"""Transient refusals before anything was written."""
_READ_REFUSALS = (*_REFUSALS, "etcdserver: leader changed")
"""Transient refusals of reads. A leader that has changed may have made a write."""

T = TypeVar("T")


class _NotProcessed(Exception):
    """The request was not processed: no connection, or a refusal; `transient` if a retry may
    succeed."""

    def __init__(self, text: str, *, transient: bool = False) -> None:
        super().__init__(text)
        self.transient = transient


class _Rules(NamedTuple):
    """What the client does about failures of a call.

    refusals    after which it tries again
    no_answer   raised if the request was sent and not answered
    """

    refusals: Sequence[str]
    no_answer: type[Unavailable] = Unavailable


_READ = _Rules(_READ_REFUSALS)
_WRITE = _Rules(_REFUSALS, OutcomeUnknown)
_LOGIN = _Rules(_REFUSALS)


def open_transport(config: EtcdConfig) -> Transport:
    """Return the transport that the configuration selects. Raises OSError for certificate files
    that cannot be read."""
    tls = tls_context(config)
    if config.transport == "gateway":
        from kapiserver.storage.etcd.gateway import GatewayTransport

        return GatewayTransport(tls, config.prefix)
    from kapiserver.storage.etcd.grpc import GrpcTransport

    return GrpcTransport(tls, config.prefix)


class EtcdClient:
    """The client of a cluster. Calls raise Unavailable in bounded time if no endpoint responds,
    EtcdError for a refusal, and Corrupt for an invalid response."""

    def __init__(self, config: EtcdConfig) -> None:
        """Open the transport. Raises OSError for certificate files that cannot be read."""
        self._config = config
        self._transport = open_transport(config)
        self.codec = self._transport.codec
        self._endpoint_index = 0
        self._endpoint = config.endpoints[0]
        self._token: str | None = None
        self._login_lock = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._streams: dict[MessageStream, str] = {}

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        await self._transport.close()

    def read(self, call: Call[T]) -> Coroutine[object, object, T]:
        """Call a method that writes nothing. Tries every endpoint within the timeout."""
        return self._call_endpoints(call, _READ, (Unavailable, _NotProcessed))

    def write(self, call: Call[T]) -> Coroutine[object, object, T]:
        """Call a method that writes. Tries another endpoint only if this one certainly did not
        process the request. Raises OutcomeUnknown if it may have, and did not answer."""
        return self._call_endpoints(call, _WRITE, (_NotProcessed,))

    @asynccontextmanager
    async def stream(self, call: Call[T]) -> AsyncGenerator[AsyncIterator[Sequence[T]]]:
        """Open a stream and yield its responses, those together that arrive together. Raises
        Unavailable, EtcdError, Corrupt."""
        endpoint = self._endpoint
        try:
            if self._token is None and self._config.username:
                await self._log_in(None)
            endpoint = self._endpoint
            opening = self._transport.stream(endpoint, call.method, call.message, self._token or "")
            async with opening as stream:
                self._streams[stream] = endpoint
                try:
                    yield (
                        [call.decode(message) for message in messages] async for messages in stream
                    )
                finally:
                    del self._streams[stream]
        except EtcdError as error:
            if any(text in error.message for text in _LOGIN_ERRORS):
                self.drop_token()
            raise
        except _NotProcessed as error:
            raise Unavailable(f"etcd: {error}") from error
        except (RequestNotSent, ResponseLost) as error:
            self._next_endpoint(endpoint)
            raise Unavailable(f"etcd: {error}") from error

    def drop_token(self) -> None:
        """Log in again before the next request; watches do not report an expired token."""
        self._token = None

    async def _call_endpoints(
        self,
        call: Call[T],
        rules: _Rules,
        retry_on: tuple[type[Exception], ...],
    ) -> T:
        """Try every endpoint after an error of `retry_on`, and repeat while it is transient."""
        start = self._loop.time()
        endpoints_left = len(self._config.endpoints)
        attempt = self._call_authenticated if self._config.username else self._call
        while True:
            try:
                return await attempt(call, rules)
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

    async def _call_authenticated(self, call: Call[T], rules: _Rules) -> T:
        """Log in if that is necessary, and again if etcd asks for it."""
        if self._token is None:
            await self._log_in(None)
        token = self._token
        try:
            return await self._call(call, rules)
        except EtcdError as error:
            if not any(text in error.message for text in _LOGIN_ERRORS):
                raise
            await self._log_in(token)
        return await self._call(call, rules)

    async def _log_in(self, old_token: str | None) -> None:
        """Get a token, unless a concurrent call did."""
        async with self._login_lock:
            if self._token not in (None, old_token):
                return
            self._token = None
            login = self.codec.authenticate(self._config.username, self._password())
            try:
                self._token = await self._call(login, _LOGIN)
            except EtcdError as error:
                if _AUTH_DISABLED not in error.message:
                    raise
                self._token = ""  # authentication is disabled, until a call is refused for it

    def _password(self) -> str:
        """Return the password. It is read from the file each time, because it may change."""
        if self._config.password_file is None:
            return ""
        try:
            return self._config.password_file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeError) as error:
            raise Unavailable(f"etcd: no password: {error}") from error

    async def _call(self, call: Call[T], rules: _Rules) -> T:
        endpoint = self._endpoint
        try:
            response = await self._transport.call(
                endpoint, call.method, call.message, self._token or ""
            )
        except RequestNotSent as error:
            self._next_endpoint(endpoint)
            raise _NotProcessed(str(error)) from error
        except ResponseLost as error:
            self._next_endpoint(endpoint)
            raise rules.no_answer(f"etcd: {error}") from error
        except Unavailable as error:
            self._next_endpoint(endpoint)
            if any(text in str(error) for text in rules.refusals):
                raise _NotProcessed(str(error).removeprefix("etcd: "), transient=True) from error
            raise rules.no_answer(str(error)) from error
        except EtcdError as error:
            if any(text in str(error) for text in rules.refusals):
                self._next_endpoint(endpoint)
                raise _NotProcessed(str(error), transient=True) from error
            raise
        return call.decode(response)

    def _next_endpoint(self, failed: str) -> None:
        """Use the next endpoint from now on, unless a concurrent call switched already."""
        if self._endpoint != failed:
            return
        self._endpoint_index = (self._endpoint_index + 1) % len(self._config.endpoints)
        self._endpoint = self._config.endpoints[self._endpoint_index]
        if self._endpoint != failed:  # its streams may hang
            for stream, endpoint in tuple(self._streams.items()):
                if endpoint == failed:
                    stream.close()
