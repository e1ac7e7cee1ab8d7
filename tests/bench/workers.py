"""What the worker processes of `--workers` cost, over etcd and PostgreSQL.

    python -m tests.bench.workers [--storage etcd] [--workers 4] [--rounds 10] [--busy]

Two servers, with one worker and with several, each over a store of its own, have the same mixed
load in turns (`tests/bench/mixed_load.py`). The table has the CPU of all processes of a server for
each request or event on top of that load, as the median of the rounds, and the ratio of each
round's pair: the median and the quartiles. Where it is 1, a machine with a core for each worker
serves so many times as much. What each worker does again, such as the receipt of an event for its
own cache, is the rest. With --busy each worker has as many clients and requests as the one process
has; without it, all workers together.

The table has counts besides, which other programs change less: how often a process of the server
went to sleep for a request, and was woken again, and how often etcd was read.

Memory is that of servers that start over one store with many pods, when all workers have listed
them, and when they have shared what they can and returned free memory. A page that several
processes share counts once.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import urllib.request
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from pathlib import Path

from kapiserver.apiserver.serving.process.memory import TRIM_SECONDS
from kapiserver.storage.cache.sharing import LOOK_SECONDS
from tests.bench import measures, servers
from tests.bench.client import JSON, PROTOBUF, Target, connections
from tests.bench.mixed_load import CONNECTIONS, MORE, WATCHERS, MixedLoad, mixed_load
from tests.bench.objects import path
from tests.bench.processes import proportional_mib, sleeps

STORES = ("etcd", "postgresql")
EVENTS = "events"

CHANGES = (10, 100)
"""Changes a second that all watchers get; the more, the more of them share a write."""
WATCH_SECONDS = 5.0
SETTLE_SECONDS = 2 * LOOK_SECONDS + 2 * TRIM_SECONDS
"""When workers have shared what they have cached, and freed the rest."""

SLEEPS, READS = "sleeps of server", "reads of etcd"
_RANGES = "etcd_mvcc_range_total "

Costs = dict[str, dict[str, float]]
"""For each request or event, by kind: microseconds of CPU by process, and counts by name."""


class _Counts:
    """Counts what the processes of a server do in a window (`counters.Counter`)."""

    def __init__(self, target: Target, etcd: str | None) -> None:
        """`etcd` is its URL, or None."""
        self._target = target
        self._etcd = etcd

    def start(self) -> None:
        self._before = self._read()

    def stop(self) -> dict[str, float]:
        return {name: count - self._before[name] for name, count in self._read().items()}

    def _read(self) -> dict[str, float]:
        counts: dict[str, float] = {SLEEPS: sleeps(self._target.pids)}
        if self._etcd is not None:
            with urllib.request.urlopen(f"{self._etcd}/metrics") as response:
                lines = response.read().decode().splitlines()
            counts[READS] = float(
                next(line for line in lines if line.startswith(_RANGES)).split()[1]
            )
        return counts


async def _request_costs(load: MixedLoad, storage: str, kinds: Sequence[str]) -> Costs:
    costs = {}
    for kind in kinds:
        few, many, count = await load.windows(kind)
        costs[kind] = {
            "CPU of server": (many.server - few.server) / count * 1e6,
            f"CPU of {storage}": (many.store - few.store) / count * 1e6,
            **{name: (many.events[name] - few.events[name]) / count for name in many.events},
        }
    return costs


async def _event_costs(target: Target) -> Costs:
    """Measure without the watches of a load, which would get the events, too."""
    costs = {}
    for rate in CHANGES:
        figures = await measures.watch(target, WATCH_SECONDS, count=WATCHERS, rate=rate)
        costs[_event(rate)] = {"CPU of server": figures["server us"]}
    return costs


def _event(rate: int) -> str:
    return f"event to one of {WATCHERS} watchers, {rate} changes/s"


def _row(title: str, one: list[float], several: list[float], unit: str) -> str:
    ratios = [after / before for before, after in zip(one, several, strict=True) if before > 0]
    medians = [f"{statistics.median(figures):.4g} {unit}" for figures in (one, several)]
    # Doubled, because a single ratio has no quartiles.
    low, middle, high = statistics.quantiles(ratios * 2 or [0, 0], n=4, method="inclusive")
    return f"| {title} | {medians[0]} | {medians[1]} | {middle:.2f} ({low:.2f} to {high:.2f}) |"


async def _measure_costs(storage: str, options: argparse.Namespace, folder: Path) -> None:
    with ExitStack() as stack:
        targets = []
        for count in (1, options.workers):
            below = stack.enter_context(servers.store(storage, folder / f"store-{count}"))
            flags = ["--workers", str(count)]
            running = servers.server(folder / f"server-{count}", below, flags, tree=options.tree)
            target, _ = stack.enter_context(running)
            counter = _Counts(target, below.flags[1] if storage == "etcd" else None)
            targets.append(replace(target, counter=counter))
        kinds = [kind for kind in MORE if kind in options.only]
        requests = await _request_rounds(targets, kinds, options, storage)
        rounds = range(options.rounds if EVENTS in options.only else 0)
        events = [[await _event_costs(target) for target in targets] for _ in rounds]
    _print_costs(requests)
    _print_costs(events)


async def _request_rounds(
    targets: Sequence[Target], kinds: Sequence[str], options: argparse.Namespace, storage: str
) -> list[list[Costs]]:
    times = (1, options.workers if options.busy else 1)
    async with AsyncExitStack() as stack:
        loads = [
            await stack.enter_async_context(mixed_load(*load))
            for load in zip(targets, times, strict=True)
        ]
        return [
            [await _request_costs(load, storage, kinds) for load in loads]
            for _ in range(options.rounds if kinds else 0)
        ]


def _print_costs(rounds: list[list[Costs]]) -> None:
    for kind, figures in rounds[0][0].items() if rounds else ():
        for name in figures:
            one, several = ([row[at][kind][name] for row in rounds] for at in (0, 1))
            unit = "us" if name.startswith("CPU") else ""
            print(_row(f"{kind}, {name}", one, several, unit), flush=True)


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
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", nargs="+", choices=(*MORE, EVENTS), default=(*MORE, EVENTS))
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
