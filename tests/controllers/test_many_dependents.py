"""Garbage collection of many objects at once."""

import asyncio
import time

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.app import serve
from kapiserver.client import Client

DEPENDENTS = 10_000
CONCURRENCY = 50


@pytest.mark.slow
def test_ten_thousand_dependents() -> None:
    """Ten thousand dependents of one owner are deleted within seconds, while the server answers
    other requests."""

    async def run() -> float:
        config = Config.of(secure_port=None, insecure_port=0, shutdown_timeout=1)
        async with serve(config) as running, Client(running.url) as client:
            maps = client.resource("v1", "configmaps", namespace="default")
            owner = (await maps.create({"metadata": {"name": "owner"}}))["metadata"]
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
            owners = [{**reference, "uid": owner["uid"]}]

            async def make(start: int) -> None:
                for number in range(start, DEPENDENTS, CONCURRENCY):
                    metadata = {"name": f"child-{number}", "ownerReferences": owners}
                    await maps.create({"metadata": metadata})

            await asyncio.gather(*[make(start) for start in range(CONCURRENCY)])
            version = (await maps.list(limit=1))["metadata"]["resourceVersion"]
            started_at, deleted = time.monotonic(), 0
            await maps.delete("owner")
            async for event in maps.watch(resourceVersion=version):
                deleted += event.type == "DELETED"
                if deleted == DEPENDENTS + 1:
                    break
            return time.monotonic() - started_at

    assert asyncio.run(run()) < 60
