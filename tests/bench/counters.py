"""Instructions and cycles of a process: by the machine's counters where the kernel offers them
(`perf stat`), otherwise under callgrind, which counts the instructions of user space.

A virtual machine often has no counters. Callgrind needs none; the process then runs fifty times as
slowly while it counts, and five times otherwise, but what other programs do changes no figure. It
sees nothing of the kernel. `SystemCalls` counts what the process asks the kernel for.
"""

from __future__ import annotations

import functools
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

EVENTS = ("instructions", "cycles")
CALLS = " calls"
"""Ends the names of the events of `SystemCalls`."""
_CALL_ROW = re.compile(r"^ +[\d.]+ +[\d.]+ +\d+ +(\d+)(?: +\d+)? +(\w+)$", re.MULTILINE)
"""Shares and seconds, microseconds a call, calls, those that failed, and the name."""
_TOTALS = re.compile(rb"^totals: (\d+)", re.MULTILINE)


class Counter(Protocol):
    """Counts events of a process from `start` to `stop`, which returns them by name."""

    def start(self) -> None: ...

    def stop(self) -> dict[str, float]: ...


@functools.cache
def counts_events(events: Sequence[str] = EVENTS) -> bool:
    """Return whether perf is installed, and the machine counts these events."""
    if shutil.which("perf") is None:
        return False
    command = ["perf", "stat", "-x,", "-e", ",".join(events), "true"]
    run = subprocess.run(command, capture_output=True, text=True)
    return run.returncode == 0 and set(parse_perf(run.stderr)) == set(events)


def parse_perf(output: str) -> dict[str, float]:
    """Return the counts in the output of `perf stat -x,`, without events that are not counted."""
    counts = {}
    for line in output.splitlines():
        count, _unit, event, *_ = (*line.split(","), "", "")
        if count.replace(".", "").isdigit():
            counts[event.partition(":")[0]] = float(count)
    return counts


class Perf:
    """The machine's counters for processes and the threads and children that they start: kernel and
    user space."""

    def __init__(self, pids: Sequence[int], events: Sequence[str] = EVENTS) -> None:
        self._command = [
            "perf", "stat", "-x,", "-e", ",".join(events), "-p", ",".join(map(str, pids)),
        ]  # fmt: skip

    def start(self) -> None:
        """Start counting."""
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)

    def stop(self) -> dict[str, float]:
        """Stop counting."""
        self._process.send_signal(signal.SIGINT)
        return parse_perf(self._process.communicate()[1])


class Callgrind:
    """A process that was started by `command`. Each `stop` writes a file `profile.N` to the folder,
    for `callgrind_annotate`."""

    def __init__(self, pid: int, folder: Path) -> None:
        self._pid = str(pid)
        self._folder = folder
        self._profiles = 0

    @staticmethod
    def command(folder: Path) -> list[str]:
        """Return what comes before the command line of a program that is to be counted."""
        if shutil.which("valgrind") is None:
            return []
        return [
            "valgrind", "--tool=callgrind", "--instr-atstart=no", "--quiet",
            f"--callgrind-out-file={folder / 'profile'}",
        ]  # fmt: skip

    def start(self) -> None:
        """Start counting from 0."""
        self._control("--instr=on")
        self._control("--zero")

    def stop(self) -> dict[str, float]:
        """Stop counting."""
        self._control("--dump")
        self._control("--instr=off")
        self._profiles += 1
        profile = self._folder / f"profile.{self._profiles}"
        totals = _TOTALS.search(profile.read_bytes())
        assert totals is not None, profile
        return {"instructions": float(totals[1])}

    def _control(self, action: str) -> None:
        subprocess.run(
            ["callgrind_control", action, self._pid],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


class SystemCalls:
    """The system calls of a process and its threads, by strace: `write calls` and so on."""

    def __init__(self, pid: int) -> None:
        self._command = ["strace", "-c", "-f", "-p", str(pid)]

    def start(self) -> None:
        """Start counting. Raises RuntimeError if strace may not attach to the process."""
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        first = self._process.stderr.readline()
        if "attached" not in first:
            raise RuntimeError(first)

    def stop(self) -> dict[str, float]:
        """Stop counting."""
        self._process.send_signal(signal.SIGINT)
        return parse_strace(self._process.communicate()[1])


def parse_strace(output: str) -> dict[str, float]:
    """Return the counts in the table that `strace -c` prints."""
    rows = _CALL_ROW.findall(output)
    return {f"{name}{CALLS}": float(count) for count, name in rows if name != "total"}
