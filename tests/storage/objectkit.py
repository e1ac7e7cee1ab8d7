"""Object stores over the embedded store, with a clock and identifiers that a test controls."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from kapiserver.api.group import GroupVersion
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.storage.backends import open_store
from kapiserver.storage.cache.entry import Encoding, ObjectKey
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.cache.query import WatchQuery, Write, WriteResult
from kapiserver.storage.cache.watch_fanout import Watcher
from kapiserver.storage.kv.contract import KV
from kapiserver.storage.objects.object_store import ResourceStore
from kapiserver.storage.objects.store_registry import StoreOptions, StoreRegistry
from tests.clock import ManualClock

SCHEME = Scheme()
CORE = GroupVersion("", "v1")
JSON = Encoding(CORE, "json")
PROTOBUF = Encoding(CORE, "protobuf")
CBOR = Encoding(CORE, "cbor")
TIMEOUT_SECONDS = 60.0
"""Seconds after which a test that waits has failed."""


class CountedNames:
    """Identifiers that count: predictable uids, and suffixes from a replaceable iterator."""

    def __init__(self) -> None:
        self.rng = random.Random(1)
        self._uids = itertools.count(1)
        self.suffixes: Iterator[str] = (f"{number:05d}" for number in itertools.count())

    def uid(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._uids):012d}"

    def suffix(self) -> str:
        return next(self.suffixes)


class StorageHarness:
    """The storage part of a server, for one test."""

    def __init__(self, kv: KV, offloader: Offloader | None = None, **options: Any) -> None:
        self.kv = kv
        self.clock = ManualClock()
        self.names = CountedNames()
        self.scheme = SCHEME
        self.codecs = CodecFactory(self.scheme)
        self.stores = StoreRegistry(
            kv,
            self.scheme,
            self.codecs,
            self.clock,
            offloader or Offloader(),
            StoreOptions(identifiers=self.names, **options),
        )

    def of(self, name: str, version: GroupVersion = CORE) -> ResourceStore:
        """The store of a resource."""
        return self.stores.by_name(version, name)


@asynccontextmanager
async def open_harness(
    spec: str = "sqlite::memory:", **options: Any
) -> AsyncIterator[StorageHarness]:
    """A harness that is closed at the end."""
    kv = await open_store(spec)
    harness = StorageHarness(kv, **options)
    try:
        yield harness
    finally:
        harness.stores.stop()
        await kv.close()


def run(
    test: Callable[[StorageHarness], Any], spec: str = "sqlite::memory:", **options: Any
) -> Any:
    """Run a test with a harness, on an event loop of its own."""

    async def run_body() -> Any:
        async with asyncio.timeout(TIMEOUT_SECONDS), open_harness(spec, **options) as harness:
            return await test(harness)

    return asyncio.run(run_body())


def config_map(name: str = "", namespace: str = "default", **more: Any) -> Tree:
    """A ConfigMap; `labels`, `data` and other metadata by name."""
    data = more.pop("data", None)
    metadata = {"name": name} if name else {}
    if "generateName" in more:
        metadata["generateName"] = more.pop("generateName")
    metadata |= {"namespace": namespace, **more}
    tree: Tree = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}
    return tree | ({"data": data} if data else {})


def pod(name: str, namespace: str = "default", *, node: str = "", **metadata: Any) -> Tree:
    """A Pod, with a node where one is named."""
    spec: Tree = {
        "containers": [{"name": "main", "image": "nginx", "resources": {}}],
        "terminationGracePeriodSeconds": 30,
    }
    if node:
        spec["nodeName"] = node
    return defaulted(
        {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"name": name, "namespace": namespace, **metadata},
            "spec": spec,
            "status": {},
        }
    )


def deployment(name: str, **metadata: Any) -> Tree:
    """A Deployment with one container."""
    labels = {"app": name}
    container = {"name": "main", "image": "nginx", "resources": {}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return defaulted(
        {
            "kind": "Deployment",
            "apiVersion": "apps/v1",
            "metadata": {"name": name, "namespace": "default", **metadata},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": template,
                "strategy": {},
            },
            "status": {},
        }
    )


def defaulted(tree: Tree) -> Tree:
    """Return the tree with defaults, as handlers pass it to the store."""
    SCHEME.default(tree)
    return tree


def key(name: str, namespace: str = "default") -> ObjectKey:
    """The key of a namespaced object."""
    return ObjectKey(namespace, name)


def setting(*path: str, to: Any) -> Any:
    """Return an update function that sets one value."""

    def change(current: Tree) -> Tree:
        at = current
        for name in path[:-1]:
            at = at.setdefault(name, {})
        at[path[-1]] = to
        return current

    return change


async def put(store: ResourceStore, name: str, *path: str, to: Any, **more: Any) -> WriteResult:
    """Update an object by setting one value."""
    return await store.update(key(name), setting(*path, to=to), Write(**more))


def finalizers(*names: str) -> dict[str, Any]:
    """Metadata with these finalizers."""
    return {"finalizers": list(names)}


async def fill(harness: StorageHarness, count: int = 10, **metadata: Any) -> ResourceStore:
    """Create the ConfigMaps c00, c01, ...; those with odd numbers have a label."""
    store = harness.of("configmaps")
    for number in range(count):
        labels = {"odd": "yes"} if number % 2 else {"even": "yes"}
        await store.create(config_map(f"c{number:02d}", labels=labels, **metadata))
    return store


def named(entries: Any) -> list[str]:
    """The names of entries."""
    return [entry.key.name for entry in entries]


def error_status(error: Exception) -> Tree:
    """The code and reason that the API server would answer for an error."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": str(error),
        "reason": type(error).__name__,
        "code": 410,
    }


class Client:
    """A WatchSink that records frames; `stuck` bytes wait for its connection, and if it does not
    read they stay."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.closed = False
        self.aborted = False
        self.stuck = 0
        self.reads = True
        self._changed = asyncio.Event()

    def write(self, frames: bytes) -> int:
        assert not self.closed
        assert frames
        self.frames.append(frames)
        self._changed.set()
        return self.stuck + len(frames)

    def backlog(self) -> int:
        return self.stuck

    async def wait_drained(self) -> None:
        if not self.reads:
            await asyncio.Event().wait()

    def close(self) -> None:
        assert not self.closed
        self.closed = True
        self._changed.set()

    def abort(self) -> None:
        self.aborted = True
        self.stuck = 0
        self.close()

    @property
    def events(self) -> list[Tree]:
        """The JSON events received so far."""
        return [json.loads(line) for line in b"".join(self.frames).splitlines()]

    @property
    def summary(self) -> list[tuple[str, str]]:
        """Type and name of each event; the version of bookmarks, the reason of errors."""
        return [(event["type"], _subject(event)) for event in self.events]

    async def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition is true."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def count(self, events: int) -> list[tuple[str, str]]:
        """Wait for a number of events; return the summary."""
        await self.wait_until(lambda: b"".join(self.frames).count(b"\n") >= events)
        return self.summary


def _subject(event: Tree) -> str:
    if event["type"] == "BOOKMARK":
        return str(event["object"]["metadata"]["resourceVersion"])
    if event["type"] == "ERROR":
        return str(event["object"]["reason"])
    return str(event["object"]["metadata"]["name"])


async def watch(
    store: ResourceStore, client: Client, *, encoding: Encoding = JSON, **query: Any
) -> Watcher:
    """Start a watch that writes to the client."""
    return await store.watch(WatchQuery(**query), store.framer(encoding, error_status), client)


async def joined(chunks: AsyncIterator[bytes]) -> bytes:
    """Return the chunks as one body."""
    return b"".join([chunk async for chunk in chunks])
