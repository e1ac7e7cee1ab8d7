"""A server over a SQLite file under steady writes: do the file and the memory stop growing?

    python -m tests.bench.churn --minutes 30 --rate 200

Starts a server process with its default compaction interval and a number of ConfigMaps of 1 KB. Of
every ten writes eight are updates, one is a create and one a delete, at a constant rate. Each
sample prints a line: the size of the file and of the write-ahead log, the server's memory, the
number of writes, and their latencies. Linux only (memory is read from /proc).
"""

import argparse
import asyncio
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.client import Connection, Target, connections, spread
from tests.bench.objects import configmap, ensure_namespace, path
from tests.bench.processes import Window, resident_mib
from tests.bench.servers import Store, server

COLUMNS = ("minute", "writes", "file MB", "WAL MB", "RSS MiB", "server %", "p50 ms", "p99 ms")


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
    target: Target, file: Path, *, minutes: float, rate: float, objects: int, every: float
) -> None:
    """Write for a number of minutes; print a line per sample."""
    state = Churn()
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), flush=True)
    async with connections(target, 32) as opened:
        await ensure_namespace(opened[0])
        await spread(opened, range(objects), lambda connection, _: state.create(connection))
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for stack_connection in opened:
            free.put_nowait(stack_connection)

        async def write(number: int) -> None:
            connection = await free.get()
            await _TURN[number % len(_TURN)](state, connection)
            free.put_nowait(connection)

        start = time.perf_counter()
        number = 0
        for sample in range(int(minutes * 60 / every)):
            with Window(target.pids) as window:
                async with asyncio.TaskGroup() as writes:
                    deadline = (sample + 1) * every
                    while (at := number / rate) < deadline:
                        await asyncio.sleep(max(0.0, start + at - time.perf_counter()))
                        writes.create_task(write(number))
                        number += 1
            _print(state, file, target, (time.perf_counter() - start) / 60, window)


def _print(state: Churn, file: Path, target: Target, minute: float, window: Window) -> None:
    latencies, state.latencies = sorted(state.latencies), []
    wal = Path(f"{file}-wal")
    values = (
        minute,
        state.writes,
        file.stat().st_size / 1e6,
        wal.stat().st_size / 1e6 if wal.exists() else 0,
        resident_mib(target.pids),
        100 * window.server / window.wall,
        latencies[len(latencies) // 2] * 1e3,
        latencies[int(len(latencies) * 0.99)] * 1e3,
    )
    cells = (f"{figure:.0f}" if isinstance(figure, int) else f"{figure:.1f}" for figure in values)
    print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=200, help="writes a second")
    parser.add_argument("--objects", type=int, default=5000, help="held all the time")
    parser.add_argument("--every", type=float, default=30, help="seconds between two lines")
    parser.add_argument("--server", nargs=argparse.REMAINDER, default=[], help="flags for `serve`")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as scratch,
        server(Path(scratch), Store(), options.server) as (target, _started),
    ):
        asyncio.run(
            churn(
                target,
                Path(scratch) / "data" / "kapiserver.db",
                minutes=options.minutes,
                rate=options.rate,
                objects=options.objects,
                every=options.every,
            )
        )


if __name__ == "__main__":
    main()
