"""`make bench`: start a server, load it, and print a table with kube-apiserver's figures beside.

    make bench ARGS="--storage etcd --objects 10000 --repeats 5 --seconds 3 --only get,list"

With `--storage etcd` the store is a real etcd with fsync, whose CPU and memory are shown apart. The
rows of first lists measure a server that was just started over the pods, and how long another
client waits meanwhile.

Linux only (CPU and memory are read from /proc); the watch measures need gcc and libssl-dev. The
reference column is kube-apiserver v1.20.2 over etcd with TLS on a 2-core machine of the same kind,
2026-11-21. Figures of two runs differ by up to a quarter.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.bench import measures
from tests.bench.client import JSON, PROTOBUF, Target
from tests.bench.measures import Figures
from tests.bench.servers import STORES, Store, server, store


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


def _list(medium: str, query: str, label: str, reference: float, encoding: str = "identity") -> Row:
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
    _list("protobuf", "?limit=500", "pages of 500", 0.50),
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


def _print(name: str, figures: Figures, figure: str = "", reference: float | None = None) -> None:
    line = ", ".join(f"{key} {value:,.3g}" for key, value in figures.items())
    ratio = f"{reference / figures[figure]:.1f}" if reference and figures.get(figure) else ""
    print(f"| {name} | {line} | {reference or ''} | {ratio} |", flush=True)


def _starts(folder: Path, below: Store, options: argparse.Namespace) -> None:
    started = []
    for _ in range(options.repeats):
        with server(folder, below, options.server) as (_target, figures):
            started.append(figures)
    _print("start to ready", measures.median(started), "wall s", 4.0)


def _first_lists(folder: Path, below: Store, options: argparse.Namespace) -> None:
    for medium, accept in (("JSON", JSON), ("protobuf", PROTOBUF)):
        rows = []
        for _ in range(options.repeats):
            with server(folder, below, options.server) as (target, _started):
                rows.append(asyncio.run(measures.first_list(target, accept=accept)))
        _print(f"first list of a fresh server, {medium}", measures.median(rows))
    with server(folder, below, options.server) as (target, _started):
        for accept in (JSON, PROTOBUF, JSON):
            for query in ("?", "?limit=500"):
                asyncio.run(measures.list_pods(target, 0, accept=accept, query=query))
        _print("memory restarted, after lists", measures.memory(target), "MiB", 879)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--storage", choices=STORES, default="sqlite")
    parser.add_argument("--objects", type=int, default=10_000, help="pods in the lists")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one window")
    parser.add_argument(
        "--only", default="", help="first words of the rows to run: start,first,get,list,..."
    )
    parser.add_argument("--server", nargs="*", default=[], help="more flags for `serve`")
    options = parser.parse_args()
    selected = [name_part for name_part in options.only.split(",") if name_part]
    rows = [row for row in ROWS if not selected or row.name.split()[0].strip(",") in selected]
    has_lists = any(row.name.startswith("list") for row in rows)
    print("| work | measured (median) | kube-apiserver 1.20.2 | times less |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch, store(options.storage, Path(scratch)) as below:
        if not selected or "start" in selected:
            _starts(Path(scratch), below, options)
        with server(Path(scratch), below, options.server) as (target, _started):
            if has_lists or "first" in selected:
                _print("seed pods", asyncio.run(measures.seed_pods(target, options.objects)))
                _print("memory with pods", measures.memory(target), "MiB", 879)
            for number, row in enumerate(rows):
                runs = [
                    asyncio.run(row.run(target, options.seconds)) for _ in range(options.repeats)
                ]
                _print(row.name, measures.median(runs), row.figure, row.reference)
                follows = rows[number + 1].name if number + 1 < len(rows) else ""
                if row.name.startswith("list") and not follows.startswith("list"):
                    _print("memory after lists", measures.memory(target), "MiB", 879)
            _print("memory at the end", measures.memory(target))
        if not selected or "first" in selected:
            _first_lists(Path(scratch), below, options)


if __name__ == "__main__":
    main()
