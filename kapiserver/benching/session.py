"""One run against a server: its clients, and a namespace that is deleted at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from msgspec import Struct

from kapiserver.benching.figures import Report
from kapiserver.benching.measures import MEASURES, Bench
from kapiserver.benching.server_process import FAILURES, ServerProcess
from kapiserver.client import Client

NAMESPACES = "/api/v1/namespaces"
_CLEAN_SECONDS = 60.0


class Settings(Struct, frozen=True, kw_only=True):
    """The size of a run: seconds of each measure, and numbers of connections and of watches."""

    seconds: float
    connections: int
    watches: int


Progress = Callable[[int, int, str], None]
"""Called with the measures that are done, their number, and what comes next."""


async def run(connect: Callable[[], Client], settings: Settings, progress: Progress) -> Report:
    """Measure a server; `connect` returns a client with a connection of its own. Raises
    FAILURES if the server cannot be used."""
    async with AsyncExitStack() as stack:

        async def opened(count: int) -> Sequence[Client]:
            return [await stack.enter_async_context(connect()) for _ in range(count)]

        clients = await opened(settings.connections)
        version = (await clients[0].call("GET", "/version")).get("gitVersion", "unknown version")
        namespace = await stack.enter_async_context(_namespace(clients[0]))
        process = ServerProcess(clients[0])
        bench = Bench(
            clients=clients,
            watching=await opened(settings.watches),
            path=f"{NAMESPACES}/{namespace}/configmaps",
            process=process,
            seconds=settings.seconds,
        )
        report = Report(version=version, connections=settings.connections, figures=[])
        progress(0, len(MEASURES), "prepare")
        await bench.prepare()
        for done, measure in enumerate(MEASURES):
            progress(done, len(MEASURES), measure.__name__.replace("_", " "))
            report.figures.append(await measure(bench))
        progress(len(MEASURES), len(MEASURES), "")
        memory = (await process.read()).get("process_resident_memory_bytes")
        report.memory_mib = round(memory / (1 << 20), 1) if memory else None
    return report


@asynccontextmanager
async def _namespace(client: Client) -> AsyncIterator[str]:
    """A new namespace. At the end its ConfigMaps are deleted, and then it: a bare kube-apiserver
    has no controller that would delete what is in it."""
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"generateName": "kapiserver-bench-"},
    }
    created = await client.call("POST", NAMESPACES, body=body)
    name: str = created["metadata"]["name"]
    try:
        yield name
    finally:
        with suppress(*FAILURES):
            async with asyncio.timeout(_CLEAN_SECONDS):
                await client.call("DELETE", f"{NAMESPACES}/{name}/configmaps")
        await client.call("DELETE", f"{NAMESPACES}/{name}")
