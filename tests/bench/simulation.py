"""How a large simulated cluster starts: nodes, then pods of Deployments, with reads meanwhile.

    python -m tests.bench.simulation --nodes 1000 --deployments 100 --replicas 100 --plot FILE.svg

Prints a table of the phases: wall time, CPU, memory and writes a second of the server, and the
latencies of a client that reads all the time, one request after the other. The plot shows how many
pods are ready, second by second.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from tests.bench.client import Connection, Target
from tests.bench.measures import Figures
from tests.bench.plots import line_chart
from tests.bench.processes import cpu_seconds, resident_mib
from tests.bench.servers import Store, server

NAMESPACE_COUNT = 10
QUIET_SECONDS = 60.0
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"


@dataclass
class Latencies:
    """The latencies of a client's requests in seconds."""

    get: list[float] = field(default_factory=list)
    list_: list[float] = field(default_factory=list)


@dataclass
class Phase:
    """One phase of the run, and what it took."""

    name: str
    wall: float
    cpu: float
    mib: float
    writes: int
    latencies: Latencies


class Cluster:
    """The server under load, two connections to it, and what the run has measured."""

    def __init__(self, target: Target, control: Connection, reader: Connection) -> None:
        self._target = target
        self._control = control
        self._reader = reader
        self.phases: list[Phase] = []
        self.ready: list[tuple[float, int]] = []
        """Seconds since the first Deployment, and the pods that were ready then."""

    async def run(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work of a phase while a client reads."""
        latencies = Latencies()
        cpu, revision, start = self._cpu(), await self._revision(), time.perf_counter()
        reading = asyncio.create_task(self._read(latencies))
        try:
            await work()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        # The cancelled request has left its response in the connection.
        self._reader.close()
        await self._reader.open(self._target.tls())
        wall = time.perf_counter() - start
        writes = await self._revision() - revision
        mib = resident_mib(self._target.pids)
        self.phases.append(Phase(name, wall, self._cpu() - cpu, mib, writes, latencies))

    async def start(self, nodes: int, started: Figures) -> None:
        """Add the start of the server, which is ready when its nodes are."""
        response = await self._control.request("GET", "/api/v1/nodes")
        assert len(orjson.loads(response.body)["items"]) == nodes
        name = f"start, until {nodes:,} nodes are there"
        wall, cpu, mib = (started[each] for each in ("wall s", "server s", "MiB"))
        self.phases.append(Phase(name, wall, cpu, mib, await self._revision(), Latencies()))

    async def deploy(self, deployments: int, replicas: int) -> None:
        """Create the Deployments, and wait until their pods are ready."""
        start = time.perf_counter()
        for number in range(NAMESPACE_COUNT):
            await self._create("/api/v1/namespaces", {"metadata": {"name": f"scale-{number}"}})
        for number in range(deployments):
            namespace = f"scale-{number % NAMESPACE_COUNT}"
            await self._create(DEPLOYMENTS.format(namespace), deployment(number, replicas))
        count = 0
        while count < deployments * replicas:
            await asyncio.sleep(1)
            count = await self._count_available()
            self.ready.append((time.perf_counter() - start, count))

    async def rest(self) -> None:
        """Let the cluster be as it is."""
        await asyncio.sleep(QUIET_SECONDS)

    async def _read(self, latencies: Latencies) -> None:
        """Get a node, and list the pods of a namespace, in turns."""
        requests = (
            (latencies.get, "/api/v1/nodes/simulated-0"),
            (latencies.list_, "/api/v1/namespaces/scale-0/pods"),
        )
        while True:
            for taken, path in requests:
                start = time.perf_counter()
                await self._reader.request("GET", path)
                taken.append(time.perf_counter() - start)
            await asyncio.sleep(0.05)

    async def _count_available(self) -> int:
        response = await self._control.request("GET", "/apis/apps/v1/deployments")
        items = orjson.loads(response.body)["items"]
        return sum(item["status"].get("availableReplicas", 0) for item in items)

    async def _create(self, path: str, body: dict[str, object]) -> None:
        response = await self._control.request("POST", path, body)
        if response.status != 201:
            raise SystemExit(response.body.decode())

    async def _revision(self) -> int:
        response = await self._control.request("GET", "/api/v1/namespaces?limit=1")
        return int(orjson.loads(response.body)["metadata"]["resourceVersion"])

    def _cpu(self) -> float:
        return cpu_seconds(self._target.pids)


def deployment(number: int, replicas: int) -> dict[str, object]:
    """Return a Deployment whose pods request CPU and memory."""
    labels = {"app": f"web-{number}"}
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    container = {"name": "app", "image": "nginx", "resources": resources}
    return {
        "metadata": {"name": f"web-{number}"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def table(phases: list[Phase]) -> str:
    """Return a Markdown table of the phases."""
    lines = [
        "| phase | wall | CPU | memory | writes/s | GET, p50 / p99 | list, p50 / p99 |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for phase in phases:
        gets, lists = (_latency(each) for each in (phase.latencies.get, phase.latencies.list_))
        lines.append(
            f"| {phase.name} | {phase.wall:.1f} s | {phase.cpu:.1f} s | {phase.mib:.0f} MiB "
            f"| {phase.writes / phase.wall:,.0f} | {gets} | {lists} |"
        )
    return "\n".join(lines)


def _latency(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return "-"
    p99 = statistics.quantiles(seconds, n=100)[98]
    return f"{statistics.median(seconds) * 1e3:.0f} / {p99 * 1e3:.0f} ms"


async def measure(target: Target, started: Figures, options: argparse.Namespace) -> Cluster:
    """Run all phases."""
    context = target.tls()
    control, reader = [await Connection(target).open(context) for _ in range(2)]
    cluster = Cluster(target, control, reader)
    pods = options.deployments * options.replicas
    await cluster.start(options.nodes, started)
    await cluster.run(
        f"{pods:,} pods of {options.deployments} Deployments become ready",
        lambda: cluster.deploy(options.deployments, options.replicas),
    )
    await cluster.run(f"{QUIET_SECONDS:.0f} s at rest", cluster.rest)
    return cluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--deployments", type=int, default=100)
    parser.add_argument("--replicas", type=int, default=100)
    parser.add_argument("--plot", type=Path, help="where the plot is written, as SVG")
    options = parser.parse_args()
    flags = ["--simulate", f"--simulate-nodes={options.nodes}"]
    with (
        tempfile.TemporaryDirectory() as folder,
        server(Path(folder), Store(), flags) as (target, started),
    ):
        cluster = asyncio.run(measure(target, started, options))
        print(table(cluster.phases))
        if options.plot is not None:
            ready = {"pods": [(0, 0), *cluster.ready]}
            options.plot.write_text(line_chart("pods that are ready", ready))


if __name__ == "__main__":
    main()
