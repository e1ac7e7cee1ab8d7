"""What the bench counts: instructions of a process, and the requests of its rows."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.counters import Callgrind, parse_perf, parse_strace
from tests.bench.history import REQUESTS, Point, picture
from tests.bench.instructions import request_rows


def test_counts_of_perf() -> None:
    """Events that the machine does not count are left out."""
    output = (
        "1234567,,instructions:u,998877,100.00,1.2,insn per cycle\n"
        "0.35,msec,task-clock,347118,100.00,0.426,CPUs utilized\n"
        "<not supported>,,cycles,0,100.00,,\n"
    )
    assert parse_perf(output) == {"instructions": 1234567, "task-clock": 0.35}


def test_counts_of_strace() -> None:
    """Calls are counted by name, those that failed included."""
    output = (
        "strace: Process 17 attached with 3 threads\n"
        "% time     seconds  usecs/call     calls    errors syscall\n"
        "------ ----------- ----------- --------- --------- ----------------\n"
        " 62.50    0.000100           1        96           write\n"
        "  0.00    0.000000           0         7         2 read\n"
        "------ ----------- ----------- --------- --------- ----------------\n"
        "100.00    0.000100           0       103         2 total\n"
    )
    assert parse_strace(output) == {"write calls": 96, "read calls": 7}


def test_rows_that_are_counted() -> None:
    """A row is counted once, whatever its numbers of connections."""
    assert list(request_rows("get,put")) == [
        "get configmaps, JSON", "get pods, JSON", "get pods, protobuf", "put configmaps",
    ]  # fmt: skip
    assert "leases, merge patch" in request_rows("")


def test_picture_of_a_history() -> None:
    """A picture has a line for each request, over the numbers of the commits."""
    points = [
        Point(commit=commit, date=date, number=number, thousands=dict.fromkeys(REQUESTS, value))
        for commit, date, number, value in (("a1", "2026-11-22", 0, 9), ("b2", "2026-11-28", 40, 6))
    ]
    drawn = picture(points)
    assert drawn.count("<polyline") == 1 + len(REQUESTS)
    assert "40 commits" in drawn
    assert "2026-11-22 to 2026-11-28" in drawn


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("callgrind_control") is None, reason="valgrind is not installed")
def test_callgrind_counts_between_start_and_stop(tmp_path: Path) -> None:
    """Callgrind counts what a process does after `start`, and begins again at the next one."""
    program = "import sys\nfor line in sys.stdin: print(sum(range(int(line))), flush=True)"
    command = [*Callgrind.command(tmp_path), sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        counter = Callgrind(process.pid, tmp_path)
        process.stdin.write("1\n")
        process.stdin.flush()
        assert process.stdout.readline() == "0\n"
        counts = []
        for number in (1000, 100_000):
            counter.start()
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{sum(range(number))}\n"
            counts.append(counter.stop()["instructions"])
        process.stdin.close()
    assert 1000 < counts[0] < counts[1] / 10
