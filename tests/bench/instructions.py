"""Instructions of the server for a request of each verb.

    python -m tests.bench.instructions [--storage etcd] [--only create,get] [--connections 64]
        [--requests 512] [--tree FOLDER] [--python PROGRAM] [--system-calls]

The server runs under callgrind, unless the machine has counters (`tests/bench/counters.py`). Each
row of `make bench` that sends requests runs four times, with a number of requests instead of a
time, on as many connections as the row has, `--connections` at most. The first run loads and
compiles what the requests need. The least count of the others is the result, without what an idle
server does in the same time: on a busy machine a window takes longer, but what other programs do
changes no other count. The server hashes strings alike in each run and collects no garbage, because
a collection takes as much as four creates and would be in some windows only.

With several connections, writes share transactions and requests share turns of the event loop. How
many do depends on when they arrive: the client and the store run before the server where the
machine allows that, so that all arrive that can.

`--tree` is another checkout whose server is measured, `--python` the interpreter that runs it, if
not this one. With `--profiles FOLDER` callgrind's files stay, `profile.N` for the Nth window:
`callgrind_annotate` reads them. With `--system-calls`, strace counts what a request asks the kernel
for, of which callgrind sees nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.bench import servers
from tests.bench.client import Target
from tests.bench.counters import CALLS, Callgrind, SystemCalls, counts_events
from tests.bench.processes import cpu_seconds
from tests.bench.rows import ROWS, Row

REQUESTS = 96
ROUNDS = 3
IDLE_SECONDS = 4
"""How long the instructions of an idle server are counted. The least of a second is what its timers
do all the time."""
_PROGRAM = """
import gc
gc.enable = gc.collect = lambda *_: 0  # a server disables the collector while it starts
try:
    from kapiserver.apiserver.filters import slow_requests
    slow_requests.THRESHOLD_SECONDS = 3600.0
    from kapiserver.storage.etcd import transport
    transport.CALL_SECONDS = 3600.0
    from kapiserver.apiserver.flowcontrol import flow_control
    flow_control.PERIOD_SECONDS = 3600.0
except ImportError:  # an earlier version
    pass
from kapiserver.cli import main
raise SystemExit(main())
"""
"""The command line, which collects no garbage, logs no request as a slow one, and waits for etcd:
under callgrind, all requests are slow. It does not divide the seats of priority levels again, which
takes as long as a few requests and would be in some windows only."""


@contextmanager
def counted_server(
    storage: str, folder: Path, tree: Path, python: str = sys.executable, *, calls: bool = False
) -> Iterator[Target]:
    """Run a server over a fresh store, whose instructions each window counts, or its system
    calls."""
    wrapper = Callgrind.command(folder) if not (calls or counts_events()) else []
    program = [
        *_run_before_the_server(), "env", "PYTHONHASHSEED=0", *wrapper, python, "-c", _PROGRAM,
    ]  # fmt: skip
    with (
        servers.store(storage, folder / "store") as below,
        servers.server(folder / "server", below, [], tree=tree, program=program) as (target, _),
    ):
        if calls:
            target = dataclasses.replace(target, counter=SystemCalls(target.pids[0]))
        elif wrapper:
            target = dataclasses.replace(target, counter=Callgrind(target.pids[0], folder))
        if target.counter is None:
            raise SystemExit("skipped: no counters on this machine, and no valgrind")
        _wait_until_idle(target)
        yield target


def _run_before_the_server() -> list[str]:
    """Let this process and the store, which it starts, run before all programs of the machine; what
    they do takes little time. Return what comes before the server's command line, so that it does
    not. Without the right to do so, all run alike."""
    if shutil.which("chrt") is None:
        return []
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return []
    return ["chrt", "--other", "0"]


def _wait_until_idle(target: Target) -> None:
    """Return when what a start leaves for later is done: controllers and their first lists. On a
    busy machine, a second without work says little."""
    idle = 0
    for _ in range(120):
        begin = cpu_seconds(target.pids)
        time.sleep(1)
        idle = idle + 1 if cpu_seconds(target.pids) - begin < 0.05 else 0
        if idle == 4:
            return


def request_rows(only: str) -> dict[str, Row]:
    """Return the rows that send requests by their names without the number of connections; those
    whose first word is in `only`, a comma-separated list, unless it is empty."""
    words = [word for word in only.split(",") if word]
    rows = {
        row.name.removesuffix(" connections").rstrip("0123456789").removesuffix(", "): row
        for row in ROWS
        if "per s" in row.figures and "watchers" not in row.name
    }
    return {
        name: row for name, row in rows.items() if not words or name.split()[0].strip(",") in words
    }


def count(
    target: Target, rows: Mapping[str, Row], requests: int, rounds: int = ROUNDS
) -> Iterator[tuple[str, float]]:
    """Yield the name of each row and the instructions of one of its requests."""
    warm_up = dataclasses.replace(target, counter=None, requests=requests)
    counted = dataclasses.replace(target, requests=requests)
    idle_rate = min(_idle_rate(target) for _ in range(IDLE_SECONDS))
    for name, row in rows.items():
        asyncio.run(row.run(warm_up, 0))
        windows = [asyncio.run(row.run(counted, 0)) for _ in range(rounds)]
        yield name, min(each["instructions"] - idle_rate / each["per s"] for each in windows)


def count_calls(
    target: Target, rows: Mapping[str, Row], requests: int
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the name of each row and the system calls of one of its requests, by their names, the
    most frequent first."""
    warm_up = dataclasses.replace(target, counter=None, requests=requests)
    for name, row in rows.items():
        asyncio.run(row.run(warm_up, 0))
        figures = asyncio.run(row.run(dataclasses.replace(target, requests=requests), 0))
        calls = {
            figure.removesuffix(CALLS): number
            for figure, number in figures.items()
            if figure.endswith(CALLS)
        }
        yield name, dict(sorted(calls.items(), key=lambda call: -call[1]))


def _idle_rate(target: Target) -> float:
    """Return the instructions of the server in a second without requests."""
    with target.window() as window:
        time.sleep(1)
    return window.events["instructions"] / window.wall


def main() -> None:
    """Count, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.instructions")
    parser.add_argument("--storage", choices=servers.STORES, default="sqlite")
    parser.add_argument("--only", default="", help="first words of rows: get,create,put,...")
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--connections", type=int, default=1, help="of each row at most")
    parser.add_argument("--system-calls", action="store_true", help="count these by strace")
    parser.add_argument("--tree", type=Path, default=servers.ROOT)
    parser.add_argument("--python", default=sys.executable, help="the server's interpreter")
    parser.add_argument("--profiles", type=Path, help="folder for callgrind's files")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.profiles or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        calls, rows, requests = options.system_calls, request_rows(options.only), options.requests
        with counted_server(
            options.storage, folder, options.tree, options.python, calls=calls
        ) as target:
            target = dataclasses.replace(target, connections=options.connections)
            if calls:
                print("| request | system calls | of these |\n| --- | --- | --- |", flush=True)
                for name, by_call in count_calls(target, rows, requests):
                    parts = ", ".join(f"{call} {each:.2f}" for call, each in by_call.items())
                    print(f"| {name} | {sum(by_call.values()):.1f} | {parts} |", flush=True)
                return
            print("| request | instructions |\n| --- | --- |", flush=True)
            for name, instructions in count(target, rows, requests):
                print(f"| {name} | {instructions:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
