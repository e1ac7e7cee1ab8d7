"""The gRPC server of one version of a group: its service, health and reflection.

Imports grpcio, which the extra `rpc` installs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeAlias

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from kapiserver.apiserver.user import User
from kapiserver.codecs.protobuf.wire import (
    VARINT,
    encode_delimited,
    encode_tag,
    encode_varint,
)
from kapiserver.rpc.calls import GroupRunner, deprecation_warnings
from kapiserver.rpc.errors import CODES, rpc_error
from kapiserver.rpc.registration import Call, Method, RPCError, Version

_log = logging.getLogger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
UserOf: TypeAlias = Callable[[Context], User]
"""Returns the user of a call."""

WARNING = "warning"
"""The key of deprecations in trailing metadata."""
_STATUS_DETAILS = "grpc-status-details-bin"
_RESERVED_CALLS = 100
"""The number of calls of health and reflection that may run besides the calls of the group."""
_MAX_METADATA = 64 << 10
_MAX_MESSAGE = 2048
"""The maximum number of characters of an error; clients refuse more than 8 KB of metadata."""


def _is_of_server(record: logging.LogRecord) -> bool:
    """Report whether a record of grpcio is about the server. It logs a traceback if a client
    cancels its call while a message is sent, and before the cancellation has arrived."""
    error = record.exc_info[1] if record.exc_info else None
    return type(error).__name__ != "ExecuteBatchError"


logging.getLogger("grpc._cython.cygrpc").addFilter(_is_of_server)


class Endpoint:
    """Serves versions of groups on one address, each with its runner.

    user_of      returns the user of a call
    credentials  the credentials of TLS; None for a local socket
    """

    def __init__(
        self,
        services: Sequence[tuple[GroupRunner, Version]],
        user_of: UserOf,
        *,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self._services = services
        self._credentials = credentials
        limits = [runner.limits for runner, _ in services]
        size = max(limit.message_bytes for limit in limits)
        self._server = grpc.aio.server(
            maximum_concurrent_rpcs=sum(limit.calls for limit in limits) + _RESERVED_CALLS,
            options=(
                ("grpc.max_receive_message_length", size),
                ("grpc.max_send_message_length", size),
                ("grpc.max_metadata_size", _MAX_METADATA),
                ("grpc.so_reuseport", 0),
            ),
        )
        for runner, version in services:
            handlers = {
                method.name: _handler(_Handler(runner, version, method, user_of))
                for method in version.methods
            }
            self._server.add_registered_method_handlers(version.full_service, handlers)
            self._server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(version.full_service, handlers),)
            )
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._add_reflection()

    def _add_reflection(self) -> None:
        names = [version.full_service for _, version in self._services]
        names += [health.SERVICE_NAME, reflection.SERVICE_NAME]
        pool = self._services[0][1].file_descriptor.pool
        reflection.enable_server_reflection(names, self._server, pool=pool)

    async def start(self, address: str) -> int:
        """Listen on `unix:PATH` or `HOST:PORT` and return the port. Raises RuntimeError."""
        if self._credentials is None:
            port = self._server.add_insecure_port(address)
        else:
            port = self._server.add_secure_port(address, self._credentials)
        for name in ("", *(version.full_service for _, version in self._services)):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        await self._server.start()
        return port

    async def stop(self, grace: float) -> None:
        """Stop accepting calls, and cancel the calls that still run after `grace` seconds."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace)


class _Handler:
    """Serves one call of one version."""

    def __init__(
        self, runner: GroupRunner, version: Version, method: Method, user_of: UserOf
    ) -> None:
        self.runner = runner
        self.version = version
        self.method = method
        self.user_of = user_of
        self.full_name = f"{version.full_service}/{method.name}"

    async def unary(self, data: bytes, context: Context) -> bytes:
        """Return the response to a request."""
        try:
            request = self._parse(data)
            self._warn(request, context)
            call = self._call(context)
            response = await self.runner.run(self.version, self.method, request, call)
            return response.SerializeToString()
        except Exception as error:
            await self._abort(error, context)
            raise

    async def unary_stream(self, data: bytes, context: Context) -> AsyncIterator[bytes]:
        """Yield the responses to a request."""
        try:
            request = self._parse(data)
            self._warn(request, context)
            call = self._call(context)
            async for response in self.runner.stream(self.version, self.method, request, call):
                yield response.SerializeToString()
        except Exception as error:
            await self._abort(error, context)
            raise

    async def stream_unary(self, data: AsyncIterator[bytes], context: Context) -> bytes:
        """Return the response to a stream of requests."""
        try:
            self._warn(None, context)
            requests, call = self._parse_all(data), self._call(context)
            response = await self.runner.run(self.version, self.method, requests, call)
            return response.SerializeToString()
        except Exception as error:
            await self._abort(error, context)
            raise

    async def stream_stream(
        self, data: AsyncIterator[bytes], context: Context
    ) -> AsyncIterator[bytes]:
        """Yield the responses to a stream of requests."""
        try:
            self._warn(None, context)
            requests, call = self._parse_all(data), self._call(context)
            async for response in self.runner.stream(self.version, self.method, requests, call):
                yield response.SerializeToString()
        except Exception as error:
            await self._abort(error, context)
            raise

    def _parse(self, data: bytes) -> Message:
        try:
            return self.method.request.FromString(data)
        except DecodeError as error:
            raise RPCError("INVALID_ARGUMENT", f"the request is malformed: {error}") from None

    async def _parse_all(self, data: AsyncIterator[bytes]) -> AsyncIterator[Message]:
        async for item in data:
            yield self._parse(item)

    def _warn(self, request: Message | None, context: Context) -> None:
        warnings = deprecation_warnings(self.version, self.method, request)
        if warnings:
            context.set_trailing_metadata(tuple((WARNING, warning) for warning in warnings))

    def _call(self, context: Context) -> Call:
        remaining = context.time_remaining()
        now = asyncio.get_running_loop().time()
        return Call(
            version=self.version.name,
            method=self.method.name,
            user=self.user_of(context),
            deadline=None if remaining is None else now + remaining,
            metadata=dict(context.invocation_metadata() or ()),
        )

    async def _abort(self, error: Exception, context: Context) -> None:
        if isinstance(error, grpc.aio.AbortError):
            return
        answer = rpc_error(error, self.full_name)
        code = getattr(grpc.StatusCode, answer.code_name)
        metadata = tuple(context.trailing_metadata() or ())
        if answer.details:
            metadata = (*metadata, (_STATUS_DETAILS, _rich_status(answer)))
        await context.abort(code, answer.message[:_MAX_MESSAGE], metadata)


def _handler(handler: _Handler) -> grpc.RpcMethodHandler[Any, Any]:
    method = handler.method
    if method.client_streaming:
        if method.server_streaming:
            return grpc.stream_stream_rpc_method_handler(handler.stream_stream)
        return grpc.stream_unary_rpc_method_handler(handler.stream_unary)
    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(handler.unary_stream)
    return grpc.unary_unary_rpc_method_handler(handler.unary)


def _rich_status(error: RPCError) -> bytes:
    """Return a message google.rpc.Status: code, message and details."""
    encoded = encode_tag(1, VARINT) + encode_varint(CODES[error.code_name][0])
    encoded += encode_delimited(2, error.message.encode())
    for detail in error.details:
        packed = AnyMessage()
        packed.Pack(detail)
        encoded += encode_delimited(3, packed.SerializeToString())
    return encoded
