"""A server with logical clusters whose clock the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx

from kapiserver.apiserver.config import Config
from kapiserver.app import serve
from kapiserver.client import Client, Resource
from kapiserver.clusters.service import AdministratorAccess, LogicalClusters
from kapiserver.parts import Parts
from tests.clock import ManualClock

IDLE = 300.0
STEP = 10.0
START = datetime(2026, 1, 1, 12, 10, tzinfo=UTC).timestamp()


class Served:
    """A server with logical clusters whose clock the test moves."""

    def __init__(self, url: str, clusters: LogicalClusters, clock: ManualClock) -> None:
        self.url = url
        self.clusters = clusters
        self.clock = clock

    def client(self, access: AdministratorAccess) -> Client:
        """Return a client of a cluster, which has to be entered."""
        return Client(access.url, token=access.token)

    def http(self, access: AdministratorAccess | None = None) -> httpx.AsyncClient:
        """Return an HTTP client of a cluster, or of the server, which has to be entered."""
        headers = {} if access is None else {"Authorization": f"Bearer {access.token}"}
        url = self.url if access is None else access.url
        return httpx.AsyncClient(base_url=f"{url}/", headers=headers, timeout=30)

    async def status(self, name: str) -> Any:
        """Return the status of a Cluster."""
        async with Client(self.url) as client:
            resource = client.resource("clusters.kapiserver.dev/v1", "clusters")
            return (await resource.get(name))["status"]

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, in steps, between which controllers do their work."""
        for _ in range(int(seconds // STEP)):
            self.clock.advance(STEP)
            await asyncio.sleep(0)
            await eventually(lambda: self.clusters.is_settled)


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Served]:
    clock = ManualClock(START)
    defaults = {"secure_port": None, "insecure_port": 0, "enable_logical_clusters": True}
    async with serve(Config.of(**defaults | settings), Parts(clock=clock)) as running:
        assert running.clusters is not None
        yield Served(running.url, running.clusters, clock)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, which other tasks bring about."""
    async with asyncio.timeout(30):
        await asyncio.sleep(0)
        while not condition():  # noqa: ASYNC110 - there is no event for all that the tests wait for
            await asyncio.sleep(0.001)


def maps(client: Client) -> Resource:
    return client.resource("v1", "configmaps", namespace="default")


async def create(client: Client, name: str) -> None:
    await maps(client).create({"metadata": {"name": name}})
