"""What the worker processes of `--workers` cost, over etcd and PostgreSQL.

    python -m tests.bench.workers [--storage etcd] [--workers 4] [--rounds 5] [--busy]

Two servers, with one worker and with several, each over a store of its own, have the same mixed
load in turns (`tests/bench/mixed_load.py`). The table has the CPU of all processes of a server for
each request or event on top of that load, as the median of the rounds, and the ratio of each
round's pair: the median with the lowest and the highest. Where it is 1, a machine with a core for
each worker serves so many times as much. What each worker does again, such as the receipt of an
event for its own cache, is the rest. With --busy each worker has as many clients and requests as
the one process has; without it, all workers together.

Memory is that of servers that start over one store with many pods, when all workers have listed
them, and when they have shared what they can and returned free memory. A page that several
processes share counts once.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

from kapiserver.apiserver.serving.process.memory import TRIM_SECONDS
from kapiserver.storage.cache.sharing import LOOK_SECONDS
from tests.bench import measures, servers
from tests.bench.client import JSON, PROTOBUF, Target, connections
from tests.bench.mixed_load import ADDED, CONNECTIONS, WATCHERS, MixedLoad, mixed_load
from tests.bench.objects import path
from tests.bench.processes import proportional_mib

STORES = ("etcd", "postgresql")

CHANGES = (10, 100)
"""Changes a second that all watchers get; the more, the more of them share a write."""
WATCH_SECONDS = 2.0
SETTLE_SECONDS = 2 * LOOK_SECONDS + 2 * TRIM_SECONDS
"""When workers have shared what they have cached, and freed the rest."""

Costs = dict[str, tuple[float, float]]
"""Microseconds of the server and of its store for each request or event, by kind. Those of the
store for an event are not measured."""


async def _request_costs(load: MixedLoad) -> Costs:
    base = await load.window()
    costs = {}
    for kind, count in ADDED.items():
        window = await load.window(kind)
        costs[kind] = (
            (window.server - base.server) / (count * load.times) * 1e6,
            (window.store - base.store) / (count * load.times) * 1e6,
        )
    return costs


async def _event_costs(target: Target) -> Costs:
    """Measure without the watches of a load, which would get the events, too."""
    costs = {}
    for rate in CHANGES:
        figures = await measures.watch(target, WATCH_SECONDS, count=WATCHERS, rate=rate)
        costs[_event(rate)] = (figures["server us"], 0.0)
    return costs


def _event(rate: int) -> str:
    return f"event to one of {WATCHERS} watchers, {rate} changes/s"


def _row(title: str, one: list[float], several: list[float], unit: str) -> str:
    # The store's CPU for a GET is little beside that of the background, and may come out as none.
    ratios = [after / max(before, 1.0) for before, after in zip(one, several, strict=True)]
    medians = [f"{statistics.median(figures):.4g} {unit}" for figures in (one, several)]
    ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    return f"| {title} | {medians[0]} | {medians[1]} | {ratio} |"


async def _measure_costs(storage: str, options: argparse.Namespace, folder: Path) -> None:
    with ExitStack() as stack:
        targets = []
        for count in (1, options.workers):
            below = stack.enter_context(servers.store(storage, folder / f"store-{count}"))
            flags = ["--workers", str(count)]
            running = servers.server(folder / f"server-{count}", below, flags, tree=options.tree)
            targets.append(stack.enter_context(running)[0])
        requests = await _request_rounds(targets, options)
        events = [[await _event_costs(target) for target in targets] for _ in range(options.rounds)]
    _print_costs(requests, ADDED, storage)
    _print_costs(events, map(_event, CHANGES), storage)


async def _request_rounds(
    targets: Sequence[Target], options: argparse.Namespace
) -> list[list[Costs]]:
    times = (1, options.workers if options.busy else 1)
    async with AsyncExitStack() as stack:
        loads = [
            await stack.enter_async_context(mixed_load(*load))
            for load in zip(targets, times, strict=True)
        ]
        return [[await _request_costs(load) for load in loads] for _ in range(options.rounds)]


def _print_costs(rounds: list[list[Costs]], kinds: Iterable[str], storage: str) -> None:
    for kind in kinds:
        for index, process in enumerate(("server", storage)):
            one, several = ([row[at][kind][index] for row in rounds] for at in (0, 1))
            if any(one):
                print(_row(f"{kind}, CPU of {process}", one, several, "us"), flush=True)


async def _list_everywhere(target: Target, accept: str) -> None:
    """List all pods, one list after the other, on as many connections as reach every worker."""
    url = path("pods", namespace=measures.LIST_NAMESPACE)
    for _ in range(CONNECTIONS // 2):
        async with connections(target, 1) as (connection,):
            response = await connection.request("GET", url, accept=accept)
            assert response.status == 200, response.body[:300]


async def _measure_memory(storage: str, options: argparse.Namespace, folder: Path) -> None:
    steps = ("ready", "pods listed in Protobuf", "pods listed in JSON")
    with servers.store(storage, folder / "store") as below:
        with servers.server(folder / "seed", below, [], tree=options.tree) as (target, _):
            await measures.seed_pods(target, options.pods)
        rows: list[list[float]] = []
        for count in (1, options.workers):
            flags = ["--workers", str(count)]
            with servers.server(folder / f"memory-{count}", below, flags, tree=options.tree) as (
                target,
                _,
            ):
                figures = [proportional_mib(target.pids)]
                for accept in (PROTOBUF, JSON):
                    await _list_everywhere(target, accept)
                    await asyncio.sleep(SETTLE_SECONDS)
                    figures.append(proportional_mib(target.pids))
            rows.append(figures)
    for step, one, several in zip(steps, *rows, strict=True):
        print(_row(f"memory, {step}", [one], [several], "MiB"), flush=True)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.workers")
    parser.add_argument("--storage", choices=STORES, action="append")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pods", type=int, default=10_000, help="0 measures no memory")
    parser.add_argument("--busy", action="store_true", help="as many clients for each worker")
    parser.add_argument("--tree", type=Path, default=servers.ROOT, help="checkout that is measured")
    options = parser.parse_args()
    for storage in options.storage or STORES:
        print(f"| {storage} | 1 worker | {options.workers} workers | ratio |\n|{' --- |' * 4}")
        with tempfile.TemporaryDirectory() as name:
            if options.rounds:
                asyncio.run(_measure_costs(storage, options, Path(name)))
            if options.pods:
                asyncio.run(_measure_memory(storage, options, Path(name)))


if __name__ == "__main__":
    main()
