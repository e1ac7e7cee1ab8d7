"""Who writes for the server: users, field managers and admission of its controllers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kapiserver.apiserver.admission.plugins import PLUGINS, Hooks, Plugin
from kapiserver.apiserver.authentication.user import APISERVER
from kapiserver.apiserver.config import Config
from kapiserver.app import serve
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


def test_system_namespaces() -> None:
    """The managedFields of system namespaces are those that a write as kube-apiserver would give
    them."""

    async def run() -> list[Any]:
        async with serve(Config(secure_port=None, insecure_port=0)) as running:
            client = running.app.server.client(APISERVER, user_agent="kube-apiserver")
            namespaces = client.resource("v1", "namespaces")
            await namespaces.create({"kind": "Namespace", "metadata": {"name": "other"}})
            entries = []
            for name in ("default", "other"):
                entry = (await namespaces.get(name))["metadata"]["managedFields"][0]
                entries.append({**entry, "time": ""})
            return entries

    first, second = asyncio.run(run())
    assert first == second


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
            load=lambda: Hooks(admit=admit),
            resources=(
                "endpoints",
                "endpointslices.discovery.k8s.io",
                "poddisruptionbudgets.policy/status",
            ),
            operations=("CREATE", "UPDATE"),
        )
        config = Config(secure_port=None, insecure_port=0)
        async with serve(config, admission_plugins=(*PLUGINS, plugin)) as running:
            client = running.app.server.client(APISERVER)
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
