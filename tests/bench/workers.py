"""How reads, writes and watches scale with the worker processes of `--workers`, over etcd.

    python -m tests.bench.workers [--workers 2] [--rounds 3] [--seconds 2]

Two servers, with one worker and with several, each over an etcd of its own, are loaded in turns.
CPU is that of all processes of the server for each request or event. Where it is equal, a machine
with a core for each worker serves so many times as much; what each worker does again, such as the
decoding of an event for its own cache, shows as a ratio above 1. Requests per second are limited
by the client, which runs on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

from tests.bench import measures, servers
from tests.bench.client import JSON, Target
from tests.bench.measures import Figures

CONNECTIONS = 64
WATCHERS = 1000
Measure = Callable[[Target, float], Awaitable[Figures]]


async def _memory(target: Target, _seconds: float) -> Figures:
    return measures.memory(target)


MEASURES: tuple[tuple[str, Measure, tuple[str, ...]], ...] = (
    ("memory when ready", _memory, ("MiB",)),
    (
        "GET configmap",
        lambda target, seconds: measures.get(
            target, seconds, resource="configmaps", accept=JSON, count=CONNECTIONS
        ),
        ("per s", "server us"),
    ),
    (
        "create configmap",
        lambda target, seconds: measures.create(target, seconds, count=CONNECTIONS),
        ("per s", "server us"),
    ),
    (
        "watch, 1,000 watchers x 10 changes/s",
        lambda target, seconds: measures.watch(target, seconds, count=WATCHERS, rate=10),
        ("server us", "p99 ms"),
    ),
    (
        "watch, 1,000 watchers x 100 changes/s",
        lambda target, seconds: measures.watch(target, seconds, count=WATCHERS, rate=100),
        ("server us", "p99 ms"),
    ),
    ("memory after all rows", _memory, ("MiB",)),
)


async def _measure(workers: int, rounds: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        targets = []
        for count in (1, workers):
            below = stack.enter_context(servers.store("etcd", folder / f"store-{count}"))
            flags = ["--workers", str(count)]
            running = servers.server(folder / f"server-{count}", below, flags)
            targets.append(stack.enter_context(running)[0])
        print(
            f"| work | figure | 1 worker | {workers} workers | ratio |\n|{' --- |' * 5}", flush=True
        )
        for title, measure, names in MEASURES:
            rows: list[list[Figures]] = [[], []]
            for _ in range(rounds):
                for target, row in zip(targets, rows, strict=True):
                    row.append(await measure(target, seconds))
            for figure in names:
                one, several = (statistics.median(each[figure] for each in row) for row in rows)
                ratio = several / one
                print(
                    f"| {title} | {figure} | {one:.4g} | {several:.4g} | {ratio:.2f} |", flush=True
                )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.workers")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    asyncio.run(_measure(options.workers, options.rounds, options.seconds))


if __name__ == "__main__":
    main()
