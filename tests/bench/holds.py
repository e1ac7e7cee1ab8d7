"""How long one request blocks the server's event loop.

    python -m tests.bench.holds requests
    python -m tests.bench.holds requests --only "strategic merge"
    python -m tests.bench.holds lists --storage etcd --objects 10000

`requests` sends each shape of `tests/bench/shapes.py` in growing sizes, until a turn of the loop
takes more than 50 ms or a limit of the server answers. It exits with 1 if a turn took longer.

`lists` starts a server over the pods for each form of list and sends the first list.

A callback in every turn of the event loop reads the CPU clock of the thread, so that a busy machine
does not distort the figures. Prints the longest turns and the stack of turns of more than `--over`
seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import gc
import json
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.bench import measures
from tests.bench.client import JSON, PROTOBUF, Connection, Response, Target, connections
from tests.bench.objects import path
from tests.bench.servers import STORES, TOKEN, Store, server, store, wait_ready
from tests.bench.shapes import SHAPES, Call, Shape, get
from tests.storage.etcd_server import free_port

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
LISTS = (
    ("JSON", JSON, "?"),
    ("JSON, pages of 500", JSON, "?limit=500"),
    ("JSON, by label", JSON, "?labelSelector=tier=backend"),
    ("JSON, by a label that few have", JSON, "?labelSelector=app.kubernetes.io/name=app-07"),
    ("JSON, by field", JSON, "?fieldSelector=spec.nodeName=node-007"),
    ("JSON, gzip", JSON, "?"),
    ("Protobuf", PROTOBUF, "?"),
    ("Protobuf, pages of 500", PROTOBUF, "?limit=500"),
    ("Table", TABLE, "?"),
    ("YAML, 500", "application/yaml", "?limit=500"),
    ("CBOR", "application/cbor", "?"),
    ("watch with initial events", JSON, "?watch=1&sendInitialEvents=true&resourceVersionMatch="
     "NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=3"),
)  # fmt: skip


MAX_TURN_MS = 50
LIMITS = (0, 400, 413, 414, 431)
"""Statuses of a limit of the server; 0 is a closed connection."""
STACK_FRAMES = 12
REST_SECONDS = 0.05
"""Time for informers and controllers to see a change."""
READY_TRIES = 600
OK = 200


class Turns:
    """The turns of the running event loop, the longest first."""

    def __init__(self, over: float) -> None:
        self.over = over
        self.turns: list[tuple[float, float, int]] = []
        self.stacks: dict[int, collections.Counter[str]] = {}
        self._loop = asyncio.get_running_loop()
        self._main = threading.get_ident()
        self._number = 0
        self._wall = time.perf_counter()
        self._cpu = time.thread_time()
        self._collections: list[float] = []
        self._tick()
        gc.callbacks.append(self._collect)
        threading.Thread(target=self._sample, daemon=True).start()

    def _tick(self) -> None:
        wall, cpu = time.perf_counter(), time.thread_time()
        if cpu - self._cpu > 0.002 or wall - self._wall > 0.005:
            self.turns.append((cpu - self._cpu, wall - self._wall, self._number))
        self._number += 1
        self._wall, self._cpu = time.perf_counter(), time.thread_time()
        self._loop.call_soon(self._tick)

    def _collect(self, phase: str, _info: dict[str, int]) -> None:
        now = time.thread_time()
        if phase == "start":
            self._start = now
        else:
            self._collections.append(now - self._start)

    def _sample(self) -> None:
        while True:
            time.sleep(0.001)
            number = self._number
            if time.perf_counter() - self._wall < self.over / 2:
                continue
            frame = sys._current_frames()[self._main]
            lines = [
                f"{Path(frame_summary.filename).name}:{frame_summary.lineno} {frame_summary.name}"
                for frame_summary in traceback.extract_stack(frame)
                if not frame_summary.filename.startswith("<")  # generated code and imports
            ]
            if number == self._number:
                self.stacks.setdefault(number, collections.Counter())[
                    " < ".join(lines[: -STACK_FRAMES - 1 : -1])
                ] += 1

    def take(self) -> dict:
        """The turns since the previous call."""
        turns, self.turns = sorted(self.turns, reverse=True), []
        figures: dict = {
            "cpu ms": [round(cpu * 1e3, 1) for cpu, _, _ in turns[:5]],
            "gc ms": [round(collection * 1e3, 1) for collection in sorted(self._collections)[-3:]],
            "wall ms": sorted((round(wall * 1e3, 1) for _, wall, _ in turns), reverse=True)[:3],
        }
        figures["stacks"] = [
            (round(cpu * 1e3, 1), self.stacks.get(number, collections.Counter()).most_common(3))
            for cpu, _, number in turns
            if cpu > self.over
        ]
        self.stacks.clear()
        self._collections.clear()
        return figures


async def _serve(arguments: list[str], over: float) -> None:
    """The server process: runs until its stdin ends, and prints the turns for each line."""
    from kapiserver import cli
    from kapiserver.apiserver.filters import compression
    from kapiserver.apiserver.serving.process.memory import manage_memory
    from kapiserver.app import serve

    compression.is_remote = lambda _: True  # the only client uses the loopback address
    turns = Turns(over)
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str] = asyncio.Queue()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")

    threading.Thread(target=read, daemon=True).start()
    async with serve(cli.config_of(cli.parser().parse_args(arguments))):
        manage_memory()
        while await lines.get():
            print(json.dumps(turns.take()), flush=True)


@contextlib.contextmanager
def blocked_turns(
    folder: Path, below: Store, over: float, *, stderr: IO[bytes] | None = None
) -> Iterator[tuple[Target, Callable[[], dict]]]:
    """A server that measures its turns, and a function that returns them. `stderr` gets its log."""
    port = free_port()
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
    command = [
        sys.executable, "-m", "tests.bench.holds", "serve", f"--over={over}",
        "--bind-address", "127.0.0.1", "--secure-port", str(port),
        "--data-dir", str(folder / "data"), "--cert-dir", str(folder / "certificates"),
        "--token-auth-file", str(folder / "tokens.csv"),
        "--kubeconfig-out", str(folder / "kubeconfig"), *below.flags,
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def take() -> dict:
        process.stdin.write("\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    try:
        wait_ready(process, port)
        ca_file = str(folder / "certificates" / "ca.crt")
        yield (
            Target(host="127.0.0.1", port=port, token=TOKEN, ca_file=ca_file, pids=[process.pid]),
            take,
        )
    finally:
        process.stdin.close()
        process.wait(30)


async def _list(target: Target, accept: str, query: str, headers: str) -> int:
    async with connections(target, 1) as (connection,):
        path_query, token, size = path("pods", namespace="bench-list") + query, "", 0
        while True:
            continue_query = f"&continue={token}" if token else ""
            response = await connection.request(
                "GET", path_query + continue_query, accept=accept + headers
            )
            assert response.status == 200, response.body[:300]
            size += len(response.body)
            paged = "limit=" in query and accept in (JSON, PROTOBUF)
            token = measures.continue_token(response, accept) if paged else ""
            if not token:
                return size


def _show(name: str, figures: dict, size: float = 0.0) -> None:
    longest = " ".join(f"{milliseconds:.0f}" for milliseconds in figures["cpu ms"])
    columns = f"{longest} | {figures['gc ms']} | {figures['wall ms']}"
    print(f"| {name} | {size / 1e6:.1f} | {columns} |", flush=True)
    _show_stacks(figures)


def _show_stacks(figures: dict) -> None:
    for cpu, stacks in figures["stacks"]:
        print(f"    {cpu} ms")
        for stack, count in stacks:
            print(f"      {count:3d} {stack}")


def _lists(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as scratch, store(options.storage, Path(scratch)) as below:
        folder = Path(scratch)
        with server(folder, below, []) as (target, _):
            asyncio.run(measures.seed_pods(target, options.objects))
        print("| list | MB | longest turns, CPU ms | collections | longest turns, wall ms |")
        for name, accept, query in LISTS:
            if options.only and options.only not in name:
                continue
            with blocked_turns(folder, below, options.over) as (target, take):
                take()  # the start itself, before the first request
                time.sleep(options.rest_seconds)
                _show("after the start", take())
                headers = "\r\nAccept-Encoding: gzip" if "gzip" in name else ""
                for _ in range(2 if options.again else 1):
                    size = asyncio.run(_list(target, accept, query, headers))
                    _show(name, take(), size)


# Requests.


@dataclass(frozen=True, slots=True)
class Measured:
    """One request of a shape: its size, its status, and the figures of the turns."""

    size: int
    status: int
    figures: dict

    @property
    def longest(self) -> float:
        """The longest turn in milliseconds of CPU."""
        return max(self.figures["cpu ms"], default=0.0)


def _sizes(shape: Shape, options: argparse.Namespace) -> Iterator[int]:
    """Yield the sizes of a shape: smaller ones, the known one, larger ones."""
    if not options.known:
        yield from (shape.known >> shift for shift in (8, 6, 5, 4, 2))
    size = shape.known
    while size <= shape.most:
        yield size
        if options.known:
            return
        size *= 2


async def _send(target: Target, call: Call, watch: Call | None = None) -> int:
    """Send one request and return its status; 0 if the server closed the connection. A watch is
    open meanwhile, and until its events have come."""
    async with connections(target, 2) as (connection, watcher):
        watching = None if watch is None else asyncio.create_task(_request(watcher, watch))
        try:
            response = await _request(connection, call)
        except (ConnectionError, asyncio.IncompleteReadError):
            return 0
        if watching is not None:
            await watching
    return response.status


async def _request(connection: Connection, call: Call) -> Response:
    return await connection.request(
        call.method, call.path, call.data, accept=call.accept, content_type=call.content_type
    )


def _measure(target: Target, take: Callable[[], dict], shape: Shape, size: int) -> Measured:
    for call in shape.before(1):
        asyncio.run(_send(target, call))
    for _ in range(READY_TRIES):
        if not shape.ready or asyncio.run(_send(target, get(shape.ready))) == OK:
            break
        time.sleep(REST_SECONDS)
    for call in (shape.call(1), *shape.before(size)):  # the first imports
        asyncio.run(_send(target, call))
    time.sleep(REST_SECONDS)
    take()
    status = asyncio.run(_send(target, shape.call(size), shape.watch))
    time.sleep(REST_SECONDS)
    return Measured(size, status, take())


def _requests(options: argparse.Namespace) -> int:
    """Send each shape; return the number of shapes whose turn took too long."""
    too_long = 0
    with (
        tempfile.TemporaryDirectory() as scratch,
        store(options.storage, Path(scratch)) as below,
        blocked_turns(Path(scratch), below, options.over) as (target, take),
    ):
        print("| request | size | status | longest turns, CPU ms |")
        for shape in SHAPES:
            if options.only not in shape.name:
                continue
            worst: Measured | None = None
            for size in _sizes(shape, options):
                measured = _measure(target, take, shape, size)
                if options.verbose:
                    _show_request("  " + shape.name, measured)
                if worst is None or measured.longest >= worst.longest:
                    worst = measured
                if measured.status in LIMITS or measured.longest > MAX_TURN_MS:
                    break
            if worst is not None:
                _show_request(shape.name, worst)
                too_long += worst.longest > MAX_TURN_MS
    return too_long


def _show_request(name: str, measured: Measured) -> None:
    longest = " ".join(f"{milliseconds:.0f}" for milliseconds in measured.figures["cpu ms"])
    print(f"| {name} | {measured.size} | {measured.status} | {longest} |", flush=True)
    _show_stacks(measured.figures)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("requests", "lists", "serve"))
    parser.add_argument("--storage", choices=STORES, default="sqlite")
    parser.add_argument("--over", type=float, default=0.03, help="seconds; whose stacks are shown")
    parser.add_argument("--only", default="", help="part of the name")
    parser.add_argument("--known", action="store_true", help="requests: the known size only")
    parser.add_argument("--verbose", action="store_true", help="requests: each size")
    parser.add_argument("--objects", type=int, default=10_000, help="lists: of pods")
    parser.add_argument("--rest-seconds", type=float, default=2.0, help="lists: before the list")
    parser.add_argument("--again", action="store_true", help="lists: each twice")
    options, rest = parser.parse_known_args()
    if options.what == "lists":
        _lists(options)
    elif options.what == "requests":
        sys.exit(_requests(options) > 0)
    else:
        import uvloop

        gc.disable()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(["serve", *rest], options.over))


if __name__ == "__main__":
    main()
