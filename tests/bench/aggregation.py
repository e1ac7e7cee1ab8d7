"""`python -m tests.bench.aggregation`: what a request through a host costs, in CPU time.

Two servers run in processes of their own, one behind the other. Rounds take turns: the same
requests direct to the server behind, and through the host, of one client and of sixteen at once.
Figures are CPU milliseconds of both servers for a request, over TLS connections that stay open, and
the ratio: the median of all rounds, with the lowest and the highest. Then the host alone serves its
own objects, without extension API servers, and with 50 APIServices of which 10 have a dead address.
"""

from __future__ import annotations

import functools
import http.client
import json
import ssl
import statistics
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.apiserver.aggregation.aggregationkit import Authority, resolver_file
from tests.bench.processes import cpu_seconds
from tests.e2e.cluster import established
from tests.e2e.programs import Server, start, stop

ROUNDS, REQUESTS = 11, 100
CLIENTS = (1, 16)
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
THINGS = "/apis/ext.example.com/v1/namespaces/default/things"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
OBJECTS = 500
DEAD, SERVED = 10, 40
Measure = Callable[[], float]


class Client:
    """A client of one server with a connection that stays open."""

    def __init__(self, server: Server) -> None:
        context = ssl.create_default_context(cafile=str(server.ca_file))
        context.load_cert_chain(server.client_cert, server.client_key)
        host = server.url.removeprefix("https://")
        self._connection = http.client.HTTPSConnection(host, context=context)

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON of a response."""
        content = None if body is None else json.dumps(body)
        self._connection.request(method, path, content, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        data = response.read()
        if response.status >= 400:
            raise RuntimeError(data.decode())
        return json.loads(data)


def _definition(group: str) -> Any:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    return {
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": "things", "kind": "Thing"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def _api_service(name: str, group: str) -> Any:
    return {
        "metadata": {"name": f"v1.{group}"},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": "default", "name": name},
        },
    }


def _wait_for(client: Client, name: str, reason: str) -> None:
    while True:
        status = client("GET", f"{SERVICES}/{name}").get("status") or {}
        if any(each["reason"] == reason for each in status.get("conditions") or ()):
            return


def _milliseconds(servers: list[Server], send: Callable[[], Any], count: int) -> float:
    """Return the CPU milliseconds that the servers need for a request."""
    return _milliseconds_at_once(servers, [send], count)


def _milliseconds_at_once(
    servers: list[Server], senders: Sequence[Callable[[], Any]], count: int
) -> float:
    """Return the same for requests that several clients send at once, each in a thread."""
    pids = [server.process.pid for server in servers]
    each = max(1, count // len(senders))

    def send_all(send: Callable[[], Any]) -> None:
        for _ in range(each):
            send()

    with ThreadPoolExecutor(len(senders)) as threads:
        before = cpu_seconds(pids)
        list(threads.map(send_all, senders))
        return (cpu_seconds(pids) - before) / (each * len(senders)) * 1000


def _compare(name: str, ours: Measure, base: Measure) -> None:
    pairs = [(ours(), base()) for _ in range(ROUNDS)][1:]
    ratios = [our / other for our, other in pairs]
    our, other = (statistics.median(values) for values in zip(*pairs, strict=True))
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    median = statistics.median(ratios)
    print(f"| {name} | {other:.3f} | {our:.3f} | {median:.2f} ({spread}) |", flush=True)


def _measure_requests(host: Server, behind: Server) -> None:
    both, names = [host, behind], iter(range(10**9))

    def create(client: Client) -> Any:
        body = {
            "apiVersion": "ext.example.com/v1", "kind": "Thing",
            "metadata": {"name": f"made-{next(names)}"}, "spec": {"size": 1},
        }  # fmt: skip
        return client("POST", f"{THINGS}?dryRun=All", body)

    rows: tuple[tuple[str, Callable[[Client], Any], int], ...] = (
        ("get", lambda client: client("GET", f"{THINGS}/t-1"), REQUESTS),
        ("create", create, REQUESTS),
        (f"list of {OBJECTS}", lambda client: client("GET", THINGS), REQUESTS // 4),
    )
    print("| request | direct, ms | through the host, ms | ratio |\n| --- | --- | --- | --- |")
    for clients in CLIENTS:
        through = [Client(host) for _ in range(clients)]
        direct = [Client(behind) for _ in range(clients)]
        for name, send, count in rows:

            def measure(
                to: Sequence[Client], send: Callable[[Client], Any] = send, count: int = count
            ) -> float:
                senders = [functools.partial(send, client) for client in to]
                return _milliseconds_at_once(both, senders, count)

            _compare(
                f"{name}, clients: {clients}",
                functools.partial(measure, through),
                functools.partial(measure, direct),
            )


def _measure_others(host: Server, plain: Server) -> None:
    """Compare a GET of an object of the host with that of a server without APIServices."""
    ours, others = Client(host), Client(plain)
    for client in (ours, others):
        client("POST", CONFIG_MAPS, {"metadata": {"name": "c"}})
    for number in range(SERVED):
        ours("POST", SERVICES, _api_service("ext", f"g{number}.example.com"))
    for number in range(DEAD):
        ours("POST", SERVICES, _api_service("dead", f"dead{number}.example.com"))
    for number in range(DEAD):
        _wait_for(ours, f"v1.dead{number}.example.com", "FailedDiscoveryCheck")
    for number in range(SERVED):
        _wait_for(ours, f"v1.g{number}.example.com", "Passed")
    path = f"{CONFIG_MAPS}/c"
    print("| request | no APIService, ms | 50 APIServices, ms | ratio |\n| --- | --- | --- | --- |")
    _compare(
        "get of a ConfigMap",
        lambda: _milliseconds([host], lambda: ours("GET", path), REQUESTS * 5),
        lambda: _milliseconds([plain], lambda: others("GET", path), REQUESTS * 5),
    )


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for each in ("behind", "host", "plain"):
            (folder / each).mkdir()
        authority = Authority(folder)
        proxy = authority.issue("front-proxy")
        behind = start(
            folder / "behind",
            "--requestheader-client-ca-file", str(authority.files.certificate),
            "--requestheader-username-headers", "X-Remote-User",
            "--requestheader-group-headers", "X-Remote-Group",
        )  # fmt: skip
        address = behind.url.removeprefix("https://")
        file = resolver_file(folder, ext=address, dead="127.0.0.1:1")
        host = start(
            folder / "host",
            "--service-resolver", str(file),
            "--proxy-client-cert-file", str(proxy.certificate),
            "--proxy-client-key-file", str(proxy.key),
        )  # fmt: skip
        plain = start(folder / "plain")
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        client = Client(behind)
        groups = ["ext.example.com", *(f"g{number}.example.com" for number in range(SERVED))]
        for group in groups:
            client("POST", definitions, _definition(group))
        established(behind, *(f"things.{group}" for group in groups))
        for number in range(OBJECTS):
            body = {
                "apiVersion": "ext.example.com/v1", "kind": "Thing",
                "metadata": {"name": f"t-{number}"}, "spec": {"size": number},
            }  # fmt: skip
            client("POST", THINGS, body)
        Client(host)("POST", SERVICES, _api_service("ext", "ext.example.com"))
        _wait_for(Client(host), "v1.ext.example.com", "Passed")
        _measure_requests(host, behind)
        _measure_others(host, plain)
        for server in (host, behind, plain):
            stop(server)


if __name__ == "__main__":
    main()
