"""What GETs cost processes that share their cores with others: `python -m tests.bench.neighbours`.

    python -m tests.bench.neighbours [--count 4] [--rounds 5]

A machine with fewer cores than a server has workers runs each of them with the processor's caches
full of what the others read. This counts as CPU time of GETs, although workers do no more than one
process does. So the same load goes to one process, to several servers that know nothing of each
other, each over an etcd of its own, and to one server with as many workers. What the workers cost
beyond the several servers is theirs. Each row is the CPU of all these processes for a GET, in us,
as the median of the rounds, with the lowest and the highest.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

from tests.bench import servers
from tests.bench.client import Connection, Target, connections, spread
from tests.bench.objects import configmap, ensure_namespace, path
from tests.bench.processes import cpu_seconds

CLIENTS = 64
REQUESTS = 8000
"""GETs that each server gets in a round, from CLIENTS clients; of several workers, each."""

Load = Sequence[tuple[Target, int]]
"""Servers that are under load at the same time, each with its share of the clients and requests: 1
for CLIENTS and REQUESTS."""


async def _get(connection: Connection, _: int) -> None:
    response = await connection.request("GET", path("configmaps", "one"))
    assert response.status == 200, response


async def _microseconds(load: Load) -> float:
    """Return the CPU of the servers for a GET."""
    async with AsyncExitStack() as stack:
        works = []
        for target, share in load:
            opened = await stack.enter_async_context(connections(target, int(CLIENTS * share)))
            await ensure_namespace(opened[0])
            await opened[0].request("POST", path("configmaps"), configmap("one"))
            await spread(opened, opened, lambda connection, _: _get(connection, 0))
            works.append((opened, range(int(REQUESTS * share))))
        pids = [pid for target, _ in load for pid in target.pids]
        before = cpu_seconds(pids)
        await asyncio.gather(*[spread(opened, numbers, _get) for opened, numbers in works])
        used = cpu_seconds(pids) - before
    return used / sum(len(numbers) for _, numbers in works) * 1e6


async def _measure(loads: Mapping[str, Load], rounds: int) -> None:
    figures: dict[str, list[float]] = {name: [] for name in loads}
    for _ in range(rounds):
        for name, load in loads.items():
            figures[name].append(await _microseconds(load))
    for name, row in figures.items():
        print(f"{name}: {statistics.median(row):.1f} ({min(row):.1f} to {max(row):.1f})")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.neighbours")
    parser.add_argument("--count", type=int, default=4, help="workers, and servers")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    count = options.count
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)

        def start(server: str, workers: int) -> Target:
            below = stack.enter_context(servers.store("etcd", folder / f"store-{server}"))
            flags = ["--workers", str(workers)]
            return stack.enter_context(servers.server(folder / server, below, flags))[0]

        several = [start(f"server-{number}", 1) for number in range(count)]
        workers = start("workers", count)
        loads: dict[str, Load] = {
            f"one process, {CLIENTS} clients": [(several[0], 1)],
            f"{count} servers, {CLIENTS} clients of all": [(each, 1 / count) for each in several],
            f"{count} workers, {CLIENTS} clients of all": [(workers, 1)],
            f"{count} servers, {CLIENTS} clients of each": [(each, 1) for each in several],
            f"{count} workers, {CLIENTS} clients of each": [(workers, count)],
        }
        asyncio.run(_measure(loads, options.rounds))


if __name__ == "__main__":
    main()
