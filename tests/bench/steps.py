"""Where the server's CPU time goes: microseconds of each step of a request, for each verb.

    python -m tests.bench.steps --py-spy PATH [--storage etcd] [--seconds 8] [--tree FOLDER]

For each verb a load runs on 16 connections, while py-spy samples the stacks of the server. A step's
time is its share of the samples, times the CPU microseconds of a request. A sample belongs to the
innermost frame that STEPS names; a module that several steps use is not named and counts for its
caller. `event loop` is what uvloop does itself: the kernel's sockets and TLS.

The bench has no requirement of its own for py-spy: install it where you like. `--tree` is another
checkout whose server is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import re
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

import orjson

from tests.bench import measures, servers
from tests.bench.client import JSON, Connection, Target, connections
from tests.bench.measures import Figures
from tests.bench.objects import configmap, create_pod, ensure_namespace, path, pod_status

CONNECTIONS = 16
PODS = 500
LIST_NAMESPACE = "bench-list"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
Load = Callable[[Target, float], Awaitable[Figures]]

STEPS: tuple[tuple[str, str], ...] = (
    ("access", r"apiserver/(authentication|authorization|flowcontrol)/"),
    ("admission", r"apiserver/admission/"),
    ("managed fields", r"field_managers|api/apply/"),
    ("patch", r"api/patches/"),
    (
        "call of the store",
        r"storage/(etcd|kv|postgresql|sqlite|wrappers)/|aiohttp/(client|connector)",
    ),
    ("tree to stored bytes", r"storage_codec|protobuf/encoder|protobuf writer|ObjectCodec.stored_"),
    (
        "events, watch cache, controllers",
        r"storage/cache/|storage/objects/(metadata_)?informer|kapiserver/controllers/",
    ),
    (
        "object to response",
        r"list_encoder|object_responses|protobuf/to_json|from protobuf>|"
        r"Entry.encode|endpoints/(responses|watch_frames|tables)",
    ),
    ("body to tree", r"endpoints/decode|struct_decoder|object_decoder|codec_factory|<decoder of"),
    (
        "validation, defaults, strategy",
        r"validation|defaulting|/defaults|/strategies|api/strategy"
        r"|declarative_rules|storage/lifecycle",
    ),
    ("store: reads, preparation of writes", r"kapiserver/storage/"),
    ("routing, negotiation, handler", r"endpoints/|routes|target|request_info"),
    (
        "filters, metrics, log",
        r"apiserver/(filters|metrics|serving/process/logs)|kapiserver/metrics",
    ),
    (
        "HTTP",
        r"apiserver/(serving/|request)|response_(writer|head)|stream_sink|aiohttp/",
    ),
    ("event loop", r"^Runner.run|asyncio/runners|uvloop"),
)
"""The steps with what their frames contain: `function (path)`. The first that matches counts."""


async def _create(target: Target, seconds: float) -> Figures:
    return await measures.create(target, seconds, count=CONNECTIONS)


async def _put(target: Target, seconds: float) -> Figures:
    return await measures.put(target, seconds, count=CONNECTIONS)


async def _get(target: Target, seconds: float) -> Figures:
    return await measures.get(
        target, seconds, resource="configmaps", accept=JSON, count=CONNECTIONS
    )


async def _patch_status(target: Target, seconds: float) -> Figures:
    """Change one condition of a pod's status; 50 pods in turn."""
    async with connections(target, 1) as (connection,):
        await ensure_namespace(connection)
        response = await connection.request("GET", path("pods", "pod-00049"))
        for number in range(50 if response.status == 404 else 0):
            await create_pod(connection, number)
    numbers = itertools.count()

    async def send(connection: Connection) -> None:
        number = next(numbers)
        status = pod_status(number % 50)
        status["message"] = f"change {number}"
        url = path("pods", f"pod-{number % 50:05d}") + "/status"
        response = await connection.request("PATCH", url, {"status": status}, content_type=MERGE)
        assert response.status == 200, response

    return await measures.loop(target, CONNECTIONS, seconds, send)


async def _apply(target: Target, seconds: float) -> Figures:
    """Apply 200 ConfigMaps of 1 KB in turn, with a change in each."""
    async with connections(target, 1) as (connection,):
        await ensure_namespace(connection)
    numbers = itertools.count()

    async def send(connection: Connection) -> None:
        number = next(numbers)
        body = configmap(f"apply-{number % 200}")
        body["data"]["level"] = f"{number}"
        url = path("configmaps", f"apply-{number % 200}") + "?fieldManager=bench&force=true"
        response = await connection.request("PATCH", url, body, content_type=APPLY)
        assert response.status in (200, 201), response

    return await measures.loop(target, CONNECTIONS, seconds, send)


async def _list(target: Target, seconds: float) -> Figures:
    """LIST 500 pods in JSON; the first list, which encodes the pods, is not counted."""
    url = path("pods", namespace=LIST_NAMESPACE)
    async with connections(target, CONNECTIONS) as opened:
        await ensure_namespace(opened[0], LIST_NAMESPACE)
        listed = await opened[0].request("GET", url)
    if len(orjson.loads(listed.body)["items"]) < PODS:
        await measures.seed_pods(target, PODS)

    async def send(connection: Connection) -> None:
        response = await connection.request("GET", url)
        assert response.status == 200, response

    return await measures.loop(target, CONNECTIONS, seconds, send)


async def _watch(target: Target, seconds: float) -> Figures:
    return await measures.watch(target, seconds, count=100, rate=100)


LOADS: tuple[tuple[str, Load], ...] = (
    ("create", _create),
    ("PUT", _put),
    ("status PATCH", _patch_status),
    ("apply", _apply),
    ("GET", _get),
    ("LIST of 500", _list),
    ("watch event", _watch),
)


def _step_of(stack: list[str]) -> str:
    for frame in reversed(stack):
        for step, pattern in _PATTERNS:
            if pattern.search(frame):
                return step
    return "other"


_PATTERNS = tuple((step, re.compile(pattern)) for step, pattern in STEPS)


def _shares(raw: str) -> dict[str, float]:
    """Return the share of each step in stacks as py-spy writes them. Threads that wait for work
    are left out."""
    counts: Counter[str] = Counter()
    for line in raw.splitlines():
        frames, _, count = line.rpartition(" ")
        stack = frames.split(";")
        if not stack[-1].startswith("_worker"):
            counts[_step_of(stack)] += int(count)
    total = sum(counts.values())
    return {step: count / total for step, count in counts.items()}


async def _profile(py_spy: Path, target: Target, load: Load, seconds: float, out: Path) -> float:
    """Load the server, and write the stacks to a file; return the microseconds of a request."""
    await load(target, 0.5)  # makes the objects
    profiler = await asyncio.create_subprocess_exec(
        py_spy, "record", "--rate", "200", "--format", "raw", "--output", out,
        "--pid", str(target.pids[0]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    figures = await load(target, seconds)
    profiler.send_signal(signal.SIGINT)
    await profiler.wait()
    return figures["server us"]


def main() -> None:
    """Measure all verbs, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.steps")
    parser.add_argument("--py-spy", type=Path, required=True)
    parser.add_argument("--storage", choices=servers.STORES, default="etcd")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--tree", type=Path, default=servers.ROOT)
    options = parser.parse_args()
    columns: list[Figures] = []
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        below = stack.enter_context(servers.store(options.storage, folder / "store"))
        running = servers.server(folder / "server", below, [], tree=options.tree)
        target, _ = stack.enter_context(running)
        for _, load in LOADS:
            out = folder / "raw"
            cost = asyncio.run(_profile(options.py_spy, target, load, options.seconds, out))
            steps = {step: share * cost for step, share in _shares(out.read_text()).items()}
            columns.append({**steps, "sum": cost})
    print(f"| step | {' | '.join(name for name, _ in LOADS)} |\n|{' --- |' * (len(LOADS) + 1)}")
    for step in (*(step for step, _ in STEPS), "other", "sum"):
        cells = " | ".join(f"{column.get(step, 0.0):.3g}" for column in columns)
        print(f"| {step} | {cells} |")


if __name__ == "__main__":
    main()
