"""Calls of a KMS plugin: gRPC over a Unix socket.

grpcio calls back in a thread of its own; each call is handed to the event loop as a future, so that
nothing waits in a thread and several loops of one process may each have clients. `grpc.aio` has one
poller for all loops of a process, which logs errors then. Mirrors grpc_service.go of
apiserver/pkg/storage/value/encrypt/envelope/kmsv2. Import this module only if a KMS provider is
configured: it loads grpcio, of the extra `kms`.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

import grpc

from kapiserver.spans import trace_headers
from kapiserver.storage.encryption.kms_messages import (
    InvalidMessage,
    KeySource,
    StatusResponse,
    decode_decrypt_response,
    decode_encrypt_response,
    decode_status_response,
    encode_decrypt_request,
    encode_encrypt_request,
)
from kapiserver.storage.encryption.kms_provider import KMSError
from kapiserver.storage.encryption.metrics import EncryptionMetrics, KMSCall

_SERVICE = "/v2.KeyManagementService/"
_MAX_MESSAGE_BYTES = 1 << 20
_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    # Providers with the same socket have connections of their own, which `close` ends.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 3000),
)

Response = TypeVar("Response")


class KMSClient:
    """The connection to the plugin of one provider."""

    def __init__(
        self, name: str, endpoint: str, timeout: float, metrics: EncryptionMetrics
    ) -> None:
        """Connect when the first call is made.

        endpoint    URL of the socket: unix:///run/kms.sock, or unix:///@name for an abstract one
        timeout     seconds of a call, including those until the plugin accepts connections
        """
        self._name = name
        self._timeout = timeout
        self._metrics = metrics
        self._channel = grpc.insecure_channel(_target(endpoint), options=_OPTIONS)

    async def status(self) -> StatusResponse:
        """Return the plugin's status. Raises KMSError."""
        return await self._call("Status", b"", decode_status_response)

    async def encrypt(self, plaintext: bytes) -> KeySource:
        """Encrypt a seed and return its source. Raises KMSError."""
        request = encode_encrypt_request(plaintext, str(uuid.uuid4()))
        return await self._call("Encrypt", request, decode_encrypt_response)

    async def decrypt(self, source: KeySource) -> bytes:
        """Return the key or seed of a source. Raises KMSError."""
        request = encode_decrypt_request(source, str(uuid.uuid4()))
        return await self._call("Decrypt", request, decode_decrypt_response)

    def close(self) -> None:
        """End the connection and all calls. Idempotent."""
        self._channel.close()

    async def _call(
        self, method: str, request: bytes, decode: Callable[[bytes], Response]
    ) -> Response:
        path = _SERVICE + method
        started = time.perf_counter()
        code = "OK"
        try:
            return decode(await self._respond(path, request))
        except grpc.RpcError as error:
            code = _go_code(error.code())
            problem = f"rpc error: code = {code} desc = {error.details()}"
            raise KMSError(problem, code) from None
        except InvalidMessage as error:
            raise KMSError(str(error)) from None
        finally:
            labels = KMSCall(self._name, path, code)
            self._metrics.call_seconds.observe(labels, time.perf_counter() - started)

    async def _respond(self, path: str, request: bytes) -> bytes:
        """Return the message of the response. Raises grpc.RpcError, KMSError if it is closed."""
        loop = asyncio.get_running_loop()
        response: asyncio.Future[bytes] = loop.create_future()
        send: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(path)
        try:
            call = send.future(
                request, timeout=self._timeout, metadata=trace_headers(), wait_for_ready=True
            )
        except ValueError as error:  # the channel is closed
            raise KMSError(str(error)) from None

        def finish() -> None:
            if response.done():
                return
            try:
                response.set_result(call.result())
            except grpc.FutureCancelledError:
                response.set_exception(KMSError("the connection to the KMS plugin was closed"))
            except grpc.RpcError as error:
                response.set_exception(error)

        def on_done(_call: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(finish)

        call.add_done_callback(on_done)
        try:
            return await response
        finally:
            call.cancel()


def _target(endpoint: str) -> str:
    path = urlsplit(endpoint).path
    if path.startswith("/@"):
        return f"unix-abstract:{path[2:]}"
    return f"unix:{path}"


def _go_code(code: grpc.StatusCode) -> str:
    """Return the name of a status code in Go, such as DeadlineExceeded."""
    if code is grpc.StatusCode.CANCELLED:
        return "Canceled"
    return "".join(word.capitalize() for word in code.name.split("_"))
