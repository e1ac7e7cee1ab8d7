"""A group made at run time, whose calls do what a test needs, and clients of sockets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

from kapiserver.rpc.calls import GroupRunner, Limits
from kapiserver.rpc.loading import load_groups
from kapiserver.rpc.registration import Call, Group, Method, RPCError, Version
from kapiserver.rpc.serving import Addresses, Listening, serve_rpc

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples" / "rpc"

LIMITS = Limits()

CALLS = {
    "Echo": (False, False),
    "Fail": (False, False),
    "Wait": (False, False),
    "Block": (False, False),
    "Count": (False, True),
    "CountInThread": (False, True),
    "Sum": (True, False),
    "Double": (True, True),
    "Missing": (False, False),
}


def dummy() -> Group:
    """The group of the document, from the examples."""
    (group,) = (group for group in load_groups(EXAMPLES) if group.name == "dummy")
    return group


def _message(pool: descriptor_pool.DescriptorPool, name: str) -> type[Any]:
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def probe(server_class: Any = None, *, deprecated: bool = False) -> Group:
    """A group with the calls of `Probe`, whose messages are also the internal ones."""
    file = descriptor_pb2.FileDescriptorProto(
        name="probe/v1/api.proto", package="probe.v1", syntax="proto3"
    )
    for name in ("ProbeRequest", "ProbeResponse"):
        message = file.message_type.add(name=name)
        message.field.add(name="text", number=1, type=Field.TYPE_STRING, label=1, json_name="text")
        message.field.add(
            name="number", number=2, type=Field.TYPE_INT64, label=1, json_name="number"
        )
        old = message.field.add(
            name="old", number=3, type=Field.TYPE_BOOL, label=1, json_name="old"
        )
        old.options.deprecated = True
    service = file.service.add(name="Probe")
    for name, (client_streaming, server_streaming) in CALLS.items():
        service.method.add(
            name=name,
            input_type=".probe.v1.ProbeRequest",
            output_type=".probe.v1.ProbeResponse",
            client_streaming=client_streaming,
            server_streaming=server_streaming,
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    request, response = (
        _message(pool, f"probe.v1.Probe{part}") for part in ("Request", "Response")
    )
    methods = tuple(
        Method(
            name=name,
            request=request,
            response=response,
            internal_request=request,
            internal_response=response,
            to_internal=lambda message: message,
            from_internal=lambda fields: response(**fields),
            server_method="".join(f"_{c.lower()}" if c.isupper() else c for c in name)[1:],
            client_streaming=client_streaming,
            server_streaming=server_streaming,
            deprecated=deprecated,
            deprecated_fields=frozenset({"probe.v1.ProbeRequest.old"}),
        )
        for name, (client_streaming, server_streaming) in CALLS.items()
    )
    version = Version(
        name="v1",
        package="probe.v1",
        service="Probe",
        file_descriptor=pool.FindFileByName("probe/v1/api.proto"),
        methods=methods,
        deprecated=deprecated,
    )
    return Group(
        name="probe", project="test", versions=(version,), server_class=server_class or Probe
    )


class Probe:
    """The implementation; `entered` is set when a call waits, `blocked` when one blocks a thread,
    and `release` ends the wait."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.blocked = threading.Event()
        self.release = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.calls: list[Call] = []

    async def echo(self, request: Any, call: Call) -> dict[str, Any]:
        self.calls.append(call)
        return {"text": request.text, "number": request.number}

    async def fail(self, request: Any, call: Call) -> dict[str, Any]:
        if request.text == "RPCError":
            detail = wrappers_pb2.StringValue(value="detail")
            raise RPCError("NOT_FOUND", "there is none", [detail])
        error: Exception = {
            "bad code": RPCError("NO_CODE", "?"),
            "timeout": TimeoutError("secret"),
            "unexpected": ValueError("secret"),
        }[request.text]
        raise error

    async def wait(self, request: Any, call: Call) -> dict[str, Any]:
        self.entered.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return {"text": "waited"}

    def block(self, request: Any, call: Call) -> dict[str, Any]:
        if request.number:  # until the process ends
            self.blocked.set()
            threading.Event().wait()
        return {"text": f"{request.text} in a thread"}

    async def count(self, request: Any, call: Call) -> AsyncIterator[dict[str, Any]]:
        for number in range(request.number):
            yield {"number": number}
        if request.text:
            raise RPCError("ABORTED", request.text)

    def count_in_thread(self, request: Any, call: Call) -> Iterator[dict[str, Any]]:
        for number in range(request.number):
            yield {"number": number}

    async def sum(self, requests: Any, call: Call) -> dict[str, Any]:
        return {"number": sum([request.number async for request in requests])}

    async def double(self, requests: Any, call: Call) -> AsyncIterator[dict[str, Any]]:
        async for request in requests:
            yield {"number": 2 * request.number}


@asynccontextmanager
async def served(
    folder: Path, groups: Sequence[Group], *, limits: Limits = LIMITS, grace: float = 5
) -> AsyncIterator[Listening]:
    """The sockets of groups in a folder."""
    runners = [GroupRunner(group, limits) for group in groups]
    addresses = Addresses(socket_dir=folder)
    async with serve_rpc(runners, addresses, grace=grace) as listening:
        yield listening


class Client:
    """Calls one version by its registration."""

    def __init__(self, channel: grpc.aio.Channel, version: Version) -> None:
        self._channel = channel
        self._version = version
        self._methods = {method.name: method for method in version.methods}

    def call(self, name: str, **options: Any) -> Any:
        """The multi-callable of a call."""
        method = self._methods[name]
        kind = "_".join(
            "stream" if streams else "unary"
            for streams in (method.client_streaming, method.server_streaming)
        )
        make = getattr(self._channel, kind)
        return make(
            f"/{self._version.full_service}/{name}",
            method.request.SerializeToString,
            method.response.FromString,
            **options,
        )

    def request(self, name: str, **fields: Any) -> Any:
        """A request of a call."""
        return self._methods[name].request(**fields)

    def __call__(self, name: str, *, timeout: float | None = 20, **fields: Any) -> Any:
        return self.call(name)(self.request(name, **fields), timeout=timeout)


@asynccontextmanager
async def connected(path: Path, version: Version) -> AsyncIterator[Client]:
    """A client of a socket."""
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        yield Client(channel, version)


@asynccontextmanager
async def probe_client(
    folder: Path, implementation: Any = None, *, deprecated: bool = False, **options: Any
) -> AsyncIterator[Client]:
    """A client of a served probe group."""
    server_class = (lambda: implementation) if implementation is not None else Probe
    group = probe(server_class, deprecated=deprecated)
    async with (
        served(folder, [group], **options) as listening,
        connected(listening.sockets[0], group.versions[0]) as client,
    ):
        yield client


def renamed(group: Group, **changes: Any) -> Group:
    """The group with other names."""
    return replace(group, **changes)
