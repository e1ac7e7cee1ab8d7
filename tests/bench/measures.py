"""The measures: one coroutine each, which returns named figures of one window.

CPU figures are the server's own; the name has the unit. Throughput is limited by this client, which
is written in Python too: compare the server's CPU per request, not requests per second.
"""

import asyncio
import itertools
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import orjson

from kapiserver.api.meta.v1 import ListMeta
from kapiserver.codecs.protobuf import serializer as protobuf
from kapiserver.codecs.protobuf.messages import message_decoder
from kapiserver.codecs.protobuf.wire import read_varint
from tests.bench.client import JSON, Channel, Connection, Response, Target, connections, spread
from tests.bench.objects import configmap, create_pod, ensure_namespace, path
from tests.bench.processes import Window, cpu_seconds, resident_mib

Figures = dict[str, float]
PERCENTILES = {f"p{percent:g} ms": percent for percent in (1, 5, 10, 25, 50, 75, 90, 95, 98, 99)}
"""Percentiles of latencies, in percent, by the names of their figures."""
LIST_NAMESPACE = "bench-list"
WATCH_NAMESPACE = "bench-watch"
_FOLDER = Path(__file__).parent


async def loop(
    target: Target,
    count: int,
    seconds: float,
    send: Callable[[Connection], Awaitable[None]],
) -> Figures:
    """Send requests one after another on each of `count` connections, for some seconds or as many
    as the target says."""
    async with connections(target, target.channels(count)) as opened:
        return await load(target, seconds, opened, send)


async def load(
    target: Target,
    seconds: float,
    channels: Sequence[Channel],
    send: Callable[[Channel], Awaitable[None]],
) -> Figures:
    """Send requests one after another on each channel, a connection or a stream of one."""
    latencies: list[float] = []

    async def run(channel: Channel, start: float) -> None:
        await send(channel)
        latencies.append(time.perf_counter() - start)

    await spread(channels, _starts(target, 0.5), run)
    latencies.clear()
    with target.window() as window:
        await spread(channels, _starts(target, seconds), run)
    latencies.sort()
    return {
        "per s": len(latencies) / window.wall,
        **cost(target, window, "us", len(latencies)),
        **{
            name: latencies[int(len(latencies) * percent / 100)] * 1e3
            for name, percent in PERCENTILES.items()
        },
    }


def _starts(target: Target, seconds: float) -> Iterator[float]:
    """Yield the time at which each request of a window starts."""
    if target.requests:
        for _ in range(target.requests):
            yield time.perf_counter()
        return
    deadline = time.perf_counter() + seconds
    while (start := time.perf_counter()) < deadline:
        yield start


async def get(target: Target, seconds: float, *, resource: str, accept: str, count: int) -> Figures:
    """GET one object."""
    async with connections(target, 1) as (connection,):
        await ensure_namespace(connection)
        await connection.request("POST", path("configmaps"), configmap("one"))
        await create_pod(connection, 7, name="one")

    async def send(connection: Connection) -> None:
        response = await connection.request("GET", path(resource, "one"), accept=accept)
        assert response.status == 200, response

    return await loop(target, count, seconds, send)


async def create(target: Target, seconds: float, *, count: int) -> Figures:
    """Create ConfigMaps of 1 KB."""
    async with connections(target, 1) as (connection,):
        await ensure_namespace(connection)
    template = orjson.dumps(configmap("@NAME@"))
    numbers = itertools.count(time.time_ns() // 1000)  # longer ones would be no usual names

    async def send(connection: Connection) -> None:
        body = template.replace(b"@NAME@", b"c-%d" % next(numbers))
        response = await connection.request("POST", path("configmaps"), body)
        assert response.status == 201, response

    return await loop(target, count, seconds, send)


async def put(target: Target, seconds: float, *, count: int) -> Figures:
    """PUT 200 ConfigMaps of 1 KB in turn without a resourceVersion, with a change in each."""
    async with connections(target, 16) as opened:
        await ensure_namespace(opened[0])

        async def make(connection: Connection, number: int) -> None:
            await connection.request("POST", path("configmaps"), configmap(f"put-{number}"))

        await spread(opened, range(200), make)
    numbers = itertools.count()

    async def send(connection: Connection) -> None:
        number = next(numbers)
        body = configmap(f"put-{number % 200}")
        body["data"]["level"] = f"{time.time_ns()}"
        response = await connection.request("PUT", path("configmaps", f"put-{number % 200}"), body)
        assert response.status == 200, response

    return await loop(target, count, seconds, send)


async def seed_pods(target: Target, count: int) -> Figures:
    """Create pods and their status; existing ones are kept."""
    async with connections(target, 16) as opened:
        await ensure_namespace(opened[0], LIST_NAMESPACE)

        async def make(connection: Connection, number: int) -> None:
            await create_pod(connection, number, namespace=LIST_NAMESPACE)

        with target.window() as window:
            await spread(opened, range(count), make)
    return {
        "wall s": window.wall,
        "writes per s": 2 * count / window.wall,
        **cost(target, window, "us", 2 * count),
    }


def continue_token(response: Response, accept: str) -> str:
    if accept == JSON:
        return orjson.loads(response.body)["metadata"].get("continue", "")
    # A list begins with its metadata, after a tag of one byte.
    raw = protobuf.read_envelope(response.body).raw
    length, at = read_varint(raw, 1)
    return message_decoder(ListMeta)(raw[at : at + length]).get("continue", "")


async def list_pods(target: Target, seconds: float, *, accept: str, query: str) -> Figures:
    """LIST all seeded pods at once, or in pages if the query has a limit."""
    url = path("pods", namespace=LIST_NAMESPACE) + query

    async def read(connection: Connection) -> int:
        size, token = 0, ""
        while True:
            continue_query = f"&continue={token}" if token else ""
            response = await connection.request("GET", url + continue_query, accept=accept)
            assert response.status == 200, response.body[:300]
            size += len(response.body)
            token = continue_token(response, accept) if "limit=" in query else ""
            if not token:
                return size

    return await repeat(target, seconds, read)


async def repeat(
    target: Target, seconds: float, read: Callable[[Connection], Awaitable[int]]
) -> Figures:
    """Read on one connection until the seconds have passed, at least once. `read` returns the bytes
    that it has received; the figures are those of one read."""
    async with connections(target, 1) as (connection,):
        sizes: list[int] = []
        with target.window() as window:
            deadline = time.perf_counter() + seconds
            while not sizes or time.perf_counter() < deadline:
                sizes.append(await read(connection))
    return {
        "wall s": window.wall / len(sizes),
        **cost(target, window, "s", len(sizes)),
        "MB": sum(sizes) / len(sizes) / 1e6,
    }


async def later_list(target: Target, seconds: float, *, accept: str, query: str) -> Figures:
    """LIST like `list_pods`, after a list of the same form, which makes the encodings of all."""
    await list_pods(target, 0, accept=accept, query=query)
    return await list_pods(target, seconds, accept=accept, query=query)


async def first_list(target: Target, *, accept: str) -> Figures:
    """The first LIST after a start, while another client measures how long it waits."""
    pings = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.pings", str(target.port), target.token, target.ca_file,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert pings.stdin is not None
    assert pings.stdout is not None
    assert await pings.stdout.readline() == b"READY\n"
    figures = await list_pods(target, 0, accept=accept, query="")
    pings.stdin.close()
    ping_times = orjson.loads(await pings.stdout.readline())
    await pings.wait()
    return {**figures, **ping_times, "MiB": resident_mib(target.pids)}


def cost(target: Target, window: Window, unit: str, requests: int) -> Figures:
    """The CPU of the server for each request in a unit, `s` or `us`; that of its store and their
    sum if the store is a process of its own; instructions and cycles if they are counted."""
    factor = {"s": 1, "us": 1e6}[unit] / requests
    figures = {name: count / requests for name, count in window.events.items()}
    figures[f"server {unit}"] = window.server * factor
    if target.store_pids:
        figures[f"store {unit}"] = window.store * factor
        figures[f"sum {unit}"] = (window.server + window.store) * factor
    return figures


@asynccontextmanager
async def watchers(
    target: Target, count: int, seconds: float
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Watches of the ConfigMaps in WATCH_NAMESPACE, in the process `watchfan`. The caller tells it
    the number of changes and the sum of their marks."""
    program = _FOLDER / "watchfan"
    source = _FOLDER / "watchfan.c"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        build = await asyncio.create_subprocess_exec(
            "gcc", "-O2", "-o", str(program), str(source), "-lssl", "-lcrypto"
        )
        assert await build.wait() == 0, "watchfan needs gcc and OpenSSL's headers (libssl-dev)"
    async with connections(target, 1) as (connection,):
        await ensure_namespace(connection, WATCH_NAMESPACE)
        for number in range(10):
            body = configmap(f"w-{number}")
            await connection.request("POST", path("configmaps", namespace=WATCH_NAMESPACE), body)
        response = await connection.request("GET", path("configmaps", namespace=WATCH_NAMESPACE))
    revision = orjson.loads(response.body)["metadata"]["resourceVersion"]
    url = f"{path('configmaps', namespace=WATCH_NAMESPACE)}?watch=1&resourceVersion={revision}"
    process = await asyncio.create_subprocess_exec(
        program, target.host, str(target.port), url, str(count), str(seconds), target.ca_file,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "TOKEN": target.token},
    )  # fmt: skip
    assert process.stdout is not None
    assert await process.stdout.readline() == b"READY\n"
    yield process
    await process.wait()


async def watch(target: Target, seconds: float, *, count: int, rate: int) -> Figures:
    """Watchers of one namespace, and PUTs in it at a fixed rate (open loop).

    After the window closes, wait for the events under way: each watcher must get each event once.
    The CPU of an event is that of all events until then. If it were that of the window, a server
    that has written more than its clients have read would seem to need more.
    """
    marks: list[int] = []
    async with watchers(target, count, seconds) as process, connections(target, 8) as opened:
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for opened_connection in opened:
            free.put_nowait(opened_connection)

        async def change(number: int) -> None:
            connection = await free.get()
            body = configmap(f"w-{number % 10}")
            marks.append(time.time_ns())
            body["data"]["level"] = f"TS={marks[-1]};"
            url = path("configmaps", f"w-{number % 10}", namespace=WATCH_NAMESPACE)
            response = await connection.request("PUT", url, body)
            assert response.status == 200, response
            free.put_nowait(connection)

        before = cpu_seconds(target.pids)
        with target.window() as window:
            start = time.perf_counter()
            tasks = []
            for number in range(int(rate * seconds)):
                await asyncio.sleep(max(0.0, start + number / rate - time.perf_counter()))
                tasks.append(asyncio.create_task(change(number)))
            await asyncio.sleep(max(0.0, start + seconds - time.perf_counter()))
        await asyncio.gather(*tasks)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"%d %d\n" % (len(marks), sum(marks) % (1 << 64)))
        received = orjson.loads(await process.stdout.readline())
        server = cpu_seconds(target.pids) - before
    return {
        "server us": server / max(1, received["events"]) * 1e6,
        "server %": 100 * window.server / window.wall,
        "in the window %": 100 * received["in_window"] / (count * len(marks)),
        "delivered %": 100 * received["events"] / (count * len(marks)),
        "watchers with each event once %": 100 * received["whole"] / count,
        "p50 ms": received["p50_us"] / 1e3,
        "p99 ms": received["p99_us"] / 1e3,
        "last ms": received["max_us"] / 1e3,
    }


def memory(target: Target) -> Figures:
    """Current resident memory."""
    figures = {"MiB": resident_mib(target.pids)}
    return (
        {**figures, "store MiB": resident_mib(target.store_pids)} if target.store_pids else figures
    )


def median(rows: list[Figures]) -> Figures:
    """The median of each figure."""
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}
