"""What a measure of a server returns, and how a report of all is written."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct


class Figures(Struct, frozen=True, kw_only=True):
    """The figures of one kind of work.

    work            what the clients did
    count           requests that succeeded, or events that arrived
    failures        requests that were refused or cut, or events that did not arrive
    per_second      of those that succeeded
    p50_ms, p90_ms, p99_ms  latencies: of a response, or from the write of an event to its arrival
    server_us       CPU of the server's process for each, from its /metrics; None if they cannot be
                    read, or if the process did other work, too little to tell
    """

    work: str
    count: int
    failures: int
    per_second: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    server_us: float | None = None


class Report(Struct, kw_only=True):
    """The figures of all work. `memory_mib` is that of the server's process at the end; None if its
    /metrics cannot be read."""

    version: str
    connections: int
    figures: list[Figures]
    memory_mib: float | None = None


def figures_of(
    work: str,
    latencies: Sequence[float],
    *,
    failures: int,
    seconds: float,
    cpu_seconds: float | None = None,
) -> Figures:
    """Return the figures of work whose latencies are in seconds."""
    ordered = sorted(latencies)
    count = len(ordered)

    def percentile(part: float) -> float:
        return round(ordered[int(count * part)] * 1e3, 2) if ordered else 0.0

    return Figures(
        work=work,
        count=count,
        failures=failures,
        per_second=round(count / seconds, 1),
        p50_ms=percentile(0.5),
        p90_ms=percentile(0.9),
        p99_ms=percentile(0.99),
        server_us=round(cpu_seconds / count * 1e6, 1) if cpu_seconds and count else None,
    )


def as_json(report: Report) -> str:
    """Return a report as JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def as_text(report: Report) -> str:
    """Return a report as a table."""
    heads = ("WORK", "PER S", "P50 MS", "P90 MS", "P99 MS", "SERVER US", "FAILURES")
    rows = [heads] + [
        (
            figure.work,
            f"{figure.per_second:,.0f}",
            f"{figure.p50_ms:,.1f}",
            f"{figure.p90_ms:,.1f}",
            f"{figure.p99_ms:,.1f}",
            "-" if figure.server_us is None else f"{figure.server_us:,.0f}",
            f"{figure.failures}",
        )
        for figure in report.figures
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"{report.version}, {report.connections} connections"]
    for row in rows:
        name, *numbers = row
        cells = [name.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join(cells))
    if report.memory_mib is not None:
        lines.append(f"memory of the server's process: {report.memory_mib:,.0f} MiB")
    return "\n".join(lines) + "\n"
