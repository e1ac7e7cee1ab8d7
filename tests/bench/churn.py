"""A server under steady writes: do its store and its memory stop growing?

    python -m tests.bench.churn --storage postgresql --minutes 30 --rate 200 --plot FILE.svg

Starts a server process over a store, with its default compaction interval and a number of
ConfigMaps of 1 KB. Of every ten writes eight are updates, one is a create and one a delete, at a
constant rate. Each sample prints a line: the sizes of the files or tables of the store, the memory
of the server, the number of writes, and their latencies. The plot shows the sizes. Linux only
(memory is read from /proc).
"""

import argparse
import asyncio
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.client import Connection, Target, connections, spread
from tests.bench.objects import configmap, ensure_namespace, path
from tests.bench.plots import line_chart
from tests.bench.processes import Window, resident_mib
from tests.bench.servers import server, store
from tests.bench.sizes import WAL, Sizes, sizes_of

STORES = ("sqlite", "postgresql")


@dataclass(slots=True, kw_only=True)
class Churn:
    """The current objects, oldest first, and the latencies of the writes."""

    alive: deque[str] = field(default_factory=deque)
    created: int = 0
    writes: int = 0
    latencies: list[float] = field(default_factory=list)

    async def create(self, connection: Connection) -> None:
        """Create an object."""
        self.created += 1
        name = f"churn-{self.created}"
        await self._send(connection, "POST", path("configmaps"), configmap(name))
        self.alive.append(name)

    async def delete(self, connection: Connection) -> None:
        """Delete the oldest object."""
        await self._send(connection, "DELETE", path("configmaps", self.alive.popleft()))

    async def update(self, connection: Connection) -> None:
        """Update the oldest object, and move it to the end of the queue."""
        name = self.alive.popleft()
        body = configmap(name)
        body["data"]["level"] = f"{time.time_ns()}"
        await self._send(connection, "PUT", path("configmaps", name), body)
        self.alive.append(name)

    async def _send(
        self, connection: Connection, method: str, path: str, body: object = None
    ) -> None:
        start = time.perf_counter()
        response = await connection.request(method, path, body)
        if response.status not in (200, 201):
            raise SystemExit(f"{method} {path}: {response.status} {response.body[:300]!r}")
        self.latencies.append(time.perf_counter() - start)
        self.writes += 1


_TURN = (Churn.create, *[Churn.update] * 4, Churn.delete, *[Churn.update] * 4)


async def churn(
    target: Target,
    measure: Callable[[], Awaitable[Sizes]],
    options: argparse.Namespace,
) -> dict[str, list[tuple[float, float]]]:
    """Write for a number of minutes and print a line per sample. Return the sizes by name, without
    those of write-ahead logs: pairs of minutes and megabytes."""
    state = Churn()
    lines: dict[str, list[tuple[float, float]]] = {}
    async with connections(target, 32) as opened:
        await ensure_namespace(opened[0])
        await spread(opened, range(options.objects), lambda each, _: state.create(each))
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for connection in opened:
            free.put_nowait(connection)

        async def write(number: int) -> None:
            connection = await free.get()
            await _TURN[number % len(_TURN)](state, connection)
            free.put_nowait(connection)

        start = time.perf_counter()
        number = 0
        for sample in range(int(options.minutes * 60 / options.every)):
            with Window(target.pids, target.store_pids) as window:
                async with asyncio.TaskGroup() as writes:
                    deadline = (sample + 1) * options.every
                    while (at := number / options.rate) < deadline:
                        await asyncio.sleep(max(0.0, start + at - time.perf_counter()))
                        writes.create_task(write(number))
                        number += 1
            minute = (time.perf_counter() - start) / 60
            sizes = await measure()
            for name in (each for each in sizes if each != WAL):
                lines.setdefault(name, []).append((minute, sizes[name]))
            columns = {"minute": minute, **_columns(state, sizes, target, window)}
            _print(columns, with_head=sample == 0)
    return lines


def _columns(state: Churn, sizes: Sizes, target: Target, window: Window) -> dict[str, float]:
    """Return the figures of a sample by name, and forget the latencies."""
    latencies, state.latencies = sorted(state.latencies), []
    return {
        "writes": state.writes,
        **{f"{name} MB": size for name, size in sizes.items()},
        "RSS MiB": resident_mib(target.pids),
        "server %": 100 * window.server / window.wall,
        "store %": 100 * window.store / window.wall,
        "p50 ms": latencies[len(latencies) // 2] * 1e3,
        "p99 ms": latencies[int(len(latencies) * 0.99)] * 1e3,
    }


def _print(columns: dict[str, float], *, with_head: bool) -> None:
    if with_head:
        print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    cells = (f"{n:.0f}" if isinstance(n, int) else f"{n:.1f}" for n in columns.values())
    print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--storage", choices=STORES, default="sqlite")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=200, help="writes a second")
    parser.add_argument("--objects", type=int, default=5000, help="held all the time")
    parser.add_argument("--every", type=float, default=30, help="seconds between two lines")
    parser.add_argument("--plot", type=Path, help="where the plot is written, as SVG")
    parser.add_argument("--server", nargs=argparse.REMAINDER, default=[], help="flags for `serve`")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as scratch,
        store(options.storage, Path(scratch)) as below,
        server(Path(scratch), below, options.server) as (target, _started),
    ):
        lines = asyncio.run(churn(target, sizes_of(below, Path(scratch)), options))
    if options.plot is not None:
        minutes = max(line[-1][0] for line in lines.values())
        rate = options.rate * options.minutes / minutes  # a busy machine takes longer
        title = f"{options.storage}: sizes at {rate:.0f} writes per second"
        options.plot.write_text(line_chart(title, lines, unit=" MB", across=" min"))


if __name__ == "__main__":
    main()
