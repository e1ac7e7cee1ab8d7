"""Costs of calls of etcd, by client.

    python -m tests.bench.etcd --rounds 10

The clients take turns. For transactions that create values of 1.2 KB, at 1, 16 and 64 at a time:
calls a second, and CPU microseconds of the client and of etcd for each. For a range over 10,000
keys and a watch that replays 10,000 events: CPU microseconds of the client for each key or event.
The clients: the gRPC and the gateway transport of kapiserver, and grpc.aio with protobuf's classes
if grpcio is installed. etcd does not sync to disk. `KAPISERVER_TEST_ETCD` selects another binary.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any, Protocol

from kapiserver.storage.etcd.client import EtcdClient
from kapiserver.storage.etcd.config import EtcdConfig, EtcdTransport
from tests.bench.processes import cpu_seconds
from tests.storage.etcd_server import Member, programs, version

KEYS = 10_000
PREFIX, END = b"/bench/", b"/bench0"
VALUE = bytes(range(256)) * 5
CONCURRENCY = (1, 16, 64)
WARM_UP = 20

_numbers = itertools.count()


class Client(Protocol):
    """One way to call etcd. Results are decoded."""

    async def create(self, key: bytes) -> None:
        """Create a key by a transaction."""

    async def range(self) -> int:
        """Read all keys; return their number."""

    async def replay(self, start: int) -> int:
        """Watch from a revision on; return the number of events, at least KEYS."""

    async def close(self) -> None: ...


class Ours:
    """A transport of kapiserver."""

    def __init__(self, url: str, transport: EtcdTransport) -> None:
        self._client = EtcdClient(EtcdConfig(endpoints=(url,), transport=transport))
        self._codec = self._client.codec
        self.close = self._client.close

    async def create(self, key: bytes) -> None:
        response = await self._client.write(self._codec.put_if(key, VALUE, expected=0))
        assert response.succeeded

    async def range(self) -> int:
        return len((await self._client.read(self._codec.range(PREFIX, END))).items)

    async def replay(self, start: int) -> int:
        count = 0
        watch = self._codec.watch(PREFIX, END, start=start, previous=False)
        async with self._client.stream(watch) as batches:
            async for responses in batches:
                count += sum(len(response.events) for response in responses)
                if count >= KEYS:
                    break
        return count


class GrpcAio:
    """grpc.aio with protobuf's classes."""

    def __init__(self, url: str) -> None:
        import grpc.aio

        self._channel = grpc.aio.insecure_channel(
            url.removeprefix("http://"), options=[("grpc.max_receive_message_length", -1)]
        )
        self._types = _messages()
        self._txn = self._unary("Txn")
        self._range = self._unary("Range")

    def _unary(self, method: str) -> Any:
        return self._channel.unary_unary(
            f"/etcdserverpb.KV/{method}",
            request_serializer=self._types[f"{method}Request"].SerializeToString,
            response_deserializer=self._types[f"{method}Response"].FromString,
        )

    async def create(self, key: bytes) -> None:
        types = self._types
        read = types["RangeRequest"](key=key, keys_only=True)
        request = types["TxnRequest"](
            compare=[types["Compare"](target=2, key=key, mod_revision=0)],
            success=[types["RequestOp"](request_put=types["PutRequest"](key=key, value=VALUE))],
            failure=[types["RequestOp"](request_range=read)],
        )
        response = await self._txn(request, timeout=5)
        assert response.succeeded
        assert response.header.revision

    async def range(self) -> int:
        response = await self._range(self._types["RangeRequest"](key=PREFIX, range_end=END))
        return len([(pair.key, pair.value, pair.mod_revision) for pair in response.kvs])

    async def replay(self, start: int) -> int:
        watch = self._channel.stream_stream(
            "/etcdserverpb.Watch/Watch",
            request_serializer=self._types["WatchRequest"].SerializeToString,
            response_deserializer=self._types["WatchResponse"].FromString,
        )()
        create = self._types["WatchCreateRequest"](key=PREFIX, range_end=END, start_revision=start)
        await watch.write(self._types["WatchRequest"](create_request=create))
        count = 0
        while count < KEYS:
            events = (await watch.read()).events
            count += len([(event.kv.key, event.kv.value) for event in events])
        watch.cancel()
        return count

    async def close(self) -> None:
        await self._channel.close()


_FIELDS = {
    "KeyValue": {"key": (1, "bytes"), "mod_revision": (3, "int64"), "value": (5, "bytes")},
    "ResponseHeader": {"revision": (3, "int64")},
    "RangeRequest": {"key": (1, "bytes"), "range_end": (2, "bytes"), "keys_only": (8, "bool")},
    "RangeResponse": {"header": (1, "ResponseHeader"), "kvs": (2, "KeyValue")},
    "PutRequest": {"key": (1, "bytes"), "value": (2, "bytes")},
    "RequestOp": {"request_range": (1, "RangeRequest"), "request_put": (2, "PutRequest")},
    "Compare": {"target": (2, "int64"), "key": (3, "bytes"), "mod_revision": (6, "int64")},
    "TxnRequest": {
        "compare": (1, "Compare"), "success": (2, "RequestOp"), "failure": (3, "RequestOp"),
    },
    "TxnResponse": {"header": (1, "ResponseHeader"), "succeeded": (2, "bool")},
    "WatchCreateRequest": {
        "key": (1, "bytes"), "range_end": (2, "bytes"), "start_revision": (3, "int64"),
    },
    "WatchRequest": {"create_request": (1, "WatchCreateRequest")},
    "Event": {"type": (1, "int64"), "kv": (2, "KeyValue")},
    "WatchResponse": {"events": (11, "Event")},
}  # fmt: skip
_REPEATED_FIELDS = ("kvs", "events", "compare", "success", "failure")


def _messages() -> dict[str, Any]:
    """The part of etcd's rpc.proto that is needed here."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="bench.proto", package="bench", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    plain = {"bytes": kinds.TYPE_BYTES, "int64": kinds.TYPE_INT64, "bool": kinds.TYPE_BOOL}
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            field_proto = message.field.add(name=field, number=number)
            field_proto.label = (
                kinds.LABEL_REPEATED if field in _REPEATED_FIELDS else kinds.LABEL_OPTIONAL
            )
            field_proto.type = plain.get(kind, kinds.TYPE_MESSAGE)
            if kind not in plain:
                field_proto.type_name = f".bench.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"bench.{name}"))
        for name in _FIELDS
    }


CLIENTS: dict[str, Callable[[str], Client]] = {
    "kapiserver, gRPC": lambda url: Ours(url, "grpc"),
    "kapiserver, gateway": lambda url: Ours(url, "gateway"),
    "grpc.aio": GrpcAio,
}


async def creates(
    make: Callable[[str], Client], member: Member, count: int, seconds: float
) -> tuple[float, float, float]:
    """Create keys, `count` at a time: calls a second, CPU microseconds of client and etcd."""
    client = make(member.url)
    call_count = 0

    async def run(deadline: float) -> None:
        nonlocal call_count
        while time.perf_counter() < deadline:
            await client.create(b"/created/%d" % next(_numbers))
            call_count += 1

    for _ in range(WARM_UP):
        await client.create(b"/created/%d" % next(_numbers))
    start, own, etcd = time.perf_counter(), time.process_time(), cpu_seconds([member.pid])
    await asyncio.gather(*(run(start + seconds) for _ in range(count)))
    costs = (time.process_time() - own, cpu_seconds([member.pid]) - etcd)
    wall = time.perf_counter() - start
    await client.close()
    return call_count / wall, costs[0] / call_count * 1e6, costs[1] / call_count * 1e6


async def reads(make: Callable[[str], Client], member: Member, start: int) -> tuple[float, float]:
    """Read all keys and all events: CPU microseconds of the client for each."""
    client = make(member.url)
    begun = time.process_time()
    assert await client.range() == KEYS
    read = time.process_time()
    assert await client.replay(start) >= KEYS
    replayed = time.process_time()
    await client.close()
    return (read - begun) / KEYS * 1e6, (replayed - read) / KEYS * 1e6


async def fill(member: Member) -> int:
    """Create the keys of ranges; return the revision before them."""
    client = Ours(member.url, "grpc")
    start = (await client._client.write(client._codec.put(b"/first"))) + 1
    for first in range(0, KEYS, 50):
        keys = (PREFIX + b"%06d" % number for number in range(first, first + 50))
        await asyncio.gather(*map(client.create, keys))
    await client.close()
    return start


async def main(rounds: int, seconds: float) -> None:
    member = Member(etcd=programs()[0], flags=["--quota-backend-bytes=8589934592"])
    member.start()
    member.wait()
    try:
        start = await fill(member)
        print(f"etcd {version(programs()[0])}; medians of {rounds} rounds; CPU in us")
        titles = [f"{count} at a time: per s, client, etcd" for count in CONCURRENCY]
        print("| client |", " | ".join([*titles, "range, a key", "replay, an event"]), "|")
        figures: dict[str, list[list[float]]] = {name: [] for name in CLIENTS}
        for _ in range(rounds):
            rows: dict[str, list[float]] = {name: [] for name in CLIENTS}
            for count in CONCURRENCY:
                for name, make in CLIENTS.items():
                    rows[name] += await creates(make, member, count, seconds)
            for name, make in CLIENTS.items():
                figures[name].append([*rows[name], *await reads(make, member, start)])
        for name, columns in figures.items():
            medians = [statistics.median(column) for column in zip(*columns, strict=True)]
            groups = [medians[at : at + 3] for at in range(0, 9, 3)] + [[m] for m in medians[9:]]
            cells = (", ".join(f"{figure:,.1f}" for figure in group) for group in groups)
            print(f"| {name} |", " | ".join(cells), "|", flush=True)
    finally:
        member.remove()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one window")
    options = parser.parse_args()
    try:
        import grpc.aio  # noqa: F401 - whether it is there
    except ImportError:
        del CLIENTS["grpc.aio"]
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main(options.rounds, options.seconds))
