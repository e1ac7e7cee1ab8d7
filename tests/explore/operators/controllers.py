"""Runs the server's own workload controllers as an operator: outside of the server, over HTTP.

`python -m tests.explore.operators.controllers deployment replicaset` runs these controllers, as
they are, in the cluster of KUBECONFIG. Their informers read a store that lists and watches the API,
as reflectors of client-go do, and their clients send requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Coroutine, Sequence
from typing import Any

from msgspec import structs

from kapiserver.api.group import GroupVersion
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Server
from kapiserver.client import Client, Resource
from kapiserver.cluster import open_cluster
from kapiserver.controllers.manager import ControllerGroup
from kapiserver.controllers.registry import REGISTRY
from kapiserver.parts import Parts
from kapiserver.storage.errors import Compacted, Unavailable
from kapiserver.storage.kv.contract import (
    EventSink,
    KeyValue,
    KVEvent,
    RangeResult,
    Revision,
    Watch,
)
from kapiserver.storage.objects.object_codec import ObjectCodec

NAMES = {"deployment", "replicaset", "statefulset", "job", "daemonset"}
WATCHED = (
    ("apps/v1", "deployments"),
    ("apps/v1", "replicasets"),
    ("apps/v1", "statefulsets"),
    ("apps/v1", "controllerrevisions"),
    ("batch/v1", "jobs"),
    ("v1", "pods"),
    ("v1", "persistentvolumeclaims"),
)
RETRY_SECONDS = 0.1


class RemoteStore:
    """The part of `storage.kv.contract.KV` that informers use. Each resource has revisions of its
    own: those of its list and of its watch. Other keys do not exist."""

    shared = durable = False
    compacted = Revision(0)

    def __init__(self) -> None:
        self.resources: dict[str, tuple[ObjectCodec, Resource]] = {}
        """The codecs and clients of the watched resources, by the prefix of their keys."""
        self.listed: dict[str, Sequence[KeyValue]] = {}
        """What informers have listed, by prefix."""

    def connect(self, server: Server, client: Client) -> None:
        """Read the watched resources from a cluster from now on."""
        for version, name in WATCHED:
            codec = server.stores.by_name(GroupVersion.parse(version), name).codec
            self.resources[codec.prefix] = (codec, client.resource(version, name))

    async def current_revision(self) -> Revision:
        """Return the revision of a list of the present state. Raises Unavailable."""
        return (await self.read(next(iter(self.resources)), limit=1)).revision

    async def range(self, prefix: str, **_: object) -> RangeResult:
        """Return the objects of a resource, as a cache of the server may have them. Raises
        Unavailable."""
        if prefix not in self.resources:
            return RangeResult((), Revision(1), 0)
        result = await self.read(prefix, resourceVersion="0")
        self.listed[prefix] = result.items
        return result

    async def read(self, prefix: str, **parameters: str | int) -> RangeResult:
        """Return the objects of a resource in the order of their keys. Raises Unavailable."""
        codec, resource = self.resources[prefix]
        try:
            page = await resource.list_page(**parameters)
        except (StatusError, *Resource.transport_errors) as error:
            await asyncio.sleep(RETRY_SECONDS)
            raise Unavailable(str(error)) from error
        items = sorted((key_value(codec, obj) for obj in page["items"]), key=lambda item: item.key)
        return RangeResult(items, Revision(int(page["metadata"]["resourceVersion"])), 0)

    def watch(self, prefix: str, *, after: Revision, sink: EventSink) -> Watch:
        """Deliver the events of a resource."""
        return _RemoteWatch(self, prefix, after, sink)

    async def close(self) -> None:
        """Do nothing: whoever opened the client closes it."""


def key_value(codec: ObjectCodec, obj: Tree) -> KeyValue:
    metadata = obj["metadata"]
    key = f"{codec.prefix}{metadata['namespace']}/{metadata['name']}"
    return KeyValue(key, codec.stored_value(obj), Revision(int(metadata["resourceVersion"])))


class _RemoteWatch:
    """A watch over HTTP, which resumes where it has ended. When somebody waits for a revision that
    has not come, it lists: the server sends no progress on request."""

    def __init__(self, store: RemoteStore, prefix: str, after: Revision, sink: EventSink) -> None:
        self._store = store
        self._prefix = prefix
        self._revision = after
        self._sink = sink
        self._values = {item.key: item.value for item in store.listed.get(prefix, ())}
        self._tasks: set[asyncio.Task[None]] = set()
        if prefix in store.resources:
            self._start(self._follow())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self) -> None:
        codec, resource = self._store.resources[self._prefix]
        try:
            while True:
                with contextlib.suppress(*Resource.transport_errors):
                    async for event in resource.watch(resource_version=str(self._revision)):
                        metadata = event.object["metadata"]
                        if event.type == "BOOKMARK":
                            self._advance(Revision(int(metadata["resourceVersion"])))
                        else:
                            self._take(key_value(codec, event.object), event.type == "DELETED")
                await asyncio.sleep(RETRY_SECONDS)
        except StatusError as error:
            is_gone = error.code == 410
            reason = Compacted(self._revision, oldest=self._revision + 1) if is_gone else None
            self._sink.on_closed(reason or Unavailable(str(error)))

    def _take(self, item: KeyValue, is_deleted: bool) -> None:
        """Deliver a change, unless a list has shown it."""
        if item.revision > self._revision:
            previous = self._values.pop(item.key, None)
            if not is_deleted:
                self._values[item.key] = item.value
            value = None if is_deleted else item.value
            self._revision = item.revision
            self._sink.on_events([KVEvent(item.key, item.revision, value, previous)])

    def _advance(self, revision: Revision) -> None:
        if revision > self._revision:
            self._revision = revision
            self._sink.on_progress(revision)

    def cancel(self) -> None:
        """End the watch."""
        for task in self._tasks:
            task.cancel()
        self._sink.on_closed(None)

    def request_progress(self) -> None:
        """List soon, and deliver what the watch has not shown yet."""
        if self._prefix in self._store.resources and len(self._tasks) < 2:
            self._start(self._catch_up())

    async def _catch_up(self) -> None:
        with contextlib.suppress(Unavailable):
            current = await self._store.read(self._prefix)
            for item in sorted(current.items, key=lambda item: item.revision):
                self._take(item, is_deleted=False)
            gone = self._values.keys() - {item.key for item in current.items}
            if gone and self._revision < current.revision:
                self._revision = current.revision
                self._sink.on_events(
                    [KVEvent(key, current.revision, None, self._values.pop(key)) for key in gone]
                )
            self._advance(current.revision)


async def run(*names: str) -> None:
    """Run controllers, such as `deployment`, until cancelled."""
    if unknown := set(names) - NAMES or not names:
        raise ValueError(f"{unknown} are not among {sorted(NAMES)}")
    descriptors = [item for item in REGISTRY if set(item.aliases) & set(names)]
    store = RemoteStore()
    config = Config().replace(secure_port=None)
    async with (
        Client.from_kubeconfig(os.environ["KUBECONFIG"]) as client,
        open_cluster(config, Parts(kv=store)) as cluster,
    ):
        server = structs.replace(cluster.server, new_client=lambda *_: client)
        store.connect(server, client)
        group = ControllerGroup(server, descriptors, ca_text="", signing_ca=None)
        await group.start()
        try:
            await asyncio.Event().wait()
        finally:
            await group.stop()


def main(names: Sequence[str]) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(*names))


if __name__ == "__main__":
    main(sys.argv[1:])
