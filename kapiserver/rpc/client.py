"""Clients that negotiate the version of a group, and call it with internal types.

The generator writes a subclass of NegotiatedClient for each group.
"""

from __future__ import annotations

import dataclasses
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

import grpc.aio
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2

from kapiserver.rpc.registration import ConversionError, RPCError

OpenChannel: TypeAlias = Callable[[str], grpc.aio.Channel]
"""Returns a channel to a version, such as v1."""


class CallOptions(TypedDict, total=False):
    """Options of each call: seconds until it fails with DEADLINE_EXCEEDED, and metadata."""

    timeout: float
    metadata: Sequence[tuple[str, str | bytes]]


_HEALTH = "/grpc.health.v1.Health/Check"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallConversion:
    """How one call of one version is converted.

    to_pb, from_pb  convert a request from its internal type and back
    response        protobuf class
    to_internal     converts a response
    """

    to_pb: Callable[[Any], Message]
    from_pb: Callable[[Any], Any]
    response: type[Message]
    to_internal: Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionConversion:
    """One version: its name, the full name of its service, and its calls by name."""

    name: str
    service: str
    calls: Mapping[str, CallConversion]


def unix_sockets(socket_dir: str | Path, project: str, group: str) -> OpenChannel:
    """Return a function that opens channels to the Unix sockets of a group."""
    directory = Path(socket_dir).absolute()
    return lambda version: grpc.aio.insecure_channel(
        f"unix:{directory / f'{project}-{group}-{version}.sock'}"
    )


@asynccontextmanager
async def negotiate(
    open_channel: OpenChannel, versions: Iterable[VersionConversion], connect_timeout: float
) -> AsyncIterator[tuple[VersionConversion, grpc.aio.Channel]]:
    """Yield the first version that the server serves, and a channel to it. The health service at
    the endpoint of each version says whether it is served. Raises ConnectionError if none is served
    within the timeout, in seconds for each version."""
    errors = []
    for version in versions:
        async with open_channel(version.name) as channel:
            error = await _health_error(channel, version.service, connect_timeout)
            if not error:
                yield version, channel
                return
            errors.append(f"{version.name}: {error}")
    raise ConnectionError(f"no version is served: {'; '.join(errors)}")


async def _health_error(channel: grpc.aio.Channel, service: str, seconds: float) -> str:
    """Return why a service is not served, or ""."""
    check = channel.unary_unary(
        _HEALTH,
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )
    try:
        response = await check(health_pb2.HealthCheckRequest(service=service), timeout=seconds)
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name}: {error.details()}"
    serving = health_pb2.HealthCheckResponse.SERVING
    return "" if response.status == serving else f"its health is {response.status}"


class NegotiatedClient:
    """Calls one version of a group with internal types.

    A call raises grpc.aio.AioRpcError for an error of the server, RPCError with UNIMPLEMENTED if
    the version does not have it, and ConversionError for a request that the version cannot
    represent.
    """

    def __init__(self, version: VersionConversion, channel: grpc.aio.Channel) -> None:
        self.version = version.name
        self._version = version
        self._channel = channel

    async def _unary_unary(self, name: str, request: Any, options: CallOptions) -> Any:
        call = self._conversion(name)
        send = self._channel.unary_unary(self._path(name), *_serializers(call))
        message = _to_pb(call, request)
        return call.to_internal(await send(message, **options))

    async def _unary_stream(
        self, name: str, request: Any, options: CallOptions
    ) -> AsyncIterator[Any]:
        call = self._conversion(name)
        send = self._channel.unary_stream(self._path(name), *_serializers(call))
        message = _to_pb(call, request)
        async for response in send(message, **options):
            yield call.to_internal(response)

    async def _stream_unary(
        self, name: str, requests: AsyncIterable[Any], options: CallOptions
    ) -> Any:
        call = self._conversion(name)
        send = self._channel.stream_unary(self._path(name), *_serializers(call))
        stream = _RequestStream(call, requests)
        try:
            response = await send(stream.messages(), **options)
        except BaseException as error:
            raise stream.error or error from None
        return call.to_internal(response)

    async def _stream_stream(
        self, name: str, requests: AsyncIterable[Any], options: CallOptions
    ) -> AsyncIterator[Any]:
        call = self._conversion(name)
        send = self._channel.stream_stream(self._path(name), *_serializers(call))
        stream = _RequestStream(call, requests)
        try:
            async for response in send(stream.messages(), **options):
                yield call.to_internal(response)
        except BaseException as error:
            raise stream.error or error from None

    def _conversion(self, name: str) -> CallConversion:
        call = self._version.calls.get(name)
        if call is None:
            raise RPCError("UNIMPLEMENTED", f"version {self.version} has no call {name}")
        return call

    def _path(self, name: str) -> str:
        return f"/{self._version.service}/{name}"


class _RequestStream:
    """The requests of a stream as messages. gRPC hides the error that the iterator raises; `error`
    keeps it."""

    def __init__(self, call: CallConversion, requests: AsyncIterable[Any]) -> None:
        self._call = call
        self._requests = requests
        self.error: Exception | None = None

    async def messages(self) -> AsyncIterator[Message]:
        try:
            async for request in self._requests:
                yield _to_pb(self._call, request)
        except Exception as error:
            self.error = error
            raise


def _serializers(call: CallConversion) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    return _serialize, call.response.FromString


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


def _to_pb(call: CallConversion, request: Any) -> Message:
    """Return a request as a message. Raises ConversionError if the version cannot represent a part
    of the request, which is then missing when the message is converted back."""
    message = call.to_pb(request)
    path = _difference(request, call.from_pb(message))
    if path:
        raise ConversionError(path, "this version cannot represent the value")
    return message


def _difference(value: Any, other: Any) -> str:
    """Return the path to the first difference between two dataclasses, or ""."""
    for field in dataclasses.fields(value):
        field_value, other_value = getattr(value, field.name), getattr(other, field.name)
        # Their representations are compared, because NaN is unequal to itself.
        if field_value != other_value and repr(field_value) != repr(other_value):
            if dataclasses.is_dataclass(field_value) and dataclasses.is_dataclass(other_value):
                return f"{field.name}.{_difference(field_value, other_value)}"
            return field.name
    return ""
