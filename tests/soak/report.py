"""Measurements of a soak, their verdict and their plot."""

from __future__ import annotations

import math
import os
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ALLOWED_GROWTH = 1.10
"""Memory at the end, in proportion to memory at the start of the judged time."""
JUDGED_FROM = 1 / 3
"""The share of the time from which memory is judged, but ..."""
JUDGED_FROM_SECONDS = 900.0
"""... at the latest so many seconds after the start."""
WIDTH, HEIGHT = 72, 12
MAX_REASONS = 20
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    """The memory, descriptors and disk space of the server at one time.

    at          seconds since the start of the soak
    memory      bytes of allocated memory
    descriptors open file descriptors
    wal         bytes of the write-ahead log
    """

    at: float
    memory: int
    descriptors: int
    wal: int


def measure(at: float, pid: int, wal: Path) -> Sample:
    """Measure a process. Raises OSError if it has ended."""
    resident, shared = (Path("/proc") / str(pid) / "statm").read_text().split()[1:3]
    return Sample(
        at=at,
        memory=(int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE"),
        descriptors=len(list((Path("/proc") / str(pid) / "fd").iterdir())),
        wal=wal.stat().st_size if wal.exists() else 0,
    )


@dataclass(slots=True)
class Report:
    """All measurements of one soak."""

    seconds: float
    samples: list[Sample] = field(default_factory=list)
    latencies: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each request, by operation."""
    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    """Unexpected responses, broken connections of a running server, lost writes."""
    filled: float = math.inf
    """Seconds from the start until the caches were filled."""
    kills: int = 0
    acknowledged: int = 0

    def memory_around(self, fraction: float) -> float:
        """Return the median of the memory in a tenth of the time that begins at a fraction."""
        begin, end = fraction * self.seconds, (fraction + 0.1) * self.seconds
        window = [sample.memory for sample in self.samples if begin <= sample.at <= end]
        return statistics.median(window) if window else 0.0

    def verdict(self) -> list[str]:
        """Return why the soak failed; empty if it passed."""
        reasons = list(self.faults)
        judged_from = min(JUDGED_FROM, JUDGED_FROM_SECONDS / self.seconds)
        early, late = self.memory_around(judged_from), self.memory_around(0.9)
        if early and late > early * ALLOWED_GROWTH:
            reasons.append(f"memory rose from {early / MIB:.0f} to {late / MIB:.0f} MiB")
        if self.filled > judged_from * self.seconds:
            reasons.append(f"the caches were filled after {self.filled:.0f} s only")
        if not self.acknowledged:
            reasons.append("no write was acknowledged")
        return reasons

    def text(self) -> str:
        """Return the report as text."""
        requests = sum(map(len, self.latencies.values()))
        lines = [
            f"{self.seconds:.0f} s, {self.kills} kills, {requests:,} requests, "
            f"{self.acknowledged:,} acknowledged writes, "
            + ", ".join(f"{count:,} x {status}" for status, count in sorted(self.statuses.items())),
            "",
            *plot([(sample.at, sample.memory / MIB) for sample in self.samples], "MiB of memory"),
            "",
            "median memory in MiB, by tenths of the time: "
            + " ".join(f"{self.memory_around(tenth / 10) / MIB:.0f}" for tenth in range(10)),
            self._extremes("descriptors", [sample.descriptors for sample in self.samples]),
            self._extremes("WAL in KiB", [sample.wal >> 10 for sample in self.samples]),
            "",
            f"{'operation':<24}{'requests':>10}{'p50 ms':>10}{'p99 ms':>10}",
        ]
        for operation, seconds in sorted(self.latencies.items()):
            p50, p99 = percentile(seconds, 0.5) * 1000, percentile(seconds, 0.99) * 1000
            lines.append(f"{operation:<24}{len(seconds):>10,}{p50:>10.1f}{p99:>10.1f}")
        return "\n".join([*lines, "", *self._conclusion()])

    def _conclusion(self) -> list[str]:
        reasons = self.verdict()
        if not reasons:
            return ["passed"]
        more = [f"and {len(reasons) - MAX_REASONS} more"] if len(reasons) > MAX_REASONS else []
        return [f"FAILED: {reason}" for reason in reasons[:MAX_REASONS]] + more

    @staticmethod
    def _extremes(name: str, values: Sequence[int]) -> str:
        if not values:
            return f"{name}: not measured"
        return f"{name}: {min(values):,} to {max(values):,}, {values[-1]:,} at the end"


def percentile(values: Sequence[float], fraction: float) -> float:
    """Return the value that this fraction of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))]


def plot(points: Sequence[tuple[float, float]], title: str) -> list[str]:
    """Return the lines of a plot, of the greatest value in each column."""
    if not points:
        return [f"{title}: not measured"]
    end, top = max(x for x, _ in points) or 1.0, max(y for _, y in points) or 1.0
    columns = [0.0] * WIDTH
    for x, y in points:
        column = min(WIDTH - 1, int(x / end * WIDTH))
        columns[column] = max(columns[column], y)
    lines = [title]
    for row in range(HEIGHT, 0, -1):
        label = f"{top * row / HEIGHT:8.0f} |"
        cells = ("#" if value >= top * (row - 0.5) / HEIGHT else " " for value in columns)
        lines.append((label + "".join(cells)).rstrip())
    lines.append(" " * 9 + "+" + "-" * WIDTH)
    lines.append(f"{'0 s':>13}{f'{end:.0f} s':>{WIDTH - 4}}")
    return lines
