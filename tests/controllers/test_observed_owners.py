"""Garbage collection reads an object only if the informer lacks one of its owners."""

from __future__ import annotations

import asyncio

from kapiserver.apiserver.config import Config
from kapiserver.app import serve
from kapiserver.client import Client
from kapiserver.parts import Parts
from kapiserver.storage.concurrency.clock import SystemClock
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.wrappers.wrapped_store import WrappedStore
from kapiserver.testing.state.memory_store import MemoryStore

CHILDREN = 200
"""Many more than the consistent reads of controllers that start at the same time."""


class CountingStore(WrappedStore):
    """Counts the consistent reads; the garbage collector makes one for each object it reads."""

    consistent_reads = 0

    async def current_revision(self) -> Revision:
        self.consistent_reads += 1
        return await super().current_revision()


def test_observed_owners() -> None:
    """Objects whose owner was observed are not read. An object with an absent owner is read and
    deleted, and so are dependents when their owner is deleted."""

    async def run() -> None:
        memory = MemoryStore(SystemClock())
        await memory.open()
        kv = CountingStore(memory)
        config = Config.of(secure_port=None, insecure_port=0, shutdown_timeout=1)
        async with serve(config, Parts(kv=kv)) as running, Client(running.url) as client:
            maps = client.resource("v1", "configmaps", namespace="default")
            owner = (await maps.create({"metadata": {"name": "owner"}}))["metadata"]
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
            version = owner["resourceVersion"]

            async def make(name: str, uid: str) -> None:
                owners = [{**reference, "uid": uid}]
                await maps.create({"metadata": {"name": name, "ownerReferences": owners}})

            async def wait_deleted(count: int) -> None:
                async for event in maps.watch(resourceVersion=version):
                    count -= event.type == "DELETED"
                    if not count:
                        return

            await make("first", owner["uid"])
            kv.consistent_reads = 0
            for number in range(CHILDREN):
                await make(f"child-{number}", owner["uid"])
            await make("late", "absent")
            await wait_deleted(1)
            assert kv.consistent_reads < CHILDREN
            await maps.delete("owner")
            await wait_deleted(CHILDREN + 3)
        await memory.close()

    asyncio.run(run())
