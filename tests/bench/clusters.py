"""Thousands of logical clusters in one server: what do they cost, and do they delay each other?

    python -m tests.bench.clusters --clusters 10000 --active 200 --plot FILE.svg

Creates clusters, opens some of them one after the other, lets all of them answer requests in turns,
and measures the latency of one cluster while many clients of another one list and create. At last
it opens as many other clusters, for which the first ones close. Memory is that of the server
process (VmRSS), CPU that of the server. The table at the end has the goals. Linux only; it takes
some three minutes on two quiet cores.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.client import Connection, Target, connections, spread
from tests.bench.objects import configmap
from tests.bench.plots import line_chart
from tests.bench.processes import cpu_seconds, main_thread_seconds, resident_mib
from tests.bench.servers import STORES, server, store

CLUSTERS = "/apis/clusters.kapiserver.dev/v1/clusters"
SECRETS = "/api/v1/namespaces/kapiserver-clusters/secrets"
MAPS = "/api/v1/namespaces/default/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
SETTLE_SECONDS = 8.0
"""The time in which controllers that put work off at their start have done it."""

START_SECONDS = 0.15
"""The time in which the controllers of one cluster start, behind its first answer."""


@dataclass
class Figures:
    """What the table at the end shows: ms of CPU, KiB and MiB for each cluster, and latencies."""

    create: float = 0.0
    first: float = 0.0
    idle: float = 0.0
    active: float = 0.0
    closed: float = 0.0
    alone: str = ""
    flooded: str = ""


def _name(number: int) -> str:
    return f"c{number:05}"


async def _create(target: Target, count: int, figures: Figures) -> None:
    """Create clusters, and wait until all are ready."""
    begin, cpu, memory = time.perf_counter(), cpu_seconds(target.pids), resident_mib(target.pids)
    async with connections(target, 16) as opened:

        async def create(connection: Connection, number: int) -> None:
            body = {
                "apiVersion": "clusters.kapiserver.dev/v1",
                "kind": "Cluster",
                "metadata": {"name": _name(number)},
                "spec": {},
            }
            response = await connection.request("POST", CLUSTERS, body)
            assert response.status == 201, response.body

        await spread(opened, range(count), create)
        for number in range(count - 1, -1, -97):
            while True:
                path = f"{CLUSTERS}/{_name(number)}"
                tree = json.loads((await opened[0].request("GET", path)).body)
                if tree.get("status", {}).get("phase") == "Ready":
                    break
    cpu = cpu_seconds(target.pids) - cpu
    memory = resident_mib(target.pids) - memory
    figures.create, figures.idle = cpu / count * 1e3, memory / count * 1024
    print(
        f"{count} clusters created in {time.perf_counter() - begin:.1f} s: "
        f"{figures.create:.1f} ms of CPU and {figures.idle:.1f} KiB each"
    )


async def _tokens(target: Target, numbers: range) -> list[str]:
    async with connections(target, 1) as (connection,):
        tokens = []
        for number in numbers:
            response = await connection.request("GET", f"{SECRETS}/{_name(number)}")
            data = json.loads(response.body)["data"]
            tokens.append(base64.b64decode(data["token"]).decode())
        return tokens


async def _open(target: Target, tokens: list[str], figures: Figures) -> list[tuple[float, float]]:
    """Send the first request to each cluster, and return the memory by the number of clusters."""
    before = resident_mib(target.pids)
    first: list[float] = []
    behind: list[float] = []
    points = [(0.0, before)]
    for number, token in enumerate(tokens):
        async with connections(replace(target, token=token), 1) as (connection,):
            cpu = cpu_seconds(target.pids)
            path = f"/clusters/{_name(number)}/api/v1/namespaces"
            response = await connection.request("GET", path)
            first.append(cpu_seconds(target.pids) - cpu)
            assert response.status == 200, response.body
            await asyncio.sleep(START_SECONDS)
            behind.append(cpu_seconds(target.pids) - cpu - first[-1])
        if number % 10 == 9:
            points.append((number + 1.0, resident_mib(target.pids)))
    await asyncio.sleep(SETTLE_SECONDS)
    memory = resident_mib(target.pids)
    points.append((float(len(tokens)), memory))
    figures.first = statistics.median(first) * 1e3
    figures.active = (memory - before) / len(tokens)
    print(
        f"{len(tokens)} clusters opened: first answer {figures.first:.1f} ms of "
        f"CPU, controllers {statistics.median(behind) * 1e3:.1f} ms behind it (medians), "
        f"{figures.active:.2f} MiB each; the server has {memory:.0f} MiB"
    )
    cpu = cpu_seconds(target.pids)
    await asyncio.sleep(5)
    print(f"idle, all open: {(cpu_seconds(target.pids) - cpu) / 5:.1%} of a core")
    return points


async def _use(target: Target, tokens: list[str], seconds: float) -> None:
    """Let all open clusters answer in turns."""
    numbers = itertools.cycle(range(len(tokens)))
    sent = 0
    begin, cpu = time.perf_counter(), cpu_seconds(target.pids)
    end = begin + seconds

    async def send(connection: Connection) -> None:
        nonlocal sent
        while time.perf_counter() < end:
            number = next(numbers)
            connection.target = replace(target, token=tokens[number])
            prefix = f"/clusters/{_name(number)}{MAPS}"
            sent += 1
            if sent % 4:
                response = await connection.request("GET", f"{prefix}?limit=10")
            else:
                response = await connection.request("POST", prefix, configmap(f"m{sent}"))
            assert response.status in (200, 201), response.body

    async with connections(target, 16) as opened:
        await asyncio.gather(*map(send, opened))
    cpu = cpu_seconds(target.pids) - cpu
    print(
        f"all in turns, 3 lists for each create: {sent / seconds:.0f} per s, "
        f"{cpu / sent * 1e6:.0f} us of CPU each"
    )


async def _latencies(target: Target, token: str, seconds: float) -> list[tuple[float, float]]:
    """Read an object of the first cluster 20 times a second. Return the seconds of each request,
    and those of CPU that the server's event loop worked meanwhile, for this request and others."""
    latencies = []
    async with connections(replace(target, token=token), 1) as (connection,):
        start = time.perf_counter()
        for number in itertools.count():
            due = start + number / 20
            if due >= start + seconds:
                return latencies
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            sent, worked = time.perf_counter(), main_thread_seconds(target.pids[0])
            path = f"/clusters/{_name(0)}/api/v1/namespaces/default"
            assert (await connection.request("GET", path)).status == 200
            worked = main_thread_seconds(target.pids[0]) - worked
            latencies.append((time.perf_counter() - sent, worked))
    return latencies


async def flood(target: Target, count: int) -> None:
    """List and create in the second cluster on many connections until the process is ended."""
    os.nice(10)

    async def send(connection: Connection, number: int) -> None:
        while True:
            if number % 2:
                response = await connection.request("GET", f"/clusters/{_name(1)}{ROLES}")
            else:
                body = configmap(f"f{time.time_ns()}-{number}")
                response = await connection.request("POST", f"/clusters/{_name(1)}{MAPS}", body)
            if response.status == 429:
                await asyncio.sleep(1.0)

    async with connections(target, count) as opened:
        await asyncio.gather(*map(send, opened, itertools.count()))


async def _share(
    target: Target, tokens: list[str], options: argparse.Namespace, figures: Figures
) -> None:
    """Measure the latency of one cluster, alone and beside a flood of another one."""

    def text(latencies: list[tuple[float, float]]) -> str:
        latencies = latencies[20:]  # the flood connects first
        pairs = []
        for each in zip(*latencies, strict=True):
            highest = statistics.quantiles(each, n=100)[98]
            pairs.append(f"{statistics.median(each) * 1e3:.1f} / {highest * 1e3:.1f} ms")
        return f"{pairs[0]}, {pairs[1]} of CPU"

    quiet = await _latencies(target, tokens[0], options.seconds)
    command = [
        sys.executable, "-m", "tests.bench.clusters", "--flood", str(options.connections),
        "--target", f"{target.port},{tokens[1]},{target.ca_file}",
    ]  # fmt: skip
    process = subprocess.Popen(command)  # noqa: ASYNC220 - it starts in a millisecond
    try:
        flooded = await _latencies(target, tokens[0], options.seconds)
    finally:
        process.terminate()
        process.wait(30)
    figures.alone, figures.flooded = text(quiet), text(flooded)
    print(
        f"GET of one cluster, p50 / p99, and CPU of the event loop meanwhile: {figures.alone} "
        f"alone, {figures.flooded} beside {options.connections} clients of another one"
    )


async def _replace(target: Target, numbers: range, figures: Figures) -> None:
    """Open clusters for which others close, and note the memory that the closed ones leave."""
    before = resident_mib(target.pids)
    for number, token in zip(numbers, await _tokens(target, numbers), strict=True):
        async with connections(replace(target, token=token), 1) as (connection,):
            path = f"/clusters/{_name(number)}/api/v1/namespaces"
            assert (await connection.request("GET", path)).status == 200
            await asyncio.sleep(START_SECONDS)
    await asyncio.sleep(SETTLE_SECONDS)
    figures.closed = (resident_mib(target.pids) - before) / len(numbers) * 1024
    print(f"{len(numbers)} others opened in place of them: {figures.closed:.0f} KiB more for each")


def _print_table(figures: Figures) -> None:
    first_answer = figures.create + figures.first
    rows = [
        ("create to first answer", f"{first_answer:.1f} ms of CPU", "20 ms"),
        ("idle cluster", f"{figures.idle:.1f} KiB", "50 KB"),
        ("active cluster", f"{figures.active:.2f} MiB", "3 MB"),
        ("closed cluster", f"{figures.closed:.0f} KiB", "0"),
        ("GET of a quiet cluster, p50 / p99", figures.alone, ""),
        ("the same beside a noisy one", figures.flooded, ""),
    ]
    print("\n| figure | measured | goal |\n| --- | --- | --- |")
    for row in rows:
        print(f"| {' | '.join(row)} |")


async def measure(target: Target, folder: Path, options: argparse.Namespace) -> None:
    """Run all steps."""
    figures = Figures()
    await _create(target, options.clusters, figures)
    size = sum(file.stat().st_size for file in (folder / "server" / "data").glob("kapiserver.db*"))
    print(f"files of the store: {size / 1e6:.0f} MB")
    tokens = await _tokens(target, range(options.active))
    points = await _open(target, tokens, figures)
    await _use(target, tokens, options.seconds)
    await _share(target, tokens, options, figures)
    await _replace(target, range(options.active, 2 * options.active), figures)
    _print_table(figures)
    if options.plot is not None:
        title = "memory of the server by the number of open clusters"
        lines = {"memory": points}
        options.plot.write_text(line_chart(title, lines, unit=" MiB", across=" clusters"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--storage", choices=STORES, default="sqlite")
    parser.add_argument("--clusters", type=int, default=10_000)
    parser.add_argument("--active", type=int, default=200, help="at most half of the clusters")
    parser.add_argument("--seconds", type=int, default=10, help="of each phase under load")
    parser.add_argument("--connections", type=int, default=64, help="of the flood")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--flags", nargs="*", default=[], help="of the server, without dashes")
    parser.add_argument("--flood", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--target", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Run the bench, or its flood."""
    options = _arguments()
    if options.flood:
        port, token, ca_file = options.target.split(",")
        target = Target(host="127.0.0.1", port=int(port), token=token, ca_file=ca_file, pids=[])
        asyncio.run(flood(target, options.flood))
        return
    flags = [
        "--enable-logical-clusters", "--logical-cluster-max-open", str(options.active),
        *(f"--{flag}" for flag in options.flags),
    ]  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as name,
        store(options.storage, Path(name)) as below,
        server(Path(name) / "server", below, flags) as (target, _),
    ):
        asyncio.run(measure(target, Path(name), options))


if __name__ == "__main__":
    main()
