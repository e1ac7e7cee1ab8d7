"""Nothing stays in memory of objects that are deleted, of dry runs and of watches that end."""

import asyncio
import gc
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.flowcontrol import bootstrap
from kapiserver.app import RunningServer, serve
from kapiserver.controllers.loop import event_correlation
from kapiserver.storage.cache import watch_cache
from kapiserver.storage.objects import object_reader
from tests.e2e.every_kind import objects

JSON, MERGE, APPLY = (
    "application/json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
)
WARM_UP = 2
"""Rounds before the first count: tables of types are made when they are first needed."""
ROUNDS, MANY_ROUNDS = 3, 500
REPEATS = 4
"""Runs of the rounds, in each of which a leak must grow."""
GROUPS = 6
"""Tests that share the kinds of the slow test."""
TIMEOUT_SECONDS = 60

Tree = dict[str, Any]


class _Client:
    """One connection of the administrator."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, method: str, path: str, body: Tree | None = None, type: str = JSON) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {JSON}\r\n"
            f"Content-Type: {type}\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        self.writer.write(head.encode() + data)

    async def __call__(
        self, method: str, path: str, body: Tree | None = None, type: str = JSON
    ) -> Tree:
        status, content = await self.request(method, path, body, type)
        assert status in (200, 201), (method, path, content)
        tree: Tree = json.loads(content)
        return tree

    async def request(
        self, method: str, path: str, body: Tree | None = None, type: str = JSON
    ) -> tuple[int, bytes]:
        self.send(method, path, body, type)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        return int(head.split()[1]), await self._content(head)

    async def _content(self, head: str) -> bytes:
        _, has_length, length = head.partition("content-length: ")
        if has_length:
            return await self.reader.readexactly(int(length.split()[0]))
        content = b""
        while size := int(await self.reader.readline(), 16):
            content += (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readline()
        return content

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


@asynccontextmanager
async def _connection(port: int) -> AsyncIterator[_Client]:
    client = _Client(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))
    try:
        yield client
    finally:
        await client.close()


async def _collections(api: _Client) -> dict[tuple[str, str], str]:
    """The path of the collection of each version and kind."""
    groups = (await api("GET", "/apis"))["groups"]
    paths = {"v1": "/api/v1"} | {
        version["groupVersion"]: f"/apis/{version['groupVersion']}"
        for group in groups
        for version in group["versions"]
    }
    collections = {}
    for version, path in paths.items():
        for resource in (await api("GET", path))["resources"]:
            if "/" not in resource["name"]:
                scope = "/namespaces/default" if resource["namespaced"] else ""
                collections[version, resource["kind"]] = f"{path}{scope}/{resource['name']}"
    return collections


async def _replace(api: _Client, path: str) -> None:
    """Change an object with a PUT; repeat it when a controller has changed the object."""
    status = 409
    while status == 409:
        latest = await api("GET", path)
        latest["metadata"].setdefault("annotations", {})["round"] = "1"
        status, content = await api.request("PUT", path, latest)
    assert status == 200, content


async def _round(api: _Client, port: int, collection: str, obj: Tree) -> None:
    """Do all that a client may do with an object, and delete it."""
    path = f"{collection}/{obj['metadata']['name']}"
    selector = f"fieldSelector=metadata.name={obj['metadata']['name']}"
    async with asyncio.timeout(TIMEOUT_SECONDS), _connection(port) as watch:
        await api("POST", f"{collection}?dryRun=All", obj)
        await api("POST", collection, obj)
        watch.send("GET", f"{collection}?watch=1&{selector}")
        await watch.reader.readuntil(b'"ADDED"')
        await api("PATCH", path, {"metadata": {"labels": {"round": "1"}}}, MERGE)
        await watch.reader.readuntil(b'"MODIFIED"')
        await api("PATCH", f"{path}?dryRun=All", {"metadata": {"labels": {"round": "2"}}}, MERGE)
        labels = {"metadata": {"labels": {"applied": "1"}}}
        applied = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]} | labels
        await api("PATCH", f"{path}?fieldManager=test&force=true", applied, APPLY)
        await _replace(api, path)
        await api("GET", f"{collection}?{selector}")
        await api("DELETE", f"{path}?dryRun=All")
        await api("DELETE", f"{path}?gracePeriodSeconds=0")
        await watch.reader.readuntil(b'"DELETED"')


async def _rounds(
    api: _Client, port: int, collections: dict[tuple[str, str], str], batch: list[Tree]
) -> None:
    for obj in batch:
        await _round(api, port, collections[obj["apiVersion"], obj["kind"]], obj)
    # Controllers may report on an object while it is there; their events would stay for an hour.
    await api("DELETE", "/api/v1/namespaces/default/events")


async def _leaked_types(
    running: RunningServer, rounds: int, work: Callable[[], Awaitable[None]]
) -> Counter[str]:
    """The types of which at least one more object lives for each of the rounds of work, and again
    each time that the rounds are repeated: timers that have not ended yet keep some objects, and
    so do caches until they are full."""
    leaks = await _grown_types(running, rounds, work)
    for _ in range(REPEATS - 1):
        if leaks:
            leaks &= await _grown_types(running, rounds, work)
    return leaks


async def _grown_types(
    running: RunningServer, rounds: int, work: Callable[[], Awaitable[None]]
) -> Counter[str]:
    before = _living(running)
    for _ in range(rounds):
        await work()
    growth = {name: count - before[name] for name, count in _living(running).items()}
    return Counter({name: count for name, count in growth.items() if count >= rounds})


async def _wait_for_flow_schemas(port: int) -> None:
    """Return when the server has made its flow schemas, some seconds after its start: they count
    as growth otherwise."""
    schemas = (*bootstrap.MANDATORY_SCHEMAS, *bootstrap.SUGGESTED_SCHEMAS)
    missing = {schema["metadata"]["name"] for schema in schemas}
    async with asyncio.timeout(TIMEOUT_SECONDS), _connection(port) as watch:
        watch.send("GET", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas?watch=1")
        await watch.reader.readuntil(b"\r\n\r\n")
        while missing:
            size = int(await watch.reader.readline(), 16)
            for line in (await watch.reader.readexactly(size + 2)).splitlines():
                obj = json.loads(line)["object"] if line else {}
                if "conditions" in obj.get("status", {}):
                    missing.discard(obj["metadata"]["name"])


def _living(running: RunningServer) -> Counter[str]:
    """How many objects of each of our types there are, without those in the rings of recent events,
    which keep objects for watches that resume, and without flow control's cache of flows, which
    each change of a flow schema empties."""
    assert running.cluster.server.flow_control is not None
    running.cluster.server.flow_control._cached.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch_cache, "MIN_RECENT_EVENTS", 0)
        patch.setattr(watch_cache, "RECENT_SECONDS", -1.0)
        for store in running.cluster.server.stores.in_use():
            store.cache._trim(running.cluster.server.clock.now())
    gc.collect()
    _ = running.cluster.server.stores.encoding_cache.size  # forgets the entries that have ended
    types = Counter(type(obj) for obj in gc.get_objects())
    return Counter(
        {
            f"{type_.__module__}.{type_.__qualname__}": count
            for type_, count in types.items()
            if str(type_.__module__).startswith("kapiserver.")
        }
    )


async def _leaked_objects(
    running: RunningServer, rounds: int, group: slice
) -> dict[str, Counter[str]]:
    """By kind or groups of kinds: the types of which more objects live after the rounds, at least
    one more for each round."""
    port = int(running.url.rpartition(":")[2])
    await _wait_for_flow_schemas(port)
    async with _connection(port) as api:
        collections = await _collections(api)
        kinds = [obj for obj in objects() if (obj["apiVersion"], obj["kind"]) in collections]
        for obj in kinds:
            obj["metadata"].pop("namespace", None)
            for field in {"involvedObject", "regarding"} & obj.keys():
                obj[field]["namespace"] = "default"
        batches = [[obj] for obj in kinds[group]] if rounds == MANY_ROUNDS else [kinds[group]]
        leaked = {}
        for batch in batches:
            work = partial(_rounds, api, port, collections, batch)
            for _ in range(WARM_UP):
                await work()
            leaks = await _leaked_types(running, rounds, work)
            if leaks:
                leaked[",".join(obj["kind"] for obj in batch)] = leaks
        return leaked


def _leaks(monkeypatch: pytest.MonkeyPatch, rounds: int, group: slice) -> dict[str, Counter[str]]:
    # A store of a deleted definition stays until no request can use it.
    monkeypatch.setattr(object_reader, "MAX_REQUEST_SECONDS", 0.0)
    # Controllers remember the events that they have written, at most so many.
    monkeypatch.setattr(event_correlation, "_MAX_RECORDS", 1)
    # asyncio's loop keeps up to a hundred cancelled timers, with the contexts of their requests;
    # uvloop, on which `kapiserver serve` runs, keeps none.
    monkeypatch.setattr(asyncio.base_events, "_MIN_SCHEDULED_TIMER_HANDLES", 0)
    monkeypatch.setattr(asyncio.base_events, "_MIN_CANCELLED_TIMER_HANDLES_FRACTION", 0.0)

    async def run() -> dict[str, Counter[str]]:
        async with serve(Config.of(secure_port=None, insecure_port=0)) as running:
            return await _leaked_objects(running, rounds, group)

    return asyncio.run(run())


@pytest.mark.own_process
def test_no_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No type has one more object for each time that objects of every kind come and go."""
    assert _leaks(monkeypatch, ROUNDS, slice(None)) == {}


@pytest.mark.own_process
@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_no_leaks_in_many_rounds(monkeypatch: pytest.MonkeyPatch, group: int) -> None:
    """The same for each kind alone, often enough that what stays is seen."""
    assert _leaks(monkeypatch, MANY_ROUNDS, slice(group, None, GROUPS)) == {}
