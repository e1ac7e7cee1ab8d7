"""Does a flood of two users delay the others?

    python -m tests.bench.fairness --pods 10000 --plot FILE.svg
    python -m tests.bench.fairness --pods 10000 --peer path/to/kube-apiserver

One user lists 10,000 pods over and over on many connections, another one creates ConfigMaps.
Before, meanwhile and after, three others send a few requests per second, each on a connection of
its own: a controller renews a Lease, an administrator reads a pod, and a third user reads a pod and
creates a ConfigMap. The first table has the latencies of each, and the ratio of the flood to the
quiet server.

The clients share the processors with the server, so that a response waits for its client, too. The
second table therefore ends when the server writes the response, by its audit log: from the moment
when the client sends the request until then, and of that the time until the server reads it.

The floods run in processes of their own, and only while nobody else wants a processor (SCHED_IDLE).
Do not give this program a real-time priority: the kernel's threads, which complete the commits of
the store, would have to wait for the server. With `--peer` it measures a kube-apiserver.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

import orjson

from tests.bench.client import Connection, Target, connections, spread
from tests.bench.objects import NAMESPACE, configmap, ensure_namespace, path, pod
from tests.bench.plots import line_chart
from tests.bench.processes import cpu_seconds
from tests.bench.servers import STORES, peer, server, store

USERS = {
    "lister": "lister-token",
    "creator": "creator-token",
    "third": "third-token",
    "system:kube-controller-manager": "manager-token",
}
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
GROUP = "rbac.authorization.k8s.io"
EVERYTHING = {
    "metadata": {"name": "bench"},
    "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user} for user in USERS],
}
"""Allows the users everything: a server that allows it to everybody reports its readiness to
nobody without a token."""
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "users": ["lister", "creator"]},
        {"level": "Metadata", "users": ["admin", *USERS]},
    ],
}
"""Records the requests of those whose latency is measured."""
AUDIT_SECONDS = 3.0
"""The audit log has all events after this time."""


AuditTimes: TypeAlias = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Sample:
    """One request.

    sent        seconds since the start of the run
    spent       seconds until the client has the response
    sent_at     seconds since 1970
    audit_id    names it in the audit log
    """

    sent: float
    spent: float
    sent_at: float
    audit_id: str


@dataclass
class Caller:
    """Somebody whose latency is measured."""

    name: str
    connection: Connection
    send: Callable[[Connection, int], Awaitable[int]]
    samples: list[Sample] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    async def run(self, start: float, end: float, rate: float) -> None:
        """Send requests at a rate until the end, never two at a time."""
        for number in itertools.count():
            due = start + number / rate
            if due >= end:
                return
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            audit_id = self.connection.headers["Audit-ID"] = str(uuid.uuid4())
            sent, sent_at = time.perf_counter(), time.time()
            self.statuses[await self.send(self.connection, number)] += 1
            spent = time.perf_counter() - sent
            self.samples.append(Sample(sent - start, spent, sent_at, audit_id))

    def between(self, start: float, end: float) -> list[Sample]:
        """Return the requests that were sent between two times."""
        return [sample for sample in self.samples if start <= sample.sent < end]


def _quantiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile in milliseconds."""
    return statistics.median(seconds) * 1e3, statistics.quantiles(seconds, n=100)[98] * 1e3


def _read_audit_log(file: Path) -> AuditTimes:
    """Return when the server had read each request, and when it wrote the response, in seconds
    since 1970, by audit id."""
    events = map(orjson.loads, file.read_bytes().splitlines())
    return {
        event["auditID"]: (
            datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
            datetime.fromisoformat(event["stageTimestamp"]).timestamp(),
        )
        for event in events
        if event["stage"] == "ResponseComplete"
    }


async def _renew(connection: Connection, number: int) -> int:
    patch = {"spec": {"holderIdentity": "me", "leaseTransitions": number}}
    url, media = f"{LEASES}/leader", "application/merge-patch+json"
    return (await connection.request("PATCH", url, patch, content_type=media)).status


async def _read(connection: Connection, number: int) -> int:
    return (await connection.request("GET", f"{PODS}/pod-{number % 100}")).status


async def _create(connection: Connection, number: int) -> int:
    body = configmap(f"third-{time.time_ns()}-{number}")
    return (await connection.request("POST", path("configmaps"), body)).status


async def _callers(target: Target) -> list[Caller]:
    context = target.tls()

    async def caller(name: str, user: str, send: Callable[[Connection, int], Awaitable[int]]):
        own = replace(target, token=USERS.get(user, target.token))
        return Caller(name, await Connection(own).open(context), send)

    return [
        await caller("Lease of a controller", "system:kube-controller-manager", _renew),
        await caller("administrator, GET", "admin", _read),
        await caller("third user, GET", "third", _read),
        await caller("third user, create", "third", _create),
    ]


async def _fill(target: Target, pods: int) -> None:
    async with connections(target, 16) as opened:
        await ensure_namespace(opened[0])
        assert (await opened[0].request("POST", BINDINGS, EVERYTHING)).status == 201
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "leader"},
        }
        assert (await opened[0].request("POST", LEASES, lease)).status == 201

        async def create(connection: Connection, number: int) -> None:
            body = pod(number, f"pod-{number}", "00000000-0000-0000-0000-000000000000")
            response = await connection.request("POST", PODS, body)
            assert response.status == 201, response.body

        await spread(opened, range(pods), create)
        assert (await opened[0].request("GET", PODS)).status == 200


def _yield_to_others() -> None:
    """Let this process run only while the server and the measured callers do not: they share
    processors with it, which a server does not with its clients."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


async def flood(target: Target, kind: str, count: int) -> None:
    """Send requests on many connections until the process is ended, and print how many of them
    succeeded in a second."""
    _yield_to_others()
    numbers, statuses = itertools.count(), Counter[int]()

    async def send(connection: Connection) -> None:
        while True:
            if kind == "lists":
                response = await connection.request("GET", PODS)
            else:
                body = configmap(f"flood-{os.getpid()}-{next(numbers)}")
                response = await connection.request("POST", path("configmaps"), body)
            statuses[response.status] += 1
            if response.status == 429:
                await asyncio.sleep(1.0)

    async with connections(target, count) as opened:
        start = time.perf_counter()
        sending = asyncio.gather(*map(send, opened))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, sending.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await sending
        seconds = time.perf_counter() - start
    good = sum(count for status, count in statuses.items() if status < 300)
    print(f"{kind}: {good / seconds:.0f} per s, other responses: {statuses.total() - good}")


@contextlib.contextmanager
def _floods(target: Target, count: int) -> Iterator[None]:
    """Run both floods until the block ends."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.bench.fairness", "--flood", kind,
             "--connections", str(count), "--target", f"{target.port},{token},{target.ca_file}"],
        )
        for kind, token in (("lists", USERS["lister"]), ("creates", USERS["creator"]))
    ]  # fmt: skip
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.wait(30)


async def measure(target: Target, options: argparse.Namespace, audit_log: Path) -> None:
    """Fill the server, run the three phases and print the tables."""
    await _fill(target, options.pods)
    await asyncio.sleep(options.settle)
    callers = await _callers(target)
    quiet, end = options.seconds, 3 * options.seconds
    start = time.perf_counter()
    running = asyncio.gather(*(caller.run(start, start + end, options.rate) for caller in callers))
    await asyncio.sleep(quiet)
    cpu = cpu_seconds(target.pids)
    with _floods(target, options.connections):
        await asyncio.sleep(quiet)
    cpu = cpu_seconds(target.pids) - cpu
    await running
    await asyncio.sleep(AUDIT_SECONDS)
    print(f"CPU of the server during the flood: {cpu / quiet:.0%} of a core")
    _print_tables(callers, quiet, _read_audit_log(audit_log))
    if options.plot is not None:
        lines = {caller.name: _by_second(caller, end) for caller in callers}
        title = "greatest latency of each second; grey: two users flood the server"
        chart = line_chart(title, lines, unit=" ms", shaded=(quiet, 2 * quiet))
        options.plot.write_text(chart)


def _print_tables(callers: Sequence[Caller], quiet: int, times: AuditTimes) -> None:
    """Print the latencies of the first phase and of the second one, which begins after `quiet`
    seconds."""
    failed = sum(
        count for caller in callers for status, count in caller.statuses.items() if status >= 300
    )
    print(f"Other responses than 2xx: {failed}")
    measures: dict[str, Callable[[Sample], float]] = {
        "until the client has the response": lambda sample: sample.spent,
        "until the server writes it": lambda sample: times[sample.audit_id][1] - sample.sent_at,
        "until it has read the request": lambda sample: times[sample.audit_id][0] - sample.sent_at,
    }
    for title, seconds in measures.items():
        print(f"\n| {title} | quiet, p50 / p99 | flood, p50 / p99 | ratio of p99 |")
        print("| --- | --- | --- | --- |")
        for caller in callers:
            before = _quantiles([*map(seconds, caller.between(0, quiet))])
            # The floods connect first.
            flooded = _quantiles([*map(seconds, caller.between(quiet + 2, 2 * quiet))])
            print(
                f"| {caller.name} | {before[0]:.1f} / {before[1]:.1f} ms "
                f"| {flooded[0]:.1f} / {flooded[1]:.1f} ms | {flooded[1] / before[1]:.1f} |"
            )


def _by_second(caller: Caller, seconds: int) -> list[tuple[float, float]]:
    greatest = [0.0] * seconds
    for sample in caller.samples:
        second = min(int(sample.sent), seconds - 1)
        greatest[second] = max(greatest[second], sample.spent * 1e3)
    return list(enumerate(greatest))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--storage", choices=STORES, default="sqlite")
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=16, help="of each flood")
    parser.add_argument("--rate", type=float, default=20.0, help="requests per second of each")
    parser.add_argument("--seconds", type=int, default=20, help="of each of the three phases")
    parser.add_argument("--settle", type=float, default=6.0, help="seconds before the first phase")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--peer", type=Path, help="a kube-apiserver to measure, over an etcd")
    parser.add_argument("--flags", nargs="*", default=[], help="of the server, without dashes")
    parser.add_argument("--flood", choices=("lists", "creates"), help=argparse.SUPPRESS)
    parser.add_argument("--target", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Run the bench, or one of its floods."""
    options = _arguments()
    if options.flood:
        port, token, ca_file = options.target.split(",")
        target = Target(host="127.0.0.1", port=int(port), token=token, ca_file=ca_file, pids=[])
        asyncio.run(flood(target, options.flood, options.connections))
        return
    users = "".join(f"{token},{user},{user}\n" for user, token in USERS.items())
    flags = [f"--{flag}" for flag in options.flags]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        policy, audit_log = folder / "policy.json", folder / "audit.log"
        policy.write_bytes(orjson.dumps(AUDIT_POLICY))
        flags += ["--audit-policy-file", str(policy), "--audit-log-path", str(audit_log),
                  "--audit-log-mode", "batch"]  # fmt: skip
        with contextlib.ExitStack() as stack:
            if options.peer is None:
                below = stack.enter_context(store(options.storage, folder))
                flags.append("--authorization-mode=RBAC")
                running = server(folder / "server", below, flags, users=users)
            else:
                below = stack.enter_context(store("etcd", folder))
                flags.append(f"--audit-log-batch-max-wait={AUDIT_SECONDS / 3}s")
                running = peer(options.peer, folder / "server", below, flags, users=users)
            target, _ = stack.enter_context(running)
            asyncio.run(measure(target, options, audit_log))


if __name__ == "__main__":
    main()
