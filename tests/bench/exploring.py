"""Plans of an exploration: `python -m tests.bench.exploring [PLANS]`.

The operator is the corrected twin of `tests/explore/operators/crashes/resize.py`, the workload has
ten writes, and there is one server. Prints the CPU time of a plan, with that of the operator, once
with the operator in a thread of this process and once as a command: median, lowest and highest; and
how many plans a core does in a second, which is the inverse of the mean.

For figures that other programs do not disturb: `chrt -r 5 python -m tests.bench.exploring`.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import sys
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

from kapiserver.exploring.explore import explore
from kapiserver.exploring.findings import Options
from kapiserver.exploring.running.assignment import Setup
from kapiserver.exploring.running.operators.in_process import ThreadLauncher, running_function
from kapiserver.exploring.running.operators.programs import CommandLauncher, Launcher
from kapiserver.exploring.steps import parse_workload
from tests.explore.corpus import FOLDER

DEFAULT_PLANS = 60
WRITES = 10
MODULE = "tests.explore.operators.crashes.resize"
FUNCTION = ("tests.explore.operators.in_process:run", (f"{MODULE}:Resize", "--repaired"))
COMMAND = (sys.executable, "-m", MODULE, "--repaired")


def workload() -> dict[str, list[object]]:
    """Return a workload that creates two databases and changes their labels in turn."""
    steps: list[object] = []
    for number in range(WRITES):
        database = {
            "apiVersion": "example.com/v1",
            "kind": "Database",
            "metadata": {"name": f"db-{number % 2}", "labels": {"number": str(number)}},
            "spec": {"replicas": 2, "storage": "1Gi"},
        }
        steps += [{"apply": database}, {"settle": {}}]
    return {"steps": steps}


def cpu_seconds() -> float:
    """Return the CPU time of this process and of the processes that it has started and reaped."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measure(launcher: Launcher, plans: int) -> None:
    """Explore with one server, and print a row of the table."""
    times: list[tuple[float, float]] = []
    setup = Setup(
        launcher=launcher,
        steps=parse_workload(workload(), Path()),
        sources=[str(FOLDER / "crds")],
    )
    result = asyncio.run(
        explore(
            setup,
            Options(seconds=600, plans=plans),
            lambda _: times.append((cpu_seconds(), time.perf_counter())),
        )
    )
    assert not result.findings, result.findings[0].plan.to_text()
    (first_cpu, first), (last_cpu, last) = times[0], times[-1]
    each = sorted((after[0] - before[0]) * 1000 for before, after in pairwise(times))
    rate = (len(times) - 1) / (last_cpu - first_cpu)
    print(
        f"{statistics.median(each):.0f} ms ({each[0]:.0f} to {each[-1]:.0f}), {rate:.1f} plans a "
        f"second and core; {(len(times) - 1) / (last - first):.1f} plans a second elapsed"
    )


def main() -> None:
    plans = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_PLANS
    print("in this process: ", end="", flush=True)
    measure(ThreadLauncher(partial(running_function, *FUNCTION)), plans)
    print("as a command: ", end="", flush=True)
    measure(CommandLauncher(COMMAND), plans)


if __name__ == "__main__":
    main()
