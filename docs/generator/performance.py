"""The tables of docs/performance.md: `make bench` beside kube-apiservers of several releases."""

from __future__ import annotations

from collections.abc import Mapping

from docs.generator.markdown import table
from tests.bench.report import DATA, Ratio, Report, read

COMPARISONS = DATA / "comparisons"
"""Runs beside other releases, or on a machine that other programs load; without pictures."""
_CPU = ("server us", "server s", "CPU s with start")
_Work = Mapping[str, Ratio]


def costs() -> str:
    """Return the table of CPU, rates and latencies, a line for each kind of work."""
    header = ("work", "kube-apiserver", "kapiserver", "CPU, ratio", "per s", "p99", "elapsed")
    rows = []
    for work, figures in _figures_by_work(_last_run()).items():
        if (cpu := _cpu(figures)) is not None:
            ratios = (_ratio(figures.get(name)) for name in ("per s", "p99 ms", "wall s"))
            peer, ours = (_duration(value, cpu.figure) for value in (cpu.peer, cpu.kapiserver))
            rows.append((work, peer, ours, _spread(cpu), *ratios))
    return table(header, rows)


def memory() -> str:
    """Return the table of memory."""
    header = ("memory", "kube-apiserver", "kapiserver", "ratio")
    rows = [
        (work, f"{row.peer:,.0f} MiB", f"{row.kapiserver:,.0f} MiB", _ratio(row))
        for work, figures in _figures_by_work(_last_run()).items()
        if (row := figures.get("MiB")) is not None
    ]
    return table(header, rows)


def comparisons() -> str:
    """Return the table of the ratios beside each release, on a quiet and on a loaded machine: of
    CPU, and in brackets of the elapsed time."""
    reports = [_last_run(), *map(read, sorted(COMPARISONS.glob("*.json")))]
    columns = [_figures_by_work(report) for report in reports]
    header = ("work", *(f"{report.peer}: {report.machine}" for report in reports))
    rows = [
        (work, *(_cpu_and_time(column.get(work, {})) for column in columns))
        for work, figures in columns[0].items()
        if _cpu(figures) is not None
    ]
    return table(header, rows)


def _cpu_and_time(figures: _Work) -> str:
    cpu, seconds, rate = _cpu(figures), figures.get("wall s"), figures.get("per s")
    if cpu is None:
        return ""
    if seconds is not None:
        return f"{_ratio(cpu)} ({_ratio(seconds)})"
    return f"{_ratio(cpu)} ({1 / rate.ratios[1]:.2f})" if rate is not None else _ratio(cpu)


def _last_run() -> Report:
    (path,) = DATA.glob("kube-apiserver-*.json")
    return read(path)


def _figures_by_work(report: Report) -> Mapping[str, _Work]:
    works: dict[str, dict[str, Ratio]] = {}
    for row in report.rows:
        works.setdefault(row.work, {})[row.figure] = row
    return works


def _cpu(figures: _Work) -> Ratio | None:
    """Return the ratio of the CPU time of a kind of work, None if it has none."""
    return next((figures[name] for name in _CPU if name in figures), None)


def _duration(value: float, figure: str) -> str:
    """Return CPU time in milliseconds: of a request or an event, or of the whole work."""
    milliseconds = value * (0.001 if figure.endswith(" us") else 1000)
    return f"{milliseconds:,.3g} ms" if milliseconds < 1000 else f"{milliseconds:,.0f} ms"


def _ratio(row: Ratio | None) -> str:
    return f"{row.ratios[1]:.2f}" if row is not None else ""


def _spread(row: Ratio) -> str:
    low, middle, high = row.ratios
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"
