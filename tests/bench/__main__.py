"""`make bench`: load two servers in turns, and print the ratios of their figures.

    make bench PEER=path/to/kube-apiserver
    make bench ARGS="--storage etcd --objects 10000 --rounds 5 --seconds 3 --only get,list"
    make bench ARGS="--storages sqlite etcd postgresql --only get,create,put,list"

With PEER the other server is that kube-apiserver, over an etcd of its own; without it, an earlier
version, the commit of `tests/bench/BASELINE`. Each row runs on one server, then on the other, round
by round, so that a machine that grows slower slows both. A ratio is this checkout's figure divided
by the other's: the median of all rounds, with the lowest and the highest. Of `per s` more is
better, of others less.

With `--storages` servers over several stores run in turns instead (`tests/bench/stores.py`).

The figures go to `docs/bench/` too, as JSON named after the other server, and the pictures of
docs/performance.md are drawn from them (`tests/bench/report.py`).

This checkout serves HTTP/2, too. Rows over HTTP/2 are left out beside a server that does not, and
those of client-go without Go.

CPU figures are per request, event or list: of the server, and the sum with its store. The client is
written in Python and shares the machine, so `per s` is what the three reach together.

Linux only (CPU and memory are read from /proc); the watch rows need gcc and libssl-dev.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench import measures
from tests.bench.client import JSON, PROTOBUF, Target
from tests.bench.contestants import BASELINE, Contestant, checkout, kapiserver, kube_apiserver
from tests.bench.measures import PERCENTILES, Figures
from tests.bench.report import Report
from tests.bench.rows import ROWS, Row
from tests.bench.samples import sampling
from tests.bench.servers import ROOT, STORES
from tests.bench.stores import compare_stores

Measure = Callable[[Target], Figures]
_FLAGS = ("--disable-http2-serving=false",)


def _print_row(
    report: Report,
    name: str,
    kapiserver_figures: list[Figures],
    reference_figures: list[Figures],
    names: Sequence[str],
) -> None:
    for figure in dict.fromkeys((*names, *PERCENTILES)):
        pairs = [
            (our[figure], other[figure])
            for our, other in zip(kapiserver_figures, reference_figures, strict=True)
            if our.get(figure) and other.get(figure)
        ]
        if not pairs:
            continue
        row = report.add(name, figure, pairs)
        if figure in names:
            low, middle, high = row.ratios
            print(
                f"| {name} | {figure} | {row.peer:,.4g} | {row.kapiserver:,.4g} "
                f"| {middle:.2f} ({low:.2f} to {high:.2f}) |",
                flush=True,
            )


def _compare(
    report: Report,
    name: str,
    pair: tuple[Target, Target],
    measure: Measure,
    names: Sequence[str],
    rounds: int,
) -> None:
    """Measure both servers in turns; the one that begins changes from round to round."""
    figures: tuple[list[Figures], list[Figures]] = ([], [])
    for number in range(rounds):
        for index in (0, 1) if number % 2 else (1, 0):
            figures[index].append(measure(pair[index]))
    _print_row(report, name, *figures, names)


def _compare_starts(report: Report, pair: tuple[Contestant, Contestant], rounds: int) -> None:
    figures: tuple[list[Figures], list[Figures]] = ([], [])
    for number in range(rounds + 1):
        for index in (0, 1) if number % 2 else (1, 0):
            with pair[index].start() as (_target, started):
                if number:  # the first start makes certificates and an empty store
                    figures[index].append(started)
    _print_row(report, "start to ready", *figures, ("wall s", "server s", "MiB"))


def _compare_first_lists(
    report: Report, pair: tuple[Contestant, Contestant], rounds: int, name: str, accept: str
) -> None:
    figures: tuple[list[Figures], list[Figures]] = ([], [])
    for number in range(rounds):
        for index in (0, 1) if number % 2 else (1, 0):
            with pair[index].start() as (target, started):
                listed = asyncio.run(measures.first_list(target, accept=accept))
                total = {"CPU s with start": started["server s"] + listed["server s"]}
                figures[index].append({**listed, **total})
    names = ("wall s", "CPU s with start", "MiB")
    _print_row(report, f"first list of a fresh server, {name}", *figures, names)


def _load(
    report: Report, pair: tuple[Target, Target], rows: Sequence[Row], options: argparse.Namespace
) -> None:
    def print_memory(name: str) -> None:
        figures = [[measures.memory(target)] for target in pair]
        _print_row(report, name, figures[0], figures[1], ("MiB", "store MiB"))

    if any(row.needs_pods for row in rows):
        seeded = [[asyncio.run(measures.seed_pods(target, options.objects))] for target in pair]
        names = ("wall s", "server us", "sum us")
        _print_row(report, f"{options.objects:,} pods with status", seeded[0], seeded[1], names)
        print_memory("memory with the pods")
    for row in rows:
        _compare(
            report,
            row.name,
            pair,
            lambda target, row=row: asyncio.run(row.run(target, options.seconds)),
            row.figures,
            options.rounds,
        )
    print_memory("memory at the end")


def main() -> None:
    """Run the bench."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer", type=Path, help="a kube-apiserver to compare with")
    parser.add_argument("--storage", choices=STORES, default="etcd", help="of this checkout")
    parser.add_argument(
        "--storages", nargs="*", choices=STORES, help="stores to compare with each other"
    )
    parser.add_argument("--objects", type=int, default=10_000, help="pods in the lists")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one window")
    parser.add_argument(
        "--only", default="", help="first words of the rows to run: start,first,get,list,..."
    )
    parser.add_argument("--server", nargs="*", default=[], help="more flags for `serve`")
    parser.add_argument(
        "--report", type=Path,
        help="folder of data and pictures; by default docs, or .data/bench with --only",
    )  # fmt: skip
    options = parser.parse_args()
    selected = [word for word in options.only.split(",") if word]
    rows = [row for row in ROWS if not selected or row.name.split()[0].strip(",") in selected]
    if options.storages:
        compare_stores(options, options.storages, rows)
        return
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(
            kapiserver("kapiserver", options.storage, scratch / "ours", [*_FLAGS, *options.server])
        )
        if options.peer is not None:
            opened = kube_apiserver(options.peer, scratch / "peer", [])
        else:
            commit = BASELINE.read_text().split()[0]
            tree = checkout(commit, scratch / "baseline")
            opened = kapiserver(
                "earlier version", options.storage, scratch / "other", options.server, tree=tree
            )
        other = stack.enter_context(opened)
        report = Report.of_this_machine(other.name)
        print(f"| work | figure | {other.name} | {ours.name} | ratio |\n|---|---|---|---|---|")
        if not selected or "start" in selected:
            _compare_starts(report, (ours, other), options.rounds)
        if rows:
            with (
                ours.start() as (our_target, _),
                other.start() as (other_target, _),
                sampling(
                    {
                        ours.name: (our_target, ours.folder),
                        other.name: (other_target, other.folder),
                    }
                ) as report.samples,
            ):
                _load(report, (our_target, other_target), rows, options)
        if not selected or "first" in selected:
            _compare_first_lists(report, (ours, other), options.rounds, "JSON", JSON)
            _compare_first_lists(report, (ours, other), options.rounds, "protobuf", PROTOBUF)
    folder = options.report or (ROOT / ".data" / "bench" if selected else ROOT / "docs")
    report.write(folder / "bench", folder / "images")
    print(f"Wrote {folder / 'bench' / report.slug}.json, and its pictures to {folder / 'images'}.")


if __name__ == "__main__":
    main()
