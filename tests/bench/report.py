"""What a run of the bench leaves behind: its figures as JSON, and the pictures that are drawn from
them alone.

`make bench` writes both to `docs/`, named after the other server. `python -m tests.bench.report`
draws the pictures again, and tests/docs/test_pictures.py says when picture and data differ.
"""

from __future__ import annotations

import os
import re
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.bench.measures import PERCENTILES
from tests.bench.plots import Bar, bar_chart, line_chart
from tests.bench.servers import ROOT

DATA = ROOT / "docs" / "bench"
IMAGES = ROOT / "docs" / "images"
LATENCIES = ("get configmaps, JSON, 16 connections", "create configmaps, 16 connections")
"""The rows whose latencies are drawn."""
_WATCHERS = re.compile(r"watch, ([\d,]+) watchers")


class Ratio(Struct, frozen=True, kw_only=True):
    """A figure of both servers, as medians of all rounds, and the ratios of kapiserver's to the
    other's: the lowest, the median and the highest."""

    work: str
    figure: str
    peer: float
    kapiserver: float
    ratios: tuple[float, float, float]


class Sample(Struct, frozen=True, array_like=True):
    """Memory of a server and size of its store's files, so many seconds after the first sample."""

    seconds: float
    memory_mib: float
    file_mib: float


class Report(Struct, kw_only=True):
    """A run.

    date        YYYY-MM-DD
    machine     what ran, in words
    peer        the name of the other server
    samples     keyed by the name of the server
    """

    date: str
    machine: str
    peer: str
    rows: list[Ratio]
    samples: dict[str, list[Sample]]

    @classmethod
    def of_this_machine(cls, peer: str) -> Report:
        """Return an empty report."""
        load = os.getloadavg()[0]
        machine = f"{os.cpu_count()} cores, a load of {load:.0f} from other programs"
        today = datetime.now(UTC).date().isoformat()
        return cls(date=today, machine=machine, peer=peer, rows=[], samples={})

    def add(self, work: str, figure: str, pairs: Sequence[tuple[float, float]]) -> Ratio:
        """Add a figure of some rounds, each a pair of kapiserver's value and the other's."""
        ratios = [ours / other for ours, other in pairs]
        ours, other = (statistics.median(values) for values in zip(*pairs, strict=True))
        spread = (min(ratios), statistics.median(ratios), max(ratios))
        row = Ratio(
            work=work,
            figure=figure,
            peer=_short(other),
            kapiserver=_short(ours),
            ratios=tuple(map(_short, spread)),
        )
        self.rows.append(row)
        return row

    def write(self, data: Path = DATA, images: Path = IMAGES) -> None:
        """Write the data and the pictures."""
        for folder in (data, images):
            folder.mkdir(parents=True, exist_ok=True)
        encoded = msgspec.json.format(msgspec.json.encode(self), indent=1)
        (data / f"{self.slug}.json").write_bytes(encoded + b"\n")
        for name, picture in pictures(self).items():
            (images / name).write_text(picture)

    @property
    def slug(self) -> str:
        """The peer's name as part of a file name."""
        return re.sub(r"[^a-z0-9.]+", "-", self.peer.lower())


def _short(value: float) -> float:
    """Return a number with four significant digits."""
    return float(f"{value:.4g}")


def read(path: Path) -> Report:
    """Return the report of a file."""
    return msgspec.json.decode(path.read_bytes(), type=Report)


def pictures(report: Report) -> dict[str, str]:
    """Return the pictures of a report by file name; those without data are left out."""
    drawn = {
        "ratios": _ratios(report),
        "latencies": _latencies(report),
        "memory": _samples(report, "memory", "memory_mib"),
        "files": _samples(report, "size of the store's files", "file_mib"),
        "fan-out": _fan_out(report),
    }
    return {f"bench-{report.slug}-{name}.svg": text for name, text in drawn.items() if text}


def _ratios(report: Report) -> str:
    """CPU for each request, as a part of the other server's."""
    bars = [
        Bar(row.work, *row.ratios) for row in report.rows if row.figure in ("server us", "server s")
    ]
    title = f"CPU of the server: kapiserver's part of {report.peer}'s, lowest to highest round"
    return bar_chart(title, bars, mark=1) if bars else ""


def _latencies(report: Report) -> str:
    """The distribution of latencies of a GET and a create with 16 connections."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in report.rows:
        percentile = PERCENTILES.get(row.figure)
        if percentile is not None and row.work in LATENCIES:
            verb = row.work.split()[0]
            for server, value in (("kapiserver", row.kapiserver), (report.peer, row.peer)):
                lines.setdefault(f"{verb}, {server}", []).append((percentile, value))
    lines = {name: sorted(points) for name, points in lines.items()}
    title = "latency by percentile, 16 connections"
    return line_chart(title, lines, unit=" ms", across=" %") if lines else ""


def _samples(report: Report, title: str, field: str) -> str:
    lines = {
        server: [(sample.seconds, getattr(sample, field)) for sample in samples]
        for server, samples in report.samples.items()
    }
    return line_chart(f"{title}, second by second", lines, unit=" MiB") if lines else ""


def _fan_out(report: Report) -> str:
    """CPU for each event that a watcher gets, by the number of watchers."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in report.rows:
        matched = _WATCHERS.match(row.work)
        if matched and row.figure == "server us" and row.work.endswith(", 100 changes/s"):
            count = float(matched[1].replace(",", ""))
            lines.setdefault("kapiserver", []).append((count, row.kapiserver))
            lines.setdefault(report.peer, []).append((count, row.peer))
    title = "CPU for each event of a watcher, by watchers, 100 changes/s"
    return line_chart(title, lines, unit=" us", across=" watchers") if lines else ""


def main() -> None:
    """Draw the pictures of each report again."""
    for path in sorted(DATA.glob("*.json")):
        read(path).write()


if __name__ == "__main__":
    main()
