"""The cost that conversion and checks add to a gRPC call over a Unix socket.

    python -m tests.bench.rpc [--calls 2000] [--rounds 9]

Calls `ComputeDouble` of examples/rpc in four servers, each in a process of its own, from
one client:

    plain    grpc.aio on a Unix socket, with protobuf classes, no kapiserver code
    v1       the endpoint alone, without the relay that checks peers; same-typed conversion
    served   v1 as `kapiserver rpc serve` serves it
    v1alpha1 the same with hand-written conversion from 32 bits

A round calls each server in turn, one call at a time and 16 at a time. Figures are medians over the
rounds: calls a second and median latency by the wall clock, CPU microseconds of the server's
process for each call, and the CPU time relative to that of `plain` in the same round.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import uvloop

from kapiserver.rpc.calls import GroupRunner, Limits
from kapiserver.rpc.endpoint import Endpoint
from kapiserver.rpc.loading import load_groups
from kapiserver.rpc.registration import Group, Version
from kapiserver.rpc.serving import ADMIN, Addresses, serve_rpc

EXAMPLES = Path("examples/rpc")
NAMES = ("plain", "v1", "served", "v1alpha1")
PARALLEL = 16


def dummy() -> Group:
    """Return the group of the document."""
    return next(group for group in load_groups(EXAMPLES) if group.name == "dummy")


async def serve(name: str, folder: Path) -> None:
    """Serve one of NAMES at `folder/NAME.sock`, or below it, until the process is killed."""
    group = dummy()
    version = group.versions[0]
    runner = GroupRunner(group, Limits())
    path = folder / f"{name}.sock"
    if name == "plain":
        server = _plain_server(version, path)
        await server.start()
        await _serve_forever()
    elif name == "v1":
        endpoint = Endpoint([(runner, version)], lambda _context: ADMIN)
        await endpoint.start(f"unix:{path}")
        await _serve_forever()
    else:
        async with serve_rpc([runner], Addresses(socket_dir=folder / name)):
            await _serve_forever()


async def _serve_forever() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def _plain_server(version: Version, path: Path) -> grpc.aio.Server:
    method = version.methods[0]

    async def double(request: Any, _context: Any) -> Any:
        return method.response(response=2 * request.input)

    handler = grpc.unary_unary_rpc_method_handler(
        double,
        request_deserializer=method.request.FromString,
        response_serializer=method.response.SerializeToString,
    )
    server = grpc.aio.server()
    handlers = {method.name: handler}
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(version.full_service, handlers),)
    )
    server.add_insecure_port(f"unix:{path}")
    return server


@dataclass
class Contestant:
    """One server and its figures, a value for each round."""

    name: str
    process: subprocess.Popen[str]
    call: Callable[[], Any]
    single: list[float] = field(default_factory=list)
    latency: list[float] = field(default_factory=list)
    parallel: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    async def run(self, calls: int) -> None:
        """Add a round to the figures."""
        cpu, seconds = _cpu_seconds(self.process.pid), []
        started = time.perf_counter()
        for _ in range(calls):
            before = time.perf_counter()
            await self.call()
            seconds.append(time.perf_counter() - before)
        self.single.append(calls / (time.perf_counter() - started))
        self.latency.append(statistics.median(seconds) * 1e6)
        started = time.perf_counter()
        await asyncio.gather(*(self._several(calls // PARALLEL) for _ in range(PARALLEL)))
        self.parallel.append(calls / (time.perf_counter() - started))
        self.cpu.append((_cpu_seconds(self.process.pid) - cpu) / (2 * calls) * 1e6)

    async def _several(self, calls: int) -> None:
        for _ in range(calls):
            await self.call()


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


async def measure(folder: Path, stack: ExitStack, calls: int, rounds: int) -> Sequence[Contestant]:
    """Run all rounds, the servers in turn."""
    versions = dummy().versions
    contestants = []
    for name in NAMES:
        command = [sys.executable, "-m", "tests.bench.rpc", "--serve", name, str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 - it is to run beside the loop
        stack.callback(process.wait)
        stack.callback(process.kill)
        assert process.stdout is not None
        process.stdout.readline()
        version = versions[name == "v1alpha1"]
        path = folder / f"{name}.sock"
        if name in ("served", "v1alpha1"):
            path = folder / name / f"rpc-dummy-{version.name}.sock"
        contestants.append(Contestant(name, process, _caller(path, version)))
    for contestant in contestants:
        await contestant.run(calls // 4)  # warm
        for figures in (contestant.single, contestant.latency, contestant.parallel, contestant.cpu):
            figures.clear()
    for _ in range(rounds):
        for contestant in contestants:
            await contestant.run(calls)
    return contestants


def _caller(path: Path, version: Version) -> Callable[[], Any]:
    method = version.methods[0]
    call = grpc.aio.insecure_channel(f"unix:{path}").unary_unary(
        f"/{version.full_service}/{method.name}",
        request_serializer=method.request.SerializeToString,
        response_deserializer=method.response.FromString,
    )
    name = method.request.DESCRIPTOR.fields[0].name
    return lambda: call(method.request(**{name: 21}))


def report(contestants: Sequence[Contestant]) -> str:
    """Return the table."""
    plain = contestants[0]
    lines = [f"{'':10}{'calls/s':>9}{'us':>7}{'16: calls/s':>13}{'CPU us':>8}{'CPU ratio':>11}"]
    for each in contestants:
        ratios = [own / base for own, base in zip(each.cpu, plain.cpu, strict=True)]
        figures = map(statistics.median, (each.single, each.latency, each.parallel, each.cpu))
        single, latency, parallel, cpu = figures
        lines.append(
            f"{each.name:10}{single:9.0f}{latency:7.0f}{parallel:13.0f}{cpu:8.0f}"
            f"{statistics.median(ratios):11.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table, or serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--serve", nargs=2, metavar=("NAME", "FOLDER"))
    options = parser.parse_args()
    if options.serve:
        uvloop.run(serve(options.serve[0], Path(options.serve[1])))
        return
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        measured = asyncio.run(measure(Path(folder), stack, options.calls, options.rounds))
        print(report(measured))


if __name__ == "__main__":
    main()
