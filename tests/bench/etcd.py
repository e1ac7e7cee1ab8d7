"""The CPU cost of a call of etcd in the calling process, for several clients.

    python -m tests.bench.etcd

CPU microseconds of the client alone: for a get, for a put whose event arrives on a watch, for a key
of a range over 10,000, and for an event of a watch that replays 10,000. Values have 1 KB. The
clients: etcd3-py with its models, etcd3-py's call_rpc with orjson, the store of kapiserver, and
native gRPC if grpcio is installed. `KAPISERVER_TEST_ETCD` selects another binary of etcd.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
import warnings
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

import orjson

from kapiserver.storage.etcd.config import EtcdConfig
from kapiserver.storage.etcd.store import open_etcd
from kapiserver.storage.kv import KVEvent, Revision
from tests.storage.etcd_server import Member, programs, version

KEYS = 10_000
PREFIX = "/bench/"
END = "/bench0"
VALUE = bytes(range(256)) * 4


class EtcdClient(Protocol):
    """One way to call etcd. Results are decoded: keys and values are bytes or str."""

    async def get(self, key: str) -> object:
        """Read one key."""

    async def put(self, key: str) -> None:
        """Write one key, and wait for its event."""

    async def range(self) -> int:
        """Read all keys; return their number."""

    async def replay(self, after: int) -> int:
        """Read every event since a revision; return their number."""


class Store:
    """The store of kapiserver."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __aenter__(self) -> Store:
        self._store = await open_etcd(EtcdConfig(endpoints=(self._url,), root="/bench"))
        self._seen: asyncio.Queue[KVEvent] = asyncio.Queue()
        self._live = self._store.watch(
            PREFIX, after=await self._store.current_revision(), sink=_Sink(self._seen)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._store.close()

    async def get(self, key: str) -> object:
        return await self._store.get(key)

    async def put(self, key: str) -> None:
        await self._store.create(key, VALUE)
        await self._seen.get()

    async def range(self) -> int:
        return len((await self._store.range(PREFIX)).items)

    async def replay(self, after: int) -> int:
        events: asyncio.Queue[KVEvent] = asyncio.Queue()
        watch = self._store.watch(PREFIX, after=Revision(after), sink=_Sink(events))
        for _ in range(KEYS):
            await events.get()
        watch.cancel()
        return KEYS


class _Sink:
    def __init__(self, events: asyncio.Queue[KVEvent]) -> None:
        self._seen = events

    def on_events(self, batch: Sequence[KVEvent]) -> None:
        for event in batch:
            self._seen.put_nowait(event)

    def on_progress(self, revision: Revision) -> None:
        pass

    def on_closed(self, error: Exception | None) -> None:
        pass


class Models:
    """etcd3-py as in its documentation."""

    def __init__(self, url: str) -> None:
        self._where = urlsplit(url)

    async def __aenter__(self) -> Models:
        from etcd3 import AioClient

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._client = AioClient(self._where.hostname, self._where.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def get(self, key: str) -> object:
        return await self._client.range(key)

    async def put(self, key: str) -> None:
        await self._client.put(key, VALUE)

    async def range(self) -> int:
        return len((await self._client.range(PREFIX, END)).kvs)

    async def replay(self, after: int) -> int:
        count = 0
        request = self._client.watch_create(PREFIX, END, start_revision=after + 1)
        async with asyncio.timeout(5), request as stream:
            async for response in stream:
                count += len(response.events or ())
                if count >= KEYS:
                    break
        return count


class Raw(Models):
    """etcd3-py's call_rpc with orjson."""

    async def __aenter__(self) -> Raw:
        await super().__aenter__()
        self._client.headers["connection"] = "keep-alive"
        self._live = self._watch(0)
        await anext(self._live)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._live.aclose()
        await super().__aexit__()

    async def _call(self, method: str, body: object) -> Any:
        async with self._client.call_rpc(method, orjson.dumps(body), raw=True) as response:
            return orjson.loads(await response.read())

    async def get(self, key: str) -> object:
        (pair,) = (await self._call("/kv/range", {"key": _text(key)}))["kvs"]
        return b64decode(pair["key"]), b64decode(pair["value"])

    async def put(self, key: str) -> None:
        await self._call("/kv/put", {"key": _text(key), "value": b64encode(VALUE).decode()})
        await anext(self._live)

    async def range(self) -> int:
        response = await self._call("/kv/range", {"key": _text(PREFIX), "range_end": _text(END)})
        return len([(b64decode(kv["key"]), b64decode(kv["value"])) for kv in response["kvs"]])

    async def replay(self, after: int) -> int:
        count = 0
        async for events in self._watch(after + 1):
            count += events
            if count >= KEYS:
                break
        return count

    async def _watch(self, start: int) -> AsyncIterator[int]:
        """The number of events of each message."""
        request = {"key": _text(PREFIX), "range_end": _text(END), "start_revision": str(start)}
        body = orjson.dumps({"create_request": request})
        async with self._client.call_rpc("/watch", body, raw=True) as response:
            buffer = b""
            async for chunk in response.content.iter_any():
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    events = orjson.loads(line)["result"].get("events", ())
                    pairs = [event_item["kv"] for event_item in events]
                    yield len([(b64decode(p["key"]), b64decode(p["value"])) for p in pairs])


class Grpc:
    """Native gRPC, with messages decoded by protobuf's C implementation."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url).netloc

    async def __aenter__(self) -> Grpc:
        import grpc.aio

        self._channel = grpc.aio.insecure_channel(
            self._target, options=[("grpc.max_receive_message_length", -1)]
        )
        self._messages = _messages()
        self._range = self._unary("KV/Range", "RangeRequest", "RangeResponse")
        self._put = self._unary("KV/Put", "PutRequest", "PutResponse")
        self._live = self._watch(0)
        await self._live.read()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._live.cancel()
        await self._channel.close()

    def _unary(self, method: str, request_type: str, response_type: str) -> Any:
        request = self._messages[request_type]
        call = self._channel.unary_unary(
            f"/etcdserverpb.{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=self._messages[response_type].FromString,
        )
        return lambda **fields: call(request(**fields))

    async def get(self, key: str) -> object:
        (pair,) = (await self._range(key=key.encode())).kvs
        return pair.key, pair.value

    async def put(self, key: str) -> None:
        await self._put(key=key.encode(), value=VALUE)
        await self._live.read()

    async def range(self) -> int:
        response = await self._range(key=PREFIX.encode(), range_end=END.encode())
        return len([(pair.key, pair.value) for pair in response.kvs])

    async def replay(self, after: int) -> int:
        stream, count = self._watch(after + 1), 0
        while count < KEYS:
            events = (await stream.read()).events
            count += len([(event.kv.key, event.kv.value) for event in events])
        stream.cancel()
        return count

    def _watch(self, start: int) -> Any:
        create = self._messages["WatchCreateRequest"](
            key=PREFIX.encode(), range_end=END.encode(), start_revision=start
        )
        request = self._messages["WatchRequest"](create_request=create)
        watch = self._channel.stream_stream(
            "/etcdserverpb.Watch/Watch",
            request_serializer=self._messages["WatchRequest"].SerializeToString,
            response_deserializer=self._messages["WatchResponse"].FromString,
        )
        stream = watch()
        self._writing = asyncio.ensure_future(stream.write(request))
        return stream


_FIELDS = {
    "KeyValue": {"key": (1, "bytes"), "mod_revision": (3, "int64"), "value": (5, "bytes")},
    "RangeRequest": {"key": (1, "bytes"), "range_end": (2, "bytes")},
    "RangeResponse": {"kvs": (2, "KeyValue")},
    "PutRequest": {"key": (1, "bytes"), "value": (2, "bytes")},
    "PutResponse": {},
    "WatchCreateRequest": {
        "key": (1, "bytes"), "range_end": (2, "bytes"), "start_revision": (3, "int64"),
    },
    "WatchRequest": {"create_request": (1, "WatchCreateRequest")},
    "Event": {"type": (1, "int64"), "kv": (2, "KeyValue")},
    "WatchResponse": {"events": (11, "Event")},
}  # fmt: skip
_REPEATED_FIELDS = ("kvs", "events")


def _messages() -> dict[str, Any]:
    """The part of etcd's rpc.proto that is needed here."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="bench.proto", package="bench", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    plain = {"bytes": kinds.TYPE_BYTES, "int64": kinds.TYPE_INT64}
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


def _text(key: str) -> str:
    return b64encode(key.encode()).decode()


async def _cost(work: Callable[[], Awaitable[object]]) -> float:
    """CPU microseconds of this process."""
    start = time.process_time()
    await work()
    return (time.process_time() - start) * 1e6


async def measure(
    store: EtcdClient, name: str, calls: int, revision: int
) -> dict[str, float | None]:
    """The figures of one client; None for calls that fail."""

    async def gets() -> None:
        for number in range(calls):
            await store.get(f"{PREFIX}{number:06}")

    async def puts() -> None:
        for number in range(calls):
            await store.put(f"{PREFIX}{name}-{number}")

    async def all_keys() -> None:
        assert await store.range() >= KEYS

    async def all_events() -> None:
        assert await store.replay(revision) >= KEYS

    workloads = {"get": gets, "put": puts, "range": all_keys, "replay": all_events}
    costs: dict[str, float | None] = {}
    for work_name, work in workloads.items():
        try:
            async with asyncio.timeout(120):
                cost = await _cost(work)
            costs[work_name] = cost / (calls if work_name in ("get", "put") else KEYS)
        except Exception:
            costs[work_name] = None
    return costs


@asynccontextmanager
async def _filled(url: str) -> AsyncIterator[int]:
    """A store with 10,000 keys, and the revision before them."""
    async with Store(url) as store:
        revision = await store._store.current_revision()
        for first in range(0, KEYS, 50):
            names = [f"{PREFIX}{number:06}" for number in range(first, first + 50)]
            await asyncio.gather(*(store.put(name) for name in names))
    yield revision


async def main(calls: int) -> None:
    etcd = programs()[0]
    member = Member(etcd=etcd)
    member.start()
    member.wait()
    store_classes = {
        "etcd3-py, its models": Models,
        "etcd3-py, call_rpc": Raw,
        "kapiserver": Store,
        "grpc.aio": Grpc,
    }
    print(f"etcd {version(etcd)}; CPU us of the client; range and replay: a key, an event")
    print(f"{'':22}{'get':>10}{'put':>10}{'range':>10}{'replay':>10}")
    try:
        async with _filled(member.url) as revision:
            for name, store_class in store_classes.items():
                with contextlib.suppress(ImportError):
                    async with store_class(member.url) as opened:  # type: ignore[attr-defined]
                        costs = await measure(opened, name.replace(" ", ""), calls, revision)
                    cells = [
                        f"{figure:10.1f}" if figure else f"{'fails':>10}"
                        for figure in costs.values()
                    ]
                    print(f"{name:22}{''.join(cells)}", flush=True)
    finally:
        member.remove()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main(parser.parse_args().calls))
