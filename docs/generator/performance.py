"""The tables of docs/performance.md: the last `make bench` beside a kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from docs.generator.markdown import table
from tests.bench.report import DATA, Ratio, read

_CPU = ("server us", "server s", "CPU s with start")
_Work = Mapping[str, Ratio]


def costs() -> str:
    """Return the table of CPU, rates and latencies, a line for each kind of work."""
    header = ("work", "kube-apiserver", "kapiserver", "CPU, ratio", "per s", "p99", "elapsed")
    rows = []
    for work, figures in _figures_by_work().items():
        cpu = next((figures[name] for name in _CPU if name in figures), None)
        if cpu is not None:
            ratios = (_ratio(figures.get(name)) for name in ("per s", "p99 ms", "wall s"))
            peer, ours = (_duration(value, cpu.figure) for value in (cpu.peer, cpu.kapiserver))
            rows.append((work, peer, ours, _spread(cpu), *ratios))
    return table(header, rows)


def memory() -> str:
    """Return the table of memory."""
    header = ("memory", "kube-apiserver", "kapiserver", "ratio")
    rows = [
        (work, f"{row.peer:,.0f} MiB", f"{row.kapiserver:,.0f} MiB", _ratio(row))
        for work, figures in _figures_by_work().items()
        if (row := figures.get("MiB")) is not None
    ]
    return table(header, rows)


def _figures_by_work() -> Mapping[str, _Work]:
    works: dict[str, dict[str, Ratio]] = {}
    for row in _rows():
        works.setdefault(row.work, {})[row.figure] = row
    return works


def _rows() -> Iterable[Ratio]:
    (path,) = DATA.glob("kube-apiserver-*.json")
    return read(path).rows


def _duration(value: float, figure: str) -> str:
    """Return CPU time in milliseconds: of a request or an event, or of the whole work."""
    milliseconds = value * (0.001 if figure.endswith(" us") else 1000)
    return f"{milliseconds:,.3g} ms" if milliseconds < 1000 else f"{milliseconds:,.0f} ms"


def _ratio(row: Ratio | None) -> str:
    return f"{row.ratios[1]:.2f}" if row is not None else ""


def _spread(row: Ratio) -> str:
    low, middle, high = row.ratios
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"
