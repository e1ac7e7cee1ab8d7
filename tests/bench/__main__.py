"""`make bench`: start a server, load it, print a table beside kube-apiserver's figures.

    make bench ARGS="--objects 10000 --repeats 5 --seconds 3 --only get,list"

Linux only (CPU and memory come from /proc); the watch measures need gcc and libssl-dev. The
reference column is kube-apiserver v1.20.2 over etcd with TLS on a 2-core machine of the same kind,
2026-11-21; figures of two runs differ by a quarter for no reason, so read ratios coarsely.
"""

import argparse
import asyncio
import contextlib
import http.client
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.bench import measures
from tests.bench.client import JSON, PROTOBUF, Target
from tests.bench.measures import Figures
from tests.bench.processes import cpu_seconds, resident_mib

TOKEN = "bench-token"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table; `reference` is kube-apiserver's value of `figure`."""

    name: str
    run: Callable[[Target, float], Awaitable[Figures]]
    figure: str
    reference: float | None


def _get(resource: str, medium: str, count: int, reference: float) -> Row:
    accept = JSON if medium == "JSON" else PROTOBUF
    return Row(
        name=f"get {resource}, {medium}, {count} connections",
        run=partial(measures.get, resource=resource, accept=accept, count=count),
        figure="server us",
        reference=reference,
    )


def _list(medium: str, query: str, label: str, reference: float) -> Row:
    accept = JSON if medium == "JSON" else PROTOBUF
    return Row(
        name=f"list pods, {medium}, {label}",
        run=partial(measures.list_pods, accept=accept, query=query),
        figure="server s",
        reference=reference,
    )


ROWS = (
    _get("configmaps", "JSON", 16, 354),
    _get("configmaps", "JSON", 64, 312),
    _get("pods", "JSON", 16, 481),
    _get("pods", "JSON", 64, 492),
    _get("pods", "protobuf", 64, 456),
    *(
        Row(
            name=f"create configmaps, {count} connections",
            run=partial(measures.create, count=count),
            figure="server us",
            reference=reference,
        )
        for count, reference in ((1, 1528), (16, 800), (64, 819))
    ),
    *(
        Row(
            name=f"put configmaps, {count} connections",
            run=partial(measures.put, count=count),
            figure="server us",
            reference=reference,
        )
        for count, reference in ((1, 1581), (16, 1058), (64, 898))
    ),
    _list("JSON", "?resourceVersion=0", "whole, rv=0", 0.63),
    _list("JSON", "?", "whole, consistent", 0.80),
    _list("JSON", "?limit=500", "pages of 500", 0.84),
    _list("protobuf", "?resourceVersion=0", "whole, rv=0", 0.26),
    _list("protobuf", "?", "whole, consistent", 0.45),
    *(
        Row(
            name=f"watch, {count} watchers, {rate} changes/s",
            run=partial(measures.watch, count=count, rate=rate),
            figure="server us",
            reference=reference,
        )
        for count, rate, reference in ((100, 100, None), (1000, 10, 42), (1000, 100, 20))
    ),
)


@contextlib.contextmanager
def server(folder: Path, arguments: list[str]) -> Iterator[tuple[Target, Figures]]:
    """A server process with TLS over a SQLite file, until the block ends; and its start-up."""
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
    port = 16443
    command = [
        sys.executable, "-m", "kapiserver.apiserver.cli", "serve",
        "--bind-address", "127.0.0.1", "--secure-port", str(port),
        "--data-dir", str(folder / "data"), "--cert-dir", str(folder / "certificates"),
        "--token-auth-file", str(folder / "tokens.csv"),
        "--kubeconfig-out", str(folder / "kubeconfig"), *arguments,
    ]  # fmt: skip
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while not _ready(port):
            if process.poll() is not None:
                raise SystemExit(f"the server ended with {process.returncode}")
            time.sleep(0.005)
        ready = time.perf_counter() - begin
        started = {
            "wall s": ready,
            "server s": cpu_seconds([process.pid]),
            "MiB": resident_mib([process.pid]),
        }
        target = Target(
            host="127.0.0.1",
            port=port,
            token=TOKEN,
            ca_file=str(folder / "certificates" / "ca.crt"),
            pids=[process.pid],
        )
        yield target, started
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _ready(port: int) -> bool:
    connection = http.client.HTTPSConnection(
        "127.0.0.1", port, timeout=5, context=ssl._create_unverified_context()
    )
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _print(name: str, figures: Figures, figure: str = "", reference: float | None = None) -> None:
    shown = ", ".join(f"{key} {value:,.3g}" for key, value in figures.items())
    ratio = f"{reference / figures[figure]:.1f}" if reference and figures.get(figure) else ""
    print(f"| {name} | {shown} | {reference or ''} | {ratio} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--objects", type=int, default=10_000, help="pods in the lists")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one window")
    parser.add_argument("--only", default="", help="first words of the rows to run")
    parser.add_argument("--server", nargs="*", default=[], help="more flags for `serve`")
    options = parser.parse_args()
    wanted = [one for one in options.only.split(",") if one]
    rows = [row for row in ROWS if not wanted or row.name.split()[0].strip(",") in wanted]
    print("| work | measured (median) | kube-apiserver 1.20.2 | times less |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        starts = []
        for _ in range(options.repeats):
            with server(Path(scratch), options.server) as (_target, started):
                starts.append(started)
        _print("start to ready", measures.median(starts), "wall s", 4.0)
        with server(Path(scratch), options.server) as (target, _started):
            if any(row.name.startswith("list") for row in rows):
                _print("seed pods", asyncio.run(measures.seed_pods(target, options.objects)))
                _print("memory with pods", measures.memory(target), "MiB", 879)
            for row in rows:
                found = [
                    asyncio.run(row.run(target, options.seconds)) for _ in range(options.repeats)
                ]
                _print(row.name, measures.median(found), row.figure, row.reference)
            _print("memory at the end", measures.memory(target))


if __name__ == "__main__":
    main()
