"""Compares test servers that run in the test's process: `python -m tests.bench.compare NAME`.

Sends the same plain HTTP requests to kapiserver or to kmock (`pip install kmock`, in an environment
of its own) and prints which behaviour of kube-apiserver each shows, and what it costs. The page
docs/comparison.md has its output.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

ROUNDS = 20
REQUESTS = 20
"""For each server, as in a test."""
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Api:
    """Sends requests; `call` returns status and body."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def call(
        self, method: str, path: str, body: Any = None, *, patch: str = "", accept: str = ""
    ) -> tuple[int, Any]:
        """Return the status and the body; the body is None if it is not JSON."""
        headers = {"Content-Type": patch or "application/json", "Accept": accept or "*/*"}
        data = None if body is None else json.dumps(body)
        async with self.session.request(method, path, data=data, headers=headers) as response:
            text = await response.text()
            try:
                return response.status, json.loads(text)
            except ValueError:
                return response.status, None

    async def create(self, path: str, api_version: str, kind: str, name: str, **more: Any) -> Any:
        """Create an object and return it."""
        body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}
        return (await self.call("POST", path, body))[1]

    async def config_map(self, name: str, **data: str) -> Any:
        """Create a ConfigMap and return it."""
        return await self.create(CONFIG_MAPS, "v1", "ConfigMap", name, data=data)

    async def deployment(self, name: str) -> Any:
        """Create a Deployment with one container and return it."""
        pod = {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        spec = {"selector": {"matchLabels": {"app": name}}, "template": pod}
        return await self.create(DEPLOYMENTS, "apps/v1", "Deployment", name, spec=spec)

    async def becomes(self, status: int, path: str) -> bool:
        """Whether a GET has this status within two seconds."""
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            if (await self.call("GET", path))[0] == status:
                return True
            await asyncio.sleep(0.02)
        return False


# --- behaviour


async def conflict(api: Api) -> bool:
    old = await api.config_map("conflict")
    await api.call("PATCH", f"{CONFIG_MAPS}/conflict", {"data": {"k": "1"}}, patch=MERGE)
    return (await api.call("PUT", f"{CONFIG_MAPS}/conflict", old))[0] == 409


async def validation(api: Api) -> bool:
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "invalid"}}
    return (await api.call("POST", DEPLOYMENTS, body))[0] == 422


async def defaults(api: Api) -> bool:
    return (await api.deployment("defaults")).get("spec", {}).get("replicas") == 1


async def strategic_merge(api: Api) -> bool:
    await api.deployment("strategic")
    change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "j"}]}}}}
    change["spec"]["template"]["spec"]["containers"].append({"name": "d", "image": "k"})
    await api.call("PATCH", f"{DEPLOYMENTS}/strategic", change, patch=STRATEGIC)
    change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "l"}]}}}}
    _, merged = await api.call("PATCH", f"{DEPLOYMENTS}/strategic", change, patch=STRATEGIC)
    return len(merged["spec"]["template"]["spec"]["containers"]) == 2


async def apply_conflict(api: Api) -> bool:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "apply"}}
    path = f"{CONFIG_MAPS}/apply?fieldManager="
    first, _ = await api.call("PATCH", f"{path}a", {**body, "data": {"k": "1"}}, patch=APPLY)
    second, _ = await api.call("PATCH", f"{path}b", {**body, "data": {"k": "2"}}, patch=APPLY)
    return (first, second) == (201, 409)


async def selectors(api: Api) -> bool:
    metadata = {"name": "selected", "labels": {"tier": "web"}}
    await api.call(
        "POST", CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    )
    query = "?labelSelector=tier+in+(web,db)"
    _, selected = await api.call("GET", CONFIG_MAPS + query)
    _, unselected = await api.call("GET", CONFIG_MAPS + "?labelSelector=tier+in+(db)")
    names = [item["metadata"]["name"] for item in selected.get("items", ())]
    return names == ["selected"] and unselected.get("items") == []


async def generation(api: Api) -> bool:
    await api.deployment("generation")
    path = f"{DEPLOYMENTS}/generation"
    await api.call("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, patch=MERGE)
    _, changed = await api.call("PATCH", path, {"spec": {"replicas": 2}}, patch=MERGE)
    return bool(changed["metadata"].get("generation") == 2)


async def status_subresource(api: Api) -> bool:
    await api.deployment("status")
    path = f"{DEPLOYMENTS}/status"
    _, ignored = await api.call("PATCH", path, {"status": {"replicas": 1}}, patch=MERGE)
    _, changed = await api.call("PATCH", f"{path}/status", {"status": {"replicas": 1}}, patch=MERGE)
    return not ignored.get("status") and (changed or {}).get("status", {}).get("replicas") == 1


async def garbage_collection(api: Api) -> bool:
    owner = await api.config_map("owner")
    uid = owner["metadata"].get("uid", "")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    metadata = {"name": "dependent", "ownerReferences": [reference]}
    await api.call(
        "POST", CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    )
    await api.call("DELETE", f"{CONFIG_MAPS}/owner")
    return await api.becomes(404, f"{CONFIG_MAPS}/dependent")


async def namespace_deletion(api: Api) -> bool:
    await api.create("/api/v1/namespaces", "v1", "Namespace", "gone")
    await api.create("/api/v1/namespaces/gone/configmaps", "v1", "ConfigMap", "a")
    await api.call("DELETE", "/api/v1/namespaces/gone")
    return await api.becomes(404, "/api/v1/namespaces/gone/configmaps/a")


async def custom_resource(api: Api) -> bool:
    schema = {"type": "object", "properties": {"spec": {"type": "object"}}}
    schema["properties"]["spec"]["properties"] = {"size": {"type": "integer", "maximum": 9}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "example.com", "scope": "Namespaced", "versions": [version]}
    spec["names"] = {"plural": "widgets", "kind": "Widget"}
    name, group = "widgets.example.com", "apiextensions.k8s.io/v1"
    await api.create(DEFINITIONS, group, "CustomResourceDefinition", name, spec=spec)
    path = "/apis/example.com/v1/namespaces/default/widgets"
    await api.becomes(200, path)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    return (await api.call("POST", path, {**widget, "spec": {"size": 10}}))[0] == 422


async def watch_resumes(api: Api) -> bool:
    await api.config_map("seen")
    _, listed = await api.call("GET", CONFIG_MAPS)
    await api.config_map("later")
    version = listed.get("metadata", {}).get("resourceVersion", "")
    path = f"{CONFIG_MAPS}?watch=1&timeoutSeconds=2&resourceVersion={version}"
    async with api.session.get(path) as stream:
        try:
            line = await asyncio.wait_for(stream.content.readline(), 2)
            return bool(json.loads(line)["object"]["metadata"]["name"] == "later")
        except (TimeoutError, ValueError, KeyError):
            return False


async def discovery(api: Api) -> bool:
    _, groups = await api.call("GET", "/apis")
    names = {group["name"] for group in (groups or {}).get("groups", ())}
    return {"apps", "batch", "rbac.authorization.k8s.io"} <= names


async def openapi(api: Api) -> bool:
    status, document = await api.call("GET", "/openapi/v3/api/v1")
    return status == 200 and "paths" in (document or {})


async def table(api: Api) -> bool:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    return ((await api.call("GET", CONFIG_MAPS, accept=accept))[1] or {}).get("kind") == "Table"


async def dry_run(api: Api) -> bool:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dry"}}
    created, _ = await api.call("POST", f"{CONFIG_MAPS}?dryRun=All", body)
    return created == 201 and (await api.call("GET", f"{CONFIG_MAPS}/dry"))[0] == 404


BEHAVIOUR: dict[str, Callable[[Api], Awaitable[bool]]] = {
    "an update with an old resourceVersion is a conflict": conflict,
    "an invalid object is refused": validation,
    "defaults are set": defaults,
    "a strategic merge patch merges lists by their key": strategic_merge,
    "server-side apply reports conflicts": apply_conflict,
    "label selectors select": selectors,
    "metadata.generation counts changes of the spec": generation,
    "the status is a subresource": status_subresource,
    "dependents are deleted with their owner": garbage_collection,
    "a deleted namespace is emptied": namespace_deletion,
    "custom objects are validated by their schema": custom_resource,
    "a watch resumes at a resource version": watch_resumes,
    "discovery lists the groups of Kubernetes": discovery,
    "OpenAPI documents are served": openapi,
    "lists are served as tables": table,
    "a dry run stores nothing": dry_run,
}
"""The probes, under the names that the page uses."""


# --- servers


@asynccontextmanager
async def kapiserver() -> AsyncIterator[str]:
    from kapiserver.testing import TestServer

    async with TestServer(tls=False) as server:
        yield server.url


@asynccontextmanager
async def kmock() -> AsyncIterator[str]:
    import kmock as library

    async with library.KubernetesEmulator() as handler, library.Server(handler):
        yield str(handler.url).rstrip("/")


SERVERS = {"kapiserver": kapiserver, "kmock": kmock}


async def behaviour(name: str) -> dict[str, bool]:
    """Return which behaviour a server shows."""
    shown = {}
    async with SERVERS[name]() as url, aiohttp.ClientSession(url) as session:
        for words, probe in BEHAVIOUR.items():
            try:
                shown[words] = await probe(Api(session))
            except (KeyError, TypeError, aiohttp.ClientError):
                shown[words] = False
    return shown


async def cost(name: str) -> dict[str, str]:
    """Return CPU times of the process: the client's requests are included."""
    started = time.process_time()
    async with SERVERS[name]():
        first = time.process_time() - started
    starts, creates, gets = [], [], []
    for _ in range(ROUNDS):
        started = time.process_time()
        async with SERVERS[name]():
            pass
        starts.append(time.process_time() - started)
    async with SERVERS[name]() as url, aiohttp.ClientSession(url) as session:
        api = Api(session)
        for number in range(REQUESTS):
            started = time.process_time()
            await api.config_map(f"c-{number}", k="v")
            created = time.process_time()
            await api.call("GET", f"{CONFIG_MAPS}/c-{number}")
            gets.append(time.process_time() - created)
            creates.append(created - started)
    return {
        "import and first server, started and stopped": f"{first * 1e3:.0f} ms",
        "each further server": f"{statistics.median(starts) * 1e3:.1f} ms",
        "a create": f"{statistics.median(creates) * 1e6:.0f} us",
        "a GET": f"{statistics.median(gets) * 1e6:.0f} us",
    }


async def main(name: str) -> None:
    print(json.dumps({"cost": await cost(name), "behaviour": await behaviour(name)}, indent=1))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
