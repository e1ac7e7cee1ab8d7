"""Garbage collection of many objects at once."""

from __future__ import annotations

import asyncio
import time

import pytest

from kapiserver.api.resource_client import ResourceClient
from kapiserver.apiserver.config import Config
from kapiserver.app import serve
from kapiserver.client import Client

FEW, MANY = 500, 5_000
CONCURRENCY = 50
MAX_GROWTH = 3
"""How many times as much CPU one of many dependents may take as one of few: 1 if the work grows
with their number, and 10 if it grows with the square of their number."""
MIN_READS = 20


@pytest.mark.slow
def test_many_dependents() -> None:
    """The CPU for deleting the dependents of one owner grows with their number, and the server
    answers other requests meanwhile."""

    async def run() -> None:
        config = Config.of(secure_port=None, insecure_port=0, shutdown_timeout=1)
        async with serve(config) as running, Client(running.url) as client:
            maps = client.resource("v1", "configmaps", namespace="default")
            await maps.create({"metadata": {"name": "other"}})
            few, _ = await _delete_owner(maps, FEW)
            many, reads = await _delete_owner(maps, MANY)
            assert many / MANY < MAX_GROWTH * few / FEW
            assert reads > MIN_READS

    asyncio.run(run())


async def _delete_owner(maps: ResourceClient, count: int) -> tuple[float, int]:
    """Delete an owner with so many dependents. Return the seconds of CPU until the last is deleted,
    and the number of reads that were answered between the first and the last."""
    name = f"owner-{count}"
    owner = (await maps.create({"metadata": {"name": name}}))["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner["uid"]}

    async def make(start: int) -> None:
        for number in range(start, count, CONCURRENCY):
            metadata = {"name": f"{name}-{number}", "ownerReferences": [reference]}
            await maps.create({"metadata": metadata})

    await asyncio.gather(*[make(start) for start in range(CONCURRENCY)])
    version = (await maps.list(limit=1))["metadata"]["resourceVersion"]
    started_at, deleted, reads = time.process_time(), 0, 0

    async def read() -> None:
        nonlocal reads
        while True:
            await maps.get("other")
            reads += deleted > 0

    reader = asyncio.create_task(read())
    await maps.delete(name)
    async for event in maps.watch(resourceVersion=version):
        deleted += event.type == "DELETED"
        if deleted == count + 1:
            break
    assert reader.cancel(), reader
    await asyncio.wait([reader])
    return time.process_time() - started_at, reads
