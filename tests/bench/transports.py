"""Costs of creates and updates over etcd, by transport.

    python -m tests.bench.transports --rounds 10 --seconds 3

Two servers, each over an etcd of its own that syncs to disk, take turns. Prints the medians of each
measure, and the median, least and greatest ratio of gRPC to the gateway.
"""

import argparse
import asyncio
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.bench import measures
from tests.bench.client import Target
from tests.bench.measures import Figures
from tests.bench.servers import server, store

WORK = {"create": measures.create, "PUT": measures.put}
CONNECTIONS = (1, 16, 64)
TRANSPORTS = ("grpc", "gateway")


def _print(name: str, rounds: list[dict[str, Figures]]) -> None:
    for transport in TRANSPORTS:
        figures = [figures_by_transport[transport] for figures_by_transport in rounds]
        medians = {key: statistics.median(run[key] for run in figures) for key in figures[0]}
        cells = " | ".join(f"{value:,.4g}" for value in medians.values())
        print(f"| {name}, {transport} | {cells} |", flush=True)
    ratios = []
    for key in rounds[0]["grpc"]:
        values = [figures["grpc"][key] / figures["gateway"][key] for figures in rounds]
        median, least, greatest = statistics.median(values), min(values), max(values)
        ratios.append(f"{median:.2f} ({least:.2f} to {greatest:.2f})")
    print(f"| {name}, ratio | {' | '.join(ratios)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one window")
    options = parser.parse_args()
    with ExitStack() as stack:
        targets: dict[str, Target] = {}
        for transport in TRANSPORTS:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            below = stack.enter_context(store("etcd", folder))
            flags = ["--etcd-transport", transport]
            targets[transport], _ = stack.enter_context(server(folder, below, flags))
        runs: dict[str, list[dict[str, Figures]]] = {}
        for number in range(options.rounds):
            for work, measure in WORK.items():
                for count in CONNECTIONS:
                    figures = {}
                    for transport in TRANSPORTS if number % 2 else reversed(TRANSPORTS):
                        figures[transport] = asyncio.run(
                            measure(targets[transport], options.seconds, count=count)
                        )
                    runs.setdefault(f"{work}, {count} connections", []).append(figures)
    names = next(iter(runs.values()))[0]["grpc"]
    print("| work |", " | ".join(names), "|\n|", "--- |" * (len(names) + 1))
    for name, rounds in runs.items():
        _print(name, rounds)


if __name__ == "__main__":
    main()
