"""`make bench ARGS="--storages sqlite etcd postgresql"`: the same server over several stores.

Each server has a store of its own; a kind of store that is named twice shows how much figures
differ by chance. A row runs on one server after the other, round by round, and the server that
begins changes, so that a machine that grows slower slows all of them. A figure is the median of all
rounds, in brackets the median of its ratios to the first store's.

The CPU of a `sum` is that of the server and of the processes of its store. Nothing is written to
`docs/`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench import measures
from tests.bench.client import Target
from tests.bench.contestants import kapiserver
from tests.bench.measures import Figures
from tests.bench.rows import Row

_SUMS = {"sum us": "server us", "sum s": "server s"}
"""The figures of server and store together, which a server without a process of a store lacks."""


def compare_stores(options: argparse.Namespace, kinds: Sequence[str], rows: Sequence[Row]) -> None:
    """Print a table with a column for each kind of store."""
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        targets: dict[str, Target] = {}
        for number, kind in enumerate(kinds, 1):
            name = f"{kind} {number}" if kind in targets else kind
            started = stack.enter_context(kapiserver(name, kind, scratch / name, options.server))
            targets[name], _ = stack.enter_context(started.start())
        print(f"| work | figure | {' | '.join(targets)} |\n|---|---|{'---|' * len(targets)}")
        if any(row.needs_pods for row in rows):
            for target in targets.values():
                asyncio.run(measures.seed_pods(target, options.objects))
        for row in rows:
            figures = _run(row, targets, options)
            for figure in row.figures:
                _print_figure(row.name, figure, figures)
        memory = {kind: [measures.memory(target)] for kind, target in targets.items()}
        for figure in ("MiB", "store MiB"):
            _print_figure("memory at the end", figure, memory)


def _run(
    row: Row, targets: Mapping[str, Target], options: argparse.Namespace
) -> dict[str, list[Figures]]:
    """Return the figures of all rounds, by kind of store."""
    figures: dict[str, list[Figures]] = {kind: [] for kind in targets}
    kinds = list(targets)
    for number in range(options.rounds):
        begin = number % len(kinds)
        for kind in kinds[begin:] + kinds[:begin]:
            measured = asyncio.run(row.run(targets[kind], options.seconds))
            for name, part in _SUMS.items():
                if part in measured:
                    measured.setdefault(name, measured[part])
            figures[kind].append(measured)
    return figures


def _print_figure(name: str, figure: str, figures: Mapping[str, list[Figures]]) -> None:
    first, *_ = figures.values()
    cells = []
    for measured in figures.values():
        values = [each[figure] for each in measured if figure in each]
        ratios = [
            each[figure] / reference[figure]
            for each, reference in zip(measured, first, strict=True)
            if each.get(figure) and reference.get(figure)
        ]
        cell = f"{statistics.median(values):,.4g}" if values else ""
        cells.append(f"{cell} ({statistics.median(ratios):.2f})" if ratios else cell)
    print(f"| {name} | {figure} | {' | '.join(cells)} |", flush=True)
