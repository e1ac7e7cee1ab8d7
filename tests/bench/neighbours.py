"""What requests cost processes that share cores with others: `python -m tests.bench.neighbours`.

    python -m tests.bench.neighbours [--count 4] [--rounds 5] [--only GET create PUT]

A machine with fewer cores than a server has workers runs each of them with the processor's caches
full of what the others read. This counts as CPU time of requests, although workers do no more than
one process does. So the same load goes to one process, to several servers that know nothing of each
other, each over an etcd of its own, and to one server with as many workers. What the workers cost
beyond the several servers is theirs. A figure is the CPU of all these processes for a request, in
us, as the median of the rounds, with the lowest and the highest.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path

from tests.bench import servers
from tests.bench.client import Connection, Target, connections, spread
from tests.bench.mixed_load import CONNECTIONS, OBJECTS
from tests.bench.objects import configmap, ensure_namespace, path
from tests.bench.processes import cpu_seconds

REQUESTS = {"GET": 8000, "create": 1500, "PUT": 1500}
"""Requests that each server gets in a round, from CONNECTIONS clients; of several workers, each."""

Load = Sequence[tuple[Target, float]]
"""Servers that are under load at the same time, each with its share of the clients and requests: 1
for CONNECTIONS and REQUESTS."""

_numbers = itertools.count(time.time_ns() // 1000)


async def _create_object(connection: Connection, number: int) -> None:
    await connection.request("POST", path("configmaps"), configmap(f"put-{number}"))


async def _send(kind: str, connection: Connection, number: int) -> None:
    """Send one request."""
    name, status = f"put-{number % OBJECTS}", 200
    if kind == "GET":
        response = await connection.request("GET", path("configmaps", name))
    elif kind == "create":
        body, status = configmap(f"c-{next(_numbers)}"), 201
        response = await connection.request("POST", path("configmaps"), body)
    else:
        body = configmap(name)
        body["data"]["level"] = str(next(_numbers))
        response = await connection.request("PUT", path("configmaps", name), body)
    assert response.status == status, response


async def _microseconds(load: Load, kind: str) -> float:
    """Return the CPU of the servers for a request."""
    async with AsyncExitStack() as stack:
        works = []
        for target, share in load:
            opened = await stack.enter_async_context(connections(target, int(CONNECTIONS * share)))
            await ensure_namespace(opened[0])
            send = partial(_send, kind)
            await spread(opened, range(OBJECTS), _create_object)
            await spread(opened, range(len(opened)), send)
            works.append((opened, range(int(REQUESTS[kind] * share)), send))
        pids = [pid for target, _ in load for pid in target.pids]
        before = cpu_seconds(pids)
        await asyncio.gather(*[spread(*work) for work in works])
        used = cpu_seconds(pids) - before
    return used / sum(len(numbers) for _, numbers, _ in works) * 1e6


async def _measure(loads: Mapping[str, Load], rounds: int, kinds: Sequence[str]) -> None:
    print(f"| CPU in us | {' | '.join(kinds)} |\n|{' --- |' * (len(kinds) + 1)}")
    figures: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(rounds):
        for (name, load), kind in itertools.product(loads.items(), kinds):
            figures[name, kind].append(await _microseconds(load, kind))
    for name in loads:
        rows = [figures[name, kind] for kind in kinds]
        cells = [f"{statistics.median(row):.0f} ({min(row):.0f} to {max(row):.0f})" for row in rows]
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.neighbours")
    parser.add_argument("--count", type=int, default=4, help="workers, and servers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=tuple(REQUESTS), default=tuple(REQUESTS))
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
            f"one process, {CONNECTIONS} clients": [(several[0], 1)],
            f"{count} servers, {CONNECTIONS} clients of all": [
                (each, 1 / count) for each in several
            ],
            f"{count} workers, {CONNECTIONS} clients of all": [(workers, 1)],
            f"{count} servers, {CONNECTIONS} clients of each": [(each, 1) for each in several],
            f"{count} workers, {CONNECTIONS} clients of each": [(workers, count)],
        }
        asyncio.run(_measure(loads, options.rounds, options.only))


if __name__ == "__main__":
    main()
