"""Many writers of few objects: what do they get, and how long do the unluckiest wait?

    python -m tests.bench.contention --storage etcd --servers 2 --verb patch

Connections write the same few ConfigMaps without a resourceVersion, then a hundred of them. A line
has the writes per second, the latencies, and the responses other than 200. With `--servers 2` the
connections are spread over two servers on one etcd, so that writers of both race. The client is
written in Python and shares the machine: compare the two lines.
"""

import argparse
import asyncio
import contextlib
import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.client import Connection, Target, connections
from tests.bench.objects import configmap, ensure_namespace, path
from tests.bench.servers import STORES, server, store

MERGE_PATCH = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
VERBS = ("put", "patch", "apply")


async def _write(connection: Connection, verb: str, name: str, number: int) -> int:
    value = {"level": str(number)}
    if verb == "patch":
        response = await connection.request(
            "PATCH", path("configmaps", name), {"data": value}, content_type=MERGE_PATCH
        )
    elif verb == "apply":
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": value}
        url = f"{path('configmaps', name)}?fieldManager=bench&force=true"
        response = await connection.request("PATCH", url, body, content_type=APPLY)
    else:
        body = configmap(name)
        body["data"] |= value
        response = await connection.request("PUT", path("configmaps", name), body)
    return response.status


async def measure(
    opened: Sequence[Connection], verb: str, objects: int, seconds: float
) -> tuple[int, list[float], Counter[int]]:
    """Write `objects` objects over all connections; return the number of writes, their latencies,
    and the number of responses by status."""
    numbers, statuses, latencies = itertools.count(), Counter[int](), list[float]()
    end = time.perf_counter() + seconds

    async def run(connection: Connection) -> None:
        while (start := time.perf_counter()) < end:
            number = next(numbers)
            statuses[await _write(connection, verb, f"hot-{number % objects}", number)] += 1
            latencies.append(time.perf_counter() - start)

    await asyncio.gather(*map(run, opened))
    return statuses[200], sorted(latencies), statuses


async def _compare(targets: Sequence[Target], options: argparse.Namespace) -> None:
    async with contextlib.AsyncExitStack() as stack:
        opened: list[Connection] = []
        for target in targets:
            count = options.connections // len(targets)
            opened += await stack.enter_async_context(connections(target, count))
        await ensure_namespace(opened[0])
        for number in range(options.many):
            await opened[0].request("POST", path("configmaps"), configmap(f"hot-{number}"))
        print("| objects | writes/s | p50 ms | p99 ms | longest ms | other responses |")
        print("|---|---|---|---|---|---|")
        for objects in (options.few, options.many) * options.rounds:
            writes, latencies, statuses = await measure(
                opened, options.verb, objects, options.seconds
            )
            p50, p99 = (latencies[int(len(latencies) * part)] * 1e3 for part in (0.5, 0.99))
            del statuses[200]
            print(
                f"| {objects} | {writes / options.seconds:.0f} | {p50:.0f} | {p99:.0f} "
                f"| {latencies[-1] * 1e3:.0f} | {dict(statuses)} |",
                flush=True,
            )


@contextlib.contextmanager
def _servers(options: argparse.Namespace) -> Iterator[list[Target]]:
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        below = stack.enter_context(store(options.storage, scratch))
        folder = scratch / "server"  # shared, because servers of one etcd share their certificates
        yield [
            stack.enter_context(server(folder, below, options.server))[0]
            for _ in range(options.servers)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--storage", choices=STORES, default="sqlite")
    parser.add_argument("--servers", type=int, default=1, help="more than one needs etcd")
    parser.add_argument("--verb", choices=VERBS, default="put")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--few", type=int, default=3, help="objects under contention")
    parser.add_argument("--many", type=int, default=100, help="objects of the comparison")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--server", nargs=argparse.REMAINDER, default=[], help="flags for `serve`")
    options = parser.parse_args()
    with _servers(options) as targets:
        asyncio.run(_compare(targets, options))


if __name__ == "__main__":
    main()
