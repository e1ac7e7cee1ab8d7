"""How the instructions of a request developed over the commits of the history.

    python -m tests.bench.history [--commits 20] [--storage sqlite] [--since COMMIT]

Checks out that many commits, evenly spread over the history since one of them, counts the
instructions of their servers as `tests/bench/instructions.py` does, and writes the figures and
their picture to `docs/`. A commit whose server fails is left out. Takes a minute for each.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from subprocess import SubprocessError

import msgspec
from msgspec import Struct

from tests.bench import servers
from tests.bench.contestants import checkout
from tests.bench.instructions import count, counted_server, request_rows
from tests.bench.plots import line_chart
from tests.bench.servers import ROOT

DATA = ROOT / "docs" / "bench" / "history" / "instructions.json"
PICTURE = ROOT / "docs" / "images" / "instructions.svg"
REQUESTS = ("get configmaps, JSON", "create configmaps", "put configmaps")
"""The rows whose instructions are counted."""
FIRST = "12fec815"
"""The first commit of a measurement: of 2026-11-22; servers before it lack flags that it needs."""


class Point(Struct, frozen=True, kw_only=True):
    """A commit, its date (YYYY-MM-DD), how many commits after the first one it is, and thousands of
    instructions by the name of the request."""

    commit: str
    date: str
    number: int
    thousands: dict[str, int]


def _commits(count: int, since: str) -> list[tuple[int, str, str]]:
    """Return commits, each with its number from 0 and its date, evenly spread over the history, the
    oldest first."""
    command = ["git", "-C", str(ROOT), "log", "--reverse", "--format=%h %as", f"{since}^..HEAD"]
    log = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    commits = []
    for index in range(count):
        number = round(index * (len(log) - 1) / (count - 1))
        commit, date = log[number].split()
        commits.append((number, commit, date))
    return commits


def _measure(commit: str, storage: str, scratch: Path) -> dict[str, int]:
    """Return thousands of instructions of the server of a commit. Raises SystemExit if it does not
    start."""
    scratch.mkdir()
    tree = checkout(commit, scratch / "tree")
    subprocess.run([sys.executable, "-m", "compileall", "-q", tree / "kapiserver"], check=True)
    rows = {name: row for name, row in request_rows("").items() if name in REQUESTS}
    with counted_server(storage, scratch, tree) as target:
        return {name: round(each / 1000) for name, each in count(target, rows, 16, 2)}


def picture(points: Sequence[Point]) -> str:
    """Return the picture of a history."""
    lines = {
        name: [(float(point.number), float(point.thousands[name])) for point in points]
        for name in REQUESTS
    }
    title = f"thousand instructions of a request, {points[0].date} to {points[-1].date}"
    return line_chart(title, lines, across=" commits")


def main() -> None:
    """Measure, and write data and picture."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.history")
    parser.add_argument("--commits", type=int, default=20)
    parser.add_argument("--storage", choices=servers.STORES, default="sqlite")
    parser.add_argument("--since", default=FIRST, help="the first commit")
    options = parser.parse_args()
    points: list[Point] = []
    with tempfile.TemporaryDirectory() as scratch:
        for number, commit, date in _commits(options.commits, options.since):
            try:
                thousands = _measure(commit, options.storage, Path(scratch, commit))
            except (SystemExit, AssertionError, OSError, EOFError, SubprocessError) as error:
                print(f"{commit} {date} is left out: {error!r}", flush=True)
                continue
            points.append(Point(commit=commit, date=date, number=number, thousands=thousands))
            print(commit, date, thousands, flush=True)
    DATA.parent.mkdir(parents=True, exist_ok=True)
    DATA.write_bytes(msgspec.json.format(msgspec.json.encode(points), indent=1) + b"\n")
    PICTURE.write_text(picture(points))


if __name__ == "__main__":
    main()
