"""What priority and fairness costs a request: `python -m tests.bench.flow_control`, in us.

Requests pass the filter and the one that adds headers, and complete at once; the same with the
filter of max-in-flight in its place is subtracted. The two take turns. The least of many runs is
printed, which other programs disturb least.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
from collections.abc import Sequence
from time import perf_counter

from msgspec.structs import replace

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.filters.flow_control import apply_flow_control
from kapiserver.apiserver.filters.headers import add_headers
from kapiserver.apiserver.filters.in_flight import limit_in_flight
from kapiserver.apiserver.request import Outcome, Request
from kapiserver.apiserver.response import AnyResponse, text_response
from kapiserver.apiserver.user import AUTHENTICATED, MASTERS, User
from kapiserver.cluster import open_cluster
from tests.apiserver.serving.crowd import request_of

PODS = "/api/v1/namespaces/default/pods"
USER = User(name="jane", groups=("developers", AUTHENTICATED))
KINDS = {
    "GET": (USER, f"{PODS}/pod", "GET"),
    "create": (USER, PODS, "POST"),
    "list": (USER, PODS, "GET"),
    "exempt GET": (User(name="root", groups=(MASTERS, AUTHENTICATED)), f"{PODS}/pod", "GET"),
}
OUTCOME = Outcome(status=200, bytes_sent=0, finished=True)


async def _respond(_request: Request) -> AnyResponse:
    return text_response("")


def _seconds(handle: Handler, requests: Sequence[Request]) -> float:
    """Return the time of one request. None of them waits."""
    start = perf_counter()
    for request in requests:
        try:
            handle(request).send(None)  # type: ignore[attr-defined]
        except StopIteration:
            request.complete(OUTCOME)
    return (perf_counter() - start) / len(requests)


def _measure(server: Server, kind: str, runs: int, count: int) -> float:
    """Return the microseconds of the filter for a request."""
    unlimited = replace(server, flow_control=None)
    handlers = (
        add_headers(server, apply_flow_control(server, _respond)),
        add_headers(unlimited, limit_in_flight(unlimited, _respond)),
    )
    least = [float("inf"), float("inf")]
    for _ in range(runs):
        for index, handle in enumerate(handlers):
            requests = [request_of(*KINDS[kind]) for _ in range(count)]
            least[index] = min(least[index], _seconds(handle, requests))
    return (least[0] - least[1]) * 1e6


async def _main(runs: int, count: int) -> None:
    config = Config.of(secure_port=None, insecure_port=None)
    async with open_cluster(config) as cluster:
        gc.disable()
        for kind in KINDS:
            print(f"{kind}: {_measure(cluster.server, kind, runs, count):.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.flow_control")
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--count", type=int, default=100, help="requests of a run")
    options = parser.parse_args()
    asyncio.run(_main(options.runs, options.count))
