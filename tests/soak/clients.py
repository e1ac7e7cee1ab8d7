"""The clients of a soak: each repeats its own mix of requests until it is cancelled."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp

from tests.soak.ledger import Ledger
from tests.soak.report import Report

PAUSE_SECONDS = 0.02
"""Between two requests of a client."""
NAMES = 40
"""Objects that each writer has at most."""
DEFINITION_SECONDS = 5.0
"""How long a custom resource is defined."""
TEXTS = 250
TEXT = "v" * 50
"""Parts of an object that fills the cache of texts, each of the size that the mix makes."""
JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf"
CORE = "/api/v1/namespaces/default"
_OVERLOAD = (429, 503, 504)

Tree = dict[str, Any]


class Disconnected(Exception):
    """The server was killed, or has not answered for another reason."""


class Api:
    """Sends requests and records how they end. `up` is cleared while the server is killed."""

    def __init__(self, url: str, context: ssl.SSLContext, report: Report) -> None:
        self.report = report
        self.up = asyncio.Event()
        self._url = url
        connector = aiohttp.TCPConnector(limit=0, ssl=context)
        timeout = aiohttp.ClientTimeout(total=60)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def __call__(
        self,
        operation: str,
        method: str,
        path: str,
        body: Tree | None = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        statuses: tuple[int, ...] = (200, 201),
    ) -> tuple[int, bytes]:
        """Return status and body. Raises Disconnected, also for an overloaded server; any other
        status but those expected is a fault."""
        await self.up.wait()
        headers = {"Content-Type": content_type, "Accept": accept}
        data = None if body is None else json.dumps(body)
        started = time.perf_counter()
        try:
            async with self._session.request(
                method, self._url + path, data=data, headers=headers
            ) as response:
                content = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if self.up.is_set():
                self.report.faults.append(f"{method} {path}: {error!r}")
            raise Disconnected from error
        seconds = time.perf_counter() - started
        self.report.latencies.setdefault(operation, []).append(seconds)
        self.report.statuses[response.status] += 1
        if response.status in _OVERLOAD:
            raise Disconnected
        if response.status not in statuses:
            self.report.faults.append(f"{method} {path}: {response.status} {content[:200]!r}")
        return response.status, content

    @asynccontextmanager
    async def watch(self, path: str) -> Any:
        """Open a watch; yields the stream of its content."""
        await self.up.wait()
        try:
            async with self._session.get(f"{self._url}{path}?watch=1&timeoutSeconds=20") as stream:
                yield stream.content
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Disconnected from error


Client = Callable[[Api, Ledger, int], Awaitable[None]]


async def repeat(client: Client, api: Api, ledger: Ledger, number: int) -> None:
    """Repeat a client's mix for ever; the client has a number of its own."""
    rounds = 0
    while True:
        try:
            await client(api, ledger, number * 1_000_000 + rounds)
        except Disconnected:
            await asyncio.sleep(0)
        rounds += 1
        await asyncio.sleep(PAUSE_SECONDS)


async def write_configmaps(api: Api, ledger: Ledger, number: int) -> None:
    """Create, patch, read and delete a ConfigMap; every second one stays for a while."""
    client, turn = divmod(number, 1_000_000)
    name = f"soak-{client}-{turn % NAMES}"
    path = f"{CORE}/configmaps"
    await _write(api, ledger, name, None, "DELETE", f"{path}/{name}", statuses=(200, 404))
    body = {
        "metadata": {"name": name, "labels": {"soak": "ledger"}},
        "data": {"n": f"{number}", "text": "x" * (number % 50) * 100},
    }
    await _write(api, ledger, name, f"{number}", "POST", path, body, statuses=(201, 409))
    patch = {"data": {"n": f"{number}b"}}
    await _write(
        api, ledger, name, f"{number}b", "PATCH", f"{path}/{name}", patch, content_type=MERGE,
        statuses=(200,),
    )  # fmt: skip
    await api("get", "GET", f"{path}/{name}")
    if turn % 2:
        await _write(api, ledger, name, None, "DELETE", f"{path}/{name}", statuses=(200, 404))


async def _write(
    api: Api, ledger: Ledger, name: str, value: str | None, method: str, path: str,
    body: Tree | None = None, *, content_type: str = JSON, statuses: tuple[int, ...],
) -> None:  # fmt: skip
    ledger.begin(name, value)
    operation = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}[method]
    status, _ = await api(
        operation, method, path, body, content_type=content_type, statuses=statuses
    )
    if status in (200, 201) or (value is None and status == 404):
        ledger.acknowledge(name, value)


async def run_pods(api: Api, ledger: Ledger, number: int) -> None:
    """Create a pod, set its status, delete it."""
    name, path = f"pod-{number}", f"{CORE}/pods"
    body = {
        "metadata": {"name": name, "labels": {"app": f"app-{number % 5}"}},
        "spec": {
            "containers": [{"name": "main", "image": "nginx", "ports": [{"containerPort": 80}]}]
        },
    }
    await api("create pod", "POST", path, body)
    status = {"status": {"phase": "Running", "podIP": f"10.9.{number % 250}.1"}}
    await api("patch status", "PATCH", f"{path}/{name}/status", status, content_type=MERGE)
    await api("delete pod", "DELETE", f"{path}/{name}?gracePeriodSeconds=0", statuses=(200, 404))


async def run_services(api: Api, ledger: Ledger, number: int) -> None:
    """Create and delete a service, which controllers give endpoints."""
    name, path = f"svc-{number}", f"{CORE}/services"
    spec = {"selector": {"app": f"app-{number % 5}"}, "ports": [{"port": 80}]}
    body = {"metadata": {"name": name}, "spec": spec}
    await api("create service", "POST", path, body)
    await api("delete service", "DELETE", f"{path}/{name}")


async def try_large_objects(api: Api, ledger: Ledger, number: int) -> None:
    """Create a large ConfigMap as a dry run."""
    data = {f"key-{line}": "v" * 30 for line in range(1000)}
    body = {"metadata": {"name": f"dry-{number}"}, "data": data}
    await api("dry run", "POST", f"{CORE}/configmaps?dryRun=All", body)


async def apply_deployments(api: Api, ledger: Ledger, number: int) -> None:
    """Apply a deployment."""
    labels = {"app": "applied"}
    name = f"applied-{number // 1_000_000}"
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "annotations": {"n": f"{number}"}},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": f"nginx:{number}"}]},
            },
        },
    }
    path = f"/apis/apps/v1/namespaces/default/deployments/{name}?fieldManager=soak&force=true"
    await api("apply", "PATCH", path, body, content_type=APPLY)


async def list_objects(api: Api, ledger: Ledger, number: int) -> None:
    """List in every encoding, and in pages."""
    accept = (JSON, TABLE, PROTOBUF, "application/yaml")[number % 4]
    for resource in ("configmaps", "pods", "events"):
        await api("list", "GET", f"{CORE}/{resource}?limit=500", accept=accept)
    await api("list", "GET", "/api/v1/services?labelSelector=soak!%3Dx", accept=accept)


async def watch_objects(api: Api, ledger: Ledger, number: int) -> None:
    """Watch, and read the events; every third watch reads nothing."""
    resource = ("configmaps", "pods", "services")[number % 3]
    async with api.watch(f"{CORE}/{resource}") as stream:
        if number % 3 == 2:
            await asyncio.sleep(10)
            return
        for _ in range(500):
            if not await stream.readline():
                return


async def define_resources(api: Api, ledger: Ledger, number: int) -> None:
    """Define a custom resource, and delete its definition after some seconds."""
    await _define(api, f"soaks{number}", DEFINITION_SECONDS)


async def fill_event_ring(api: Api, number: int) -> None:
    """Define a custom resource, and delete its definition at once. Each definition makes some
    events; the watch cache keeps the last 1,024, which the mix of a soak makes in 20 minutes."""
    with suppress(Disconnected):
        await _define(api, f"warmups{number}", 0)


async def store_texts(api: Api, number: int) -> None:
    """Create an object with many parts that no other object has; `read_texts` lists them."""
    env = [{"name": f"TEXT_{number}_{part}", "value": TEXT} for part in range(TEXTS)]
    containers = [{"name": "main", "image": "nginx", "env": env}]
    body = {
        "metadata": {"name": f"text-{number}"},
        "template": {"spec": {"containers": containers}},
    }
    with suppress(Disconnected):
        await api("fill", "POST", f"{CORE}/podtemplates", body)


async def read_texts(api: Api) -> None:
    """List what `store_texts` has created, and delete it. This fills the cache of the JSON of parts
    of objects, which the mix of a soak fills in half an hour."""
    with suppress(Disconnected):
        await api("fill", "GET", f"{CORE}/podtemplates")
        await api("fill", "DELETE", f"{CORE}/podtemplates")


async def _define(api: Api, plural: str, seconds: float) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    body = {
        "metadata": {"name": f"{plural}.soak.example.com"},
        "spec": {
            "group": "soak.example.com",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "scope": "Namespaced",
            "versions": [version],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await api("define", "POST", path, body)
    await asyncio.sleep(seconds)
    await api("define", "DELETE", f"{path}/{plural}.soak.example.com", statuses=(200, 404))


MIX: tuple[tuple[Client, int], ...] = (
    (write_configmaps, 10),
    (run_pods, 4),
    (run_services, 3),
    (try_large_objects, 2),
    (apply_deployments, 2),
    (list_objects, 4),
    (watch_objects, 4),
    (define_resources, 1),
)
"""How many clients repeat each mix; 30 in all."""
