"""Measures of verbs and forms beyond GET, create, PUT and LIST: patches, deletions, Events and
Leases, tables, label selectors, watchers that select, and OpenAPI after many definitions.

Each returns figures as the measures of `tests/bench/measures.py`.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

from tests.bench.client import JSON, Connection, Target, connections, spread
from tests.bench.measures import Figures, cost, loop, repeat
from tests.bench.objects import configmap, ensure_namespace, path

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
CONNECTIONS = 16
LISTED = 4000
"""ConfigMaps in the lists."""
SELECTED_VALUES = 200
"""Values of the label `value` of these ConfigMaps; LISTED / SELECTED_VALUES have each."""
WATCHERS = 400
DEFINITIONS = 200
_LIST_NAMESPACE = "bench-forms"
_EVENTS = "/api/v1/namespaces/bench/events"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/bench/leases"
_CUSTOM = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_numbers = itertools.count(time.time_ns() // 1000)
_values = itertools.cycle(range(SELECTED_VALUES))


async def _prepare(target: Target, url: str, bodies: list[dict[str, Any]]) -> None:
    """Create objects; those that exist stay as they are."""
    async with connections(target, CONNECTIONS) as opened:
        await ensure_namespace(opened[0])

        async def make(connection: Connection, body: dict[str, Any]) -> None:
            response = await connection.request("POST", url, body)
            assert response.status in (201, 409), response

        await spread(opened, bodies, make)


async def create_events(target: Target, seconds: float) -> Figures:
    """Create Events about one Pod."""
    await _prepare(target, path("configmaps"), [])

    async def send(connection: Connection) -> None:
        event = {
            "metadata": {"name": f"web.{next(_numbers)}"},
            "involvedObject": {"kind": "Pod", "name": "web", "namespace": "bench"},
            "reason": "Pulled",
            "message": "Container image is already present on the machine",
            "type": "Normal",
            "source": {"component": "kubelet", "host": "node-1"},
        }
        response = await connection.request("POST", _EVENTS, event)
        assert response.status == 201, response

    return await loop(target, CONNECTIONS, seconds, send)


async def renew_leases(target: Target, seconds: float) -> Figures:
    """Renew 200 Leases in turn by merge patch, as kubelets do."""
    spec = {"holderIdentity": "node", "leaseDurationSeconds": 40}
    leases = [{"metadata": {"name": f"l-{number}"}, "spec": spec} for number in range(200)]
    await _prepare(target, _LEASES, leases)

    def change(number: int) -> dict[str, Any]:
        renewed = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        return {"spec": {"renewTime": f"{renewed}.{number % 1_000_000:06d}Z"}}

    return await _patch(target, seconds, f"{_LEASES}/l-%d", MERGE, change)


async def patch(target: Target, seconds: float, *, content_type: str) -> Figures:
    """Patch 200 ConfigMaps of 1 KB in turn, with a change in each; apply for `apply-patch`."""
    maps = [configmap(f"patch-{number}") for number in range(200)]
    await _prepare(target, path("configmaps"), maps)

    def change(number: int) -> dict[str, Any]:
        identity = {"apiVersion": "v1", "kind": "ConfigMap"} if content_type == APPLY else {}
        return {**identity, "data": {"level": f"{number}"}}

    url = path("configmaps", "patch-%d")
    if content_type == APPLY:
        url += "?fieldManager=bench&force=true"
    return await _patch(target, seconds, url, content_type, change)


async def _patch(
    target: Target,
    seconds: float,
    url: str,
    content_type: str,
    change: Callable[[int], dict[str, Any]],
) -> Figures:
    """Patch 200 objects in turn; `url` has %d in place of their number."""

    async def send(connection: Connection) -> None:
        number = next(_numbers)
        response = await connection.request(
            "PATCH", url % (number % 200), change(number), content_type=content_type
        )
        assert response.status in (200, 201), response

    return await loop(target, CONNECTIONS, seconds, send)


async def delete(target: Target, seconds: float, *, rate: int = 500) -> Figures:
    """DELETE ConfigMaps of 1 KB that were created before: `rate` of them for each second, or as
    many as the target says."""
    count = target.requests or int(rate * seconds)
    maps = [configmap(f"delete-{next(_numbers)}") for _ in range(count)]
    await _prepare(target, path("configmaps"), maps)
    async with connections(target, target.channels(CONNECTIONS)) as opened:

        async def remove(connection: Connection, body: dict[str, Any]) -> None:
            url = path("configmaps", body["metadata"]["name"])
            response = await connection.request("DELETE", url)
            assert response.status == 200, response

        with target.window() as window:
            await spread(opened, maps, remove)
    return {"per s": len(maps) / window.wall, **cost(target, window, "us", len(maps))}


async def list_form(target: Target, seconds: float, *, accept: str) -> Figures:
    """LIST ConfigMaps in a form, after a list of the same form, which fills the caches."""
    await _listed_maps(target)

    async def read(connection: Connection) -> int:
        url = path("configmaps", namespace=_LIST_NAMESPACE)
        response = await connection.request("GET", url, accept=accept)
        assert response.status == 200, response.body[:300]
        return len(response.body)

    await repeat(target, 0, read)
    return await repeat(target, seconds, read)


async def list_by_label(target: Target, _: float) -> Figures:
    """LIST the 20 ConfigMaps that have a value of a label which no list has selected before."""
    await _listed_maps(target)
    async with connections(target, 1) as (connection,):
        query = f"?labelSelector=value%3Dv{next(_values)}"
        with target.window() as window:
            response = await connection.request(
                "GET", path("configmaps", namespace=_LIST_NAMESPACE) + query
            )
    assert len(orjson.loads(response.body)["items"]) == LISTED // SELECTED_VALUES
    return {"wall s": window.wall, **cost(target, window, "s", 1)}


async def start_selecting_watches(target: Target, _: float) -> Figures:
    """Start 400 watches at once, each with the 20 ConfigMaps that have a value of a label, as the
    kubelets of 400 nodes do after a restart of the server; from the cache, at any version."""
    await _listed_maps(target)
    async with connections(target, WATCHERS) as watchers:

        async def start(number: int) -> None:
            query = f"?labelSelector=value%3Dv{number % SELECTED_VALUES}&resourceVersion=0"
            watcher, data = watchers[number], b""
            await watcher.start_watch(path("configmaps", namespace=_LIST_NAMESPACE) + query)
            while data.count(b'"type":"ADDED"') < LISTED // SELECTED_VALUES:
                data += (read := await watcher.reader.read(1 << 16))
                assert read, f"watch {number} ended: {data[-500:]!r}"

        with target.window() as window:
            async with asyncio.TaskGroup() as group:
                for number in range(WATCHERS):
                    group.create_task(start(number))
    return {"wall s": window.wall, **cost(target, window, "s", 1)}


async def _listed_maps(target: Target) -> None:
    async with connections(target, 1) as (connection,):
        await ensure_namespace(connection, _LIST_NAMESPACE)
        last = path("configmaps", f"m-{LISTED - 1}", namespace=_LIST_NAMESPACE)
        if (await connection.request("GET", last)).status == 200:
            return
    maps = [configmap(f"m-{number}") for number in range(LISTED)]
    for number, body in enumerate(maps):
        body["metadata"]["labels"]["value"] = f"v{number % SELECTED_VALUES}"
    await _prepare(target, path("configmaps", namespace=_LIST_NAMESPACE), maps)


async def create_for_selecting_watchers(target: Target, seconds: float) -> Figures:
    """Create ConfigMaps while 400 clients watch a value of a label each; each object is one
    client's. The watches start at the current version, as those of informers: an event's cost
    counts, not that of 400 times the objects there are."""
    await _prepare(target, path("configmaps"), [])
    async with connections(target, WATCHERS) as watchers:
        page = await watchers[0].request("GET", path("configmaps") + "?limit=1")
        version = orjson.loads(page.body)["metadata"]["resourceVersion"]
        # At once: a server closes a connection that sends no request for half a minute.
        await asyncio.gather(
            *(
                watcher.start_watch(
                    path("configmaps")
                    + f"?labelSelector=client%3Dc{number}&resourceVersion={version}"
                )
                for number, watcher in enumerate(watchers)
            )
        )

        async def send(connection: Connection) -> None:
            number = next(_numbers)
            body = configmap(f"s-{number}")
            body["metadata"]["labels"]["client"] = f"c{number % WATCHERS}"
            response = await connection.request("POST", path("configmaps"), body)
            assert response.status == 201, response

        return await loop(target, CONNECTIONS, seconds, send)


async def openapi_after_definitions(target: Target, _: float) -> Figures:
    """GET /openapi/v2 after 200 CustomResourceDefinitions were created, which are deleted then."""
    group = f"g{next(_numbers)}.example.com"
    definitions = [_definition(f"k{number}", group) for number in range(DEFINITIONS)]
    async with connections(target, 1) as (connection,):
        await connection.request("GET", "/openapi/v2")
        await _prepare(target, _CUSTOM, definitions)
        last = f"{_CUSTOM}/{definitions[-1]['metadata']['name']}"
        for _ in range(1200):
            if _is_established((await connection.request("GET", last)).body):
                break
            await asyncio.sleep(0.05)
        with target.window() as window:
            response = await connection.request("GET", "/openapi/v2")
            assert response.status == 200, response.body[:300]
        await connection.request("DELETE", f"{_CUSTOM}?labelSelector=bench%3D{group[:-12]}")
    return {"wall s": window.wall, **cost(target, window, "s", 1)}


def _is_established(body: bytes) -> bool:
    conditions = orjson.loads(body).get("status", {}).get("conditions") or []
    return {"type": "Established", "status": "True"} in [
        {"type": each["type"], "status": each["status"]} for each in conditions
    ]


def _definition(name: str, group: str) -> dict[str, Any]:
    spec = {"type": "object", "properties": {"size": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    return {
        "metadata": {"name": f"{name}s.{group}", "labels": {"bench": group[:-12]}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": f"{name}s", "singular": name, "kind": name.title()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


MEASURES: dict[str, Callable[[Target, float], Any]] = {
    "patch configmaps, strategic merge": partial(patch, content_type=STRATEGIC),
    "apply configmaps": partial(patch, content_type=APPLY),
    "delete configmaps": delete,
    "events, create": create_events,
    "leases, merge patch": renew_leases,
    f"create configmaps, {WATCHERS} watchers of a label value": create_for_selecting_watchers,
}
"""Measures of requests, by the names of their rows."""
LISTS: dict[str, Callable[[Target, float], Any]] = {
    "list configmaps, JSON": partial(list_form, accept=JSON),
    "list configmaps, Table": partial(list_form, accept=TABLE),
    "list configmaps, PartialObjectMetadata": partial(list_form, accept=METADATA),
    "list configmaps, first of a label value": list_by_label,
    f"watch configmaps, {WATCHERS} start with those of a label value": start_selecting_watches,
    f"openapi v2 after {DEFINITIONS} definitions": openapi_after_definitions,
}
"""Measures of single responses, by the names of their rows."""
