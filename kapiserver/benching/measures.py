"""The work that is measured: requests one after the other on each connection, and watches.

Every measure takes a `Bench`, runs for its seconds, and returns figures. CREATED and LISTED bound
the objects.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.benching.figures import Figures, figures_of
from kapiserver.benching.server_process import FAILURES, ServerProcess
from kapiserver.client import Client

LISTED = 500
"""The ConfigMaps that are listed, read, updated and patched."""
CREATED = 10_000
"""The maximum number of ConfigMaps that are created."""
CHANGES_PER_SECOND = 20
"""Writes that watches see."""
_LATE_SECONDS = 10.0
"""How long events may arrive after the last write."""
_MERGE_PATCH = "application/merge-patch+json"


class Bench(Struct, frozen=True, kw_only=True):
    """What the measures work with.

    clients     send the requests; each has a connection
    watching    have a watch each
    path        of the ConfigMaps in the session's namespace
    process     reads the CPU time of the server
    seconds     of each measure
    """

    clients: Sequence[Client]
    watching: Sequence[Client]
    path: str
    process: ServerProcess
    seconds: float

    async def prepare(self) -> None:
        """Create the ConfigMaps. Raises FAILURES."""
        names = iter(range(LISTED))

        async def create(client: Client) -> None:
            for number in names:
                await client.call("POST", self.path, body=config_map(f"listed-{number}"))

        async with asyncio.TaskGroup() as tasks:
            for client in self.clients:
                tasks.create_task(create(client))

    async def requests(
        self, work: str, send: Callable[[Client, int], Awaitable[object]], limit: int | None = None
    ) -> Figures:
        """Send requests one after the other on each connection. `send` gets a number that no other
        request has; at most `limit` of them."""
        numbers = itertools.count() if limit is None else iter(range(limit))
        latencies: list[float] = []
        failures = 0

        async def run(client: Client, deadline: float) -> None:
            nonlocal failures
            for number in numbers:
                begin = time.perf_counter()
                if begin >= deadline:
                    return
                try:
                    await send(client, number)
                except FAILURES:
                    failures += 1
                    await asyncio.sleep(0.05)  # a server that refuses is not to be flooded
                else:
                    latencies.append(time.perf_counter() - begin)

        cpu = await self.process.cpu_seconds()
        begin = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for client in self.clients:
                tasks.create_task(run(client, begin + self.seconds))
        seconds = time.perf_counter() - begin
        return figures_of(
            work,
            latencies,
            failures=failures,
            seconds=seconds,
            cpu_seconds=await self.process.cpu_since(cpu),
        )


def config_map(name: str, *, app: str = "listed", level: str = "info") -> Tree:
    """Return a ConfigMap of about 1 KB."""
    data = {"app.properties": "key=value;" * 90, "level": level}
    meta = {"name": name, "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


async def get(bench: Bench) -> Figures:
    """GET a ConfigMap."""

    def send(client: Client, number: int) -> Awaitable[object]:
        return client.call("GET", f"{bench.path}/listed-{number % LISTED}")

    return await bench.requests("get a ConfigMap of 1 KB", send)


async def list_all(bench: Bench) -> Figures:
    """LIST the ConfigMaps."""

    def send(client: Client, _: int) -> Awaitable[object]:
        return client.call("GET", bench.path, parameters={"labelSelector": "app=listed"})

    return await bench.requests(f"list {LISTED} ConfigMaps", send)


async def create(bench: Bench) -> Figures:
    """Create ConfigMaps."""

    def send(client: Client, number: int) -> Awaitable[object]:
        return client.call("POST", bench.path, body=config_map(f"created-{number}", app="created"))

    return await bench.requests("create a ConfigMap of 1 KB", send, limit=CREATED)


async def update(bench: Bench) -> Figures:
    """PUT the ConfigMaps, each with a change."""

    def send(client: Client, number: int) -> Awaitable[object]:
        name = f"listed-{number % LISTED}"
        body = config_map(name, level=f"{time.time_ns()}")
        return client.call("PUT", f"{bench.path}/{name}", body=body)

    return await bench.requests("update a ConfigMap of 1 KB", send)


async def patch(bench: Bench) -> Figures:
    """Merge patch the ConfigMaps, each with a change."""

    def send(client: Client, number: int) -> Awaitable[object]:
        body = b'{"data": {"level": "%d"}}' % time.time_ns()
        path = f"{bench.path}/listed-{number % LISTED}"
        return client.call("PATCH", path, body=body, content_type=_MERGE_PATCH)

    return await bench.requests("patch a ConfigMap of 1 KB", send)


async def watch(bench: Bench) -> Figures:
    """Open watches of the namespace, and change a ConfigMap at a fixed rate meanwhile."""
    listed = await bench.clients[0].call("GET", bench.path, parameters={"limit": 1})
    revision = listed["metadata"]["resourceVersion"]
    latencies: list[float] = []
    changes = max(1, int(bench.seconds * CHANGES_PER_SECOND))
    expected = changes * len(bench.watching)

    async def receive(client: Client) -> None:
        parameters = {"watch": "1", "resourceVersion": revision, "allowWatchBookmarks": "false"}
        events = client.watch_events(bench.path, parameters)
        async for event in events:
            sent = event.object.get("data", {}).get("sent")
            if sent is not None:
                latencies.append(time.perf_counter() - float(sent))

    cpu = await bench.process.cpu_seconds()
    tasks = [asyncio.create_task(receive(client)) for client in bench.watching]
    begin = time.perf_counter()
    try:
        failed = await _change(bench, begin, changes)
        expected -= failed * len(bench.watching)
        for _ in _until(_LATE_SECONDS):
            if len(latencies) >= expected:
                break
            await asyncio.sleep(0.02)
        seconds = time.perf_counter() - begin
        used = await bench.process.cpu_since(cpu)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    missing = max(0, expected - len(latencies)) + failed
    work = f"event to each of {len(bench.watching)} watches, {CHANGES_PER_SECOND} changes/s"
    return figures_of(work, latencies, failures=missing, seconds=seconds, cpu_seconds=used)


async def _change(bench: Bench, begin: float, changes: int) -> int:
    """Change a ConfigMap at the rate and return how many changes failed."""
    failed = 0
    for number in range(changes):
        await asyncio.sleep(max(0.0, begin + number / CHANGES_PER_SECOND - time.perf_counter()))
        body = config_map("listed-0")
        body["data"]["sent"] = f"{time.perf_counter()}"
        try:
            await bench.clients[0].call("PUT", f"{bench.path}/listed-0", body=body)
        except FAILURES:
            failed += 1
    return failed


def _until(seconds: float) -> Iterator[None]:
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        yield


MEASURES: tuple[Callable[[Bench], Awaitable[Figures]], ...] = (
    get, list_all, create, update, patch, watch,
)  # fmt: skip
"""What `kapiserver bench` measures, in the order in which it runs."""
