"""CPU and memory of processes and all their descendants, read from the kernel (Linux)."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from tests.bench.counters import Counter

_TICKS = os.sysconf("SC_CLK_TCK")


def tree(pids: Sequence[int]) -> list[int]:
    """The processes and all their descendants."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(folder.name))
    pids_found: list[int] = []
    queue = list(pids)
    while queue:
        pid = queue.pop()
        if pid not in pids_found:
            pids_found.append(pid)
            queue += children.get(pid, [])
    return pids_found


def main_thread_seconds(pid: int) -> float:
    """Return the CPU time of the main thread of a process, to the nanosecond."""
    text = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text()
    return int(text.split()[0]) / 1e9


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and system CPU time so far, with that of children that have ended."""
    total = 0.0
    for pid in tree(pids):
        try:
            # The process's CPU clock has nanoseconds, /proc hundredths of a second.
            total += time.clock_gettime((~pid << 3) | 2)
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[13:15])) / _TICKS
        except OSError:
            continue
    return total


def resident_mib(pids: Sequence[int]) -> float:
    """Resident memory in MiB."""
    total = 0
    for pid in tree(pids):
        try:
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    total += int(line.split()[1])
        except OSError:
            continue
    return total / 1024


def proportional_mib(pids: Sequence[int]) -> float:
    """Memory in MiB, in which a page that several processes share counts once: forked workers share
    what they have not written to since the fork."""
    total = 0
    for pid in tree(pids):
        try:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
        except OSError:
            continue
    return total / 1024


def sleeps(pids: Sequence[int]) -> int:
    """Return how often the threads of the processes have waited for something so far, by their
    voluntary context switches. Each of them is woken again."""
    total = 0
    for pid in tree(pids):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for line in (thread / "status").read_text().splitlines():
                if line.startswith("voluntary_ctxt_switches:"):
                    total += int(line.split()[1])
    return total


def _busy_seconds() -> float:
    fields = [
        int(jiffies) for jiffies in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    ]
    return (sum(fields) - fields[3] - fields[4] - fields[7]) / _TICKS


@dataclass
class Window:
    """Measures wall and CPU seconds of a `with` block: of the server, of its store if that is
    another process, and of the whole machine; and the events that a counter counts."""

    pids: list[int]
    store_pids: Sequence[int] = ()
    counter: Counter | None = None
    wall: float = 0.0
    server: float = 0.0
    store: float = 0.0
    machine: float = 0.0
    events: dict[str, float] = field(default_factory=dict)

    def __enter__(self) -> "Window":
        if self.counter is not None:
            self.counter.start()
        # Reading /proc takes milliseconds, more for a store of many processes: outside the time.
        self._cpu = self._cpu_seconds()
        self._start = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.wall = time.perf_counter() - self._start
        self.server, self.store, self.machine = (
            after - earlier for earlier, after in zip(self._cpu, self._cpu_seconds(), strict=True)
        )
        if self.counter is not None:
            self.events = self.counter.stop()

    def _cpu_seconds(self) -> tuple[float, float, float]:
        """Return the seconds of the server, of its store and of the machine."""
        of_store = cpu_seconds(self.store_pids) if self.store_pids else 0.0
        return cpu_seconds(self.pids), of_store, _busy_seconds()
