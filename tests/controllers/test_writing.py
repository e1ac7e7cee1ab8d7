"""Writes of controllers: their users, field managers and admission."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from kapiserver.apiserver.admission.plugin import Hooks, Plugin
from kapiserver.apiserver.admission.plugins import PLUGINS
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.endpoints.operations import patch
from kapiserver.apiserver.user import APISERVER
from kapiserver.app import serve
from kapiserver.parts import Parts
from tests.controllers.waiting import wait_until


def managers(obj: Any) -> list[str]:
    """The field managers of an object."""
    return [entry["manager"] for entry in obj["metadata"].get("managedFields", ())]


@pytest.mark.parametrize(
    ("collection", "name", "manager"),
    [
        ("/api/v1/namespaces", "kube-system", "kube-apiserver"),
        ("/api/v1/namespaces/default/services", "kubernetes", "kube-apiserver"),
        ("/api/v1/namespaces/default/endpoints", "kubernetes", "kube-apiserver"),
        ("/apis/networking.k8s.io/v1/servicecidrs", "kubernetes", "kube-apiserver"),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", "system-node-critical", "kube-apiserver"),
    ],
)
def test_field_managers(api, collection, name, manager):
    """Objects that a server creates have the field managers of Kubernetes."""
    obj = wait_until(api, collection, name, lambda obj: obj is not None)
    assert managers(obj)[0] == manager


UNOWNED = {"serviceaccounts/default"}
"""Objects without managedFields: the server sets only their name and namespace."""


def test_everything_has_managers(own_server):
    """Every object that a new server writes by itself has managedFields."""
    api = own_server.api
    flow = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
    wait_until(api, flow, "service-accounts", lambda obj: obj is not None)
    groups = ["/api/v1"]
    for group in api.get("/apis").json["groups"]:
        groups.extend(f"/apis/{version['groupVersion']}" for version in group["versions"])
    count, unowned = 0, set()
    for group in groups:
        for resource in api.get(group).json["resources"]:
            name = resource["name"]
            if "watch" not in resource["verbs"] or "/" in name:
                continue
            for obj in api.get(f"{group}/{name}").json["items"]:
                count += 1
                entries = obj["metadata"].get("managedFields")
                if not entries or not all(entry.get("manager") for entry in entries):
                    unowned.add(f"{name}/{obj['metadata']['name']}")
    assert count > 50
    assert unowned == UNOWNED


def test_system_namespaces() -> None:
    """The managedFields of system namespaces are those that a write as kube-apiserver would give
    them."""

    async def run() -> list[Any]:
        async with serve(Config.of(secure_port=None, insecure_port=0)) as running:
            client = running.cluster.server.client(APISERVER, user_agent="kube-apiserver")
            namespaces = client.resource("v1", "namespaces")
            await namespaces.create({"kind": "Namespace", "metadata": {"name": "other"}})
            entries = []
            for name in ("default", "other"):
                entry = (await namespaces.get(name))["metadata"]["managedFields"][0]
                entries.append({**entry, "time": ""})
            return entries

    first, second = asyncio.run(run())
    assert first == second


def test_addresses(api, core, namespace):
    """The managedFields of the IPAddress of a Service are those that a write as kube-apiserver
    would give it."""
    spec = {"ports": [{"port": 80}]}
    service = api.post(f"{core}/services", {"metadata": {"name": "s"}, "spec": spec}).json
    addresses = "/apis/networking.k8s.io/v1/ipaddresses"
    created = api.get(f"{addresses}/{service['spec']['clusterIP']}").json
    (entry,) = created["metadata"]["managedFields"]
    reference = {"resource": "services", "namespace": namespace, "name": "s"}
    other = {
        "metadata": {"name": "192.0.2.7", "labels": created["metadata"]["labels"]},
        "spec": {"parentRef": reference},
    }
    (expected,) = api.post(f"{addresses}?fieldManager=kube-apiserver", other).json["metadata"][
        "managedFields"
    ]
    api.delete(f"{addresses}/192.0.2.7")
    assert entry | {"time": ""} == expected | {"time": ""}


def test_charged_quota(api, core):
    """A quota that is charged has a manager of its status."""
    quotas = f"{core}/resourcequotas"
    api.post(quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "5"}}})
    wait_until(api, quotas, "q", lambda obj: "used" in (obj.get("status") or {}))
    assert api.post(f"{core}/configmaps", {"metadata": {"name": "c"}}).status == 201
    quota = api.get(f"{quotas}/q").json
    owned = {
        entry["manager"]: entry["fieldsV1"]
        for entry in quota["metadata"]["managedFields"]
        if entry.get("subresource") == "status"
    }
    assert owned["kube-apiserver"] == {"f:status": {"f:used": {"f:configmaps": {}}}}


def test_evicting_budget(api, core, namespace):
    """A budget that an eviction decrements has a manager of its status."""
    pod = {
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    api.post(f"{core}/pods", pod)
    condition = {"type": "Ready", "status": "True"}
    status = {"phase": "Running", "conditions": [condition]}
    api.patch(f"{core}/pods/p/status", {"status": status})
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    spec = {"minAvailable": 0, "selector": {"matchLabels": {"a": "b"}}}
    api.post(budgets, {"metadata": {"name": "b"}, "spec": spec})
    wait_until(
        api, budgets, "b", lambda obj: (obj.get("status") or {}).get("disruptionsAllowed") == 1
    )
    assert api.post(f"{core}/pods/p/eviction", {"metadata": {"name": "p"}}).status == 201
    entries = api.get(f"{budgets}/b").json["metadata"]["managedFields"]
    owned = {entry.get("manager"): entry for entry in entries}
    assert owned["kube-apiserver"]["subresource"] == "status"
    assert "f:disruptedPods" in owned["kube-apiserver"]["fieldsV1"]["f:status"]


def test_percent_with_many_zeros(api, namespace):
    """A valid percentage with thousands of leading zeros gets a status."""
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    spec = {"minAvailable": f"{'0' * 5000}50%", "selector": {"matchLabels": {"a": "b"}}}
    assert api.post(budgets, {"metadata": {"name": "b"}, "spec": spec}).status == 201
    wait_until(
        api, budgets, "b", lambda obj: (obj.get("status") or {}).get("observedGeneration") == 1
    )


def test_admission_sees_service_accounts() -> None:
    """Writes of controllers pass admission as the users of their service accounts."""
    users: set[tuple[str, str]] = set()
    account = "system:serviceaccount:kube-system:"
    expected = {
        ("endpoints", f"{account}endpoint-controller"),
        ("endpointslices", f"{account}endpointslice-controller"),
        ("poddisruptionbudgets", f"{account}disruption-controller"),
    }

    async def run() -> None:
        done = asyncio.Event()

        async def admit(_server: Any, attributes: Any, _new: Any, _old: Any) -> None:
            users.add((attributes.target.resource.name, attributes.user.name))
            if expected <= users:
                done.set()

        plugin = Plugin(
            name="Recorder",
            load=lambda _context: Hooks(admit=admit),
            resources=(
                "endpoints",
                "endpointslices.discovery.k8s.io",
                "poddisruptionbudgets.policy/status",
            ),
            operations=("CREATE", "UPDATE"),
        )
        config = Config.of(secure_port=None, insecure_port=0)
        async with serve(config, Parts(admission_plugins=(*PLUGINS, plugin))) as running:
            client = running.cluster.server.client(APISERVER)
            namespace = "default"
            spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
            services = client.resource("v1", "services", namespace=namespace)
            await services.create({"kind": "Service", "metadata": {"name": "web"}, "spec": spec})
            budgets = client.resource("policy/v1", "poddisruptionbudgets", namespace=namespace)
            budget = {"metadata": {"name": "web"}, "spec": {"maxUnavailable": 1}}
            await budgets.create({"kind": "PodDisruptionBudget", **budget})
            async with asyncio.timeout(60):
                await done.wait()

    asyncio.run(run())


DEFINITIONS = "apiextensions.k8s.io/v1", "customresourcedefinitions"


def definition(plural: str, schema: Any) -> Any:
    """A definition of a kind in the group example.com."""
    names = {"plural": plural, "kind": plural.title()}
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{plural}.example.com"}, "spec": spec}


async def wait_for_definition(client: Any, name: str, is_done: Any) -> Any:
    """Wait until a definition, or None if it is deleted, satisfies `is_done`; return it."""
    definitions = client.resource(*DEFINITIONS)
    async with asyncio.timeout(60):
        async for event in definitions.watch(fieldSelector=f"metadata.name={name}"):
            obj = None if event.type == "DELETED" else event.object
            if is_done(obj):
                return obj
    raise AssertionError("the watch ended")


def established(obj: Any) -> bool:
    """Whether the kind of a definition is served."""
    conditions = obj["status"].get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def test_status_of_definitions() -> None:
    """Admission sees the status of a definition and the removal of its finalizer, both written by
    the server itself; the status has its managedFields."""
    writes: list[tuple[str, str]] = []

    async def admit(_server: Any, attributes: Any, _new: Any, _old: Any) -> None:
        writes.append((attributes.target.subresource, attributes.user.name))

    resource = "customresourcedefinitions.apiextensions.k8s.io"
    plugin = Plugin(
        name="Recorder",
        load=lambda _context: Hooks(admit=admit),
        resources=(resource, f"{resource}/status"),
        operations=("UPDATE",),
    )

    async def run() -> None:
        config = Config.of(secure_port=None, insecure_port=0)
        async with serve(config, Parts(admission_plugins=(*PLUGINS, plugin))) as running:
            client = running.cluster.server.client(APISERVER, user_agent="test")
            await client.resource(*DEFINITIONS).create(definition("red", {"type": "object"}))
            obj = await wait_for_definition(client, "red.example.com", established)
            entries = {each["manager"]: each for each in obj["metadata"]["managedFields"]}
            assert entries.keys() == {"test", "kube-apiserver"}
            assert entries["kube-apiserver"]["subresource"] == "status"
            assert entries["kube-apiserver"]["fieldsV1"].keys() == {"f:status"}
            assert writes == [("status", APISERVER.name)]
            await client.resource(*DEFINITIONS).delete("red.example.com")
            await wait_for_definition(client, "red.example.com", lambda obj: obj is None)
            assert writes[-1] == ("", APISERVER.name)

    asyncio.run(run())


def test_status_of_a_large_definition(monkeypatch: Any) -> None:
    """The event loop does not decode a large definition to write its status."""
    threads: list[int] = []
    decode_tree = patch.decode_tree

    def decode(*args: Any) -> Any:
        threads.append(threading.get_ident())
        return decode_tree(*args)

    monkeypatch.setattr(patch, "decode_tree", decode)

    async def run() -> None:
        async with serve(Config.of(secure_port=None, insecure_port=0)) as running:
            client = running.cluster.server.client(APISERVER)
            schema = {"type": "object", "description": "x" * 300_000}
            await client.resource(*DEFINITIONS).create(definition("big", schema))
            await wait_for_definition(client, "big.example.com", established)
        assert threads
        assert threading.get_ident() not in threads

    asyncio.run(run())
