"""Injected faults as real clients see them: kubectl, the official Python client, kopf."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import kopf
import pytest
from kubernetes import client, config, watch

from kapiserver.testing import TestServer, use_kubeconfig
from tests.e2e.programs import kubectls
from tests.testing.http_client import MERGE, HttpClient

MAPS = "/api/v1/namespaces/default/configmaps"

# The official client and kopf leave their sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::DeprecationWarning"
)


@pytest.fixture
def server() -> Iterator[TestServer]:
    with TestServer() as server:
        HttpClient(server)("POST", MAPS, {"metadata": {"name": "m"}, "data": {"k": "1"}})
        yield server


def _kubectl(server: TestServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(kubectls()[0]), f"--kubeconfig={server.kubeconfig}", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_kubectl_shows_the_status(server: TestServer) -> None:
    """kubectl shows the reasons and messages as those of kube-apiserver."""
    with server.faults.respond(403, verb="get", name="m"):
        stderr = _kubectl(server, "get", "cm", "m").stderr
    assert stderr.startswith('Error from server (Forbidden): configmaps "m" is forbidden: User')
    with server.faults.respond(409, verb="delete"):
        stderr = _kubectl(server, "delete", "cm", "m").stderr
    assert stderr.startswith("Error from server (Conflict): Operation cannot be fulfilled on")


def test_client_go_retries(server: TestServer) -> None:
    """client-go waits for Retry-After and sends the request again."""
    fault = server.faults.respond(429, verb="get", name="m", times=1)
    result = _kubectl(server, "get", "cm", "m", "--output=name")
    assert result.stdout == "configmap/m\n", result.stderr
    assert fault.injected == 1
    statuses = [record.status for record in server.requests.select(verb="get", name="m")]
    assert statuses == [429, 200]


@pytest.mark.parametrize("effect", ["end_watches", "expire_watches"])
def test_client_go_watches_again(server: TestServer, effect: str) -> None:
    """`kubectl wait` sees the change although its watch was ended or has expired."""
    fault = getattr(server.faults, effect)(resource="configmaps", times=1)
    with ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(
            _kubectl, server, "wait", "cm/m", "--for=jsonpath={.data.k}=2", "--timeout=60s"
        )
        server.wait_until(lambda: fault.injected, timeout="60s")
        HttpClient(server)("PATCH", f"{MAPS}/m", {"data": {"k": "2"}}, type=MERGE)
        result = waiting.result(60)
    assert result.returncode == 0, result.stderr


def test_official_client(server: TestServer) -> None:
    """Its watch raises 410 for an expired version, as with kube-apiserver, and goes on after a
    dropped one."""
    api = client.CoreV1Api(config.new_client_from_config(str(server.kubeconfig)))
    version = api.list_namespaced_config_map("default").metadata.resource_version
    stream = watch.Watch().stream(
        api.list_namespaced_config_map, "default", resource_version=version
    )
    fault = server.faults.end_watches(resource="configmaps", times=1)
    writer = threading.Thread(
        target=lambda: (
            server.wait_until(lambda: fault.injected, timeout="60s"),
            HttpClient(server)("POST", MAPS, {"metadata": {"name": "new"}}),
        )
    )
    writer.start()
    assert next(stream)["object"].metadata.name == "new"
    writer.join()
    with (
        server.faults.expire_watches(),
        pytest.raises(client.ApiException) as e,
    ):
        list(watch.Watch().stream(api.list_namespaced_config_map, "default", resource_version="1"))
    assert e.value.status == 410


def test_kopf(server: TestServer) -> None:
    """An operator of kopf lists again after 410, and repeats a patch that was refused."""
    with use_kubeconfig(server.kubeconfig):
        asyncio.run(_operate(server))


async def _operate(server: TestServer) -> None:
    registry, stop = kopf.OperatorRegistry(), asyncio.Event()
    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)

    @kopf.on.event("configmaps", registry=registry)
    async def on_event(name: str, patch: kopf.Patch, body: kopf.Body, **_: Any) -> None:
        if name == "watched" and not body.get("data"):
            patch["data"] = {"seen": "yes"}

    settings = kopf.OperatorSettings()
    settings.networking.error_backoffs = [0.01]
    operator = asyncio.create_task(
        kopf.operator(
            registry=registry,
            settings=settings,
            namespaces=["default"],
            standalone=True,
            stop_flag=stop,
        )
    )
    watches = {"verb": "watch", "resource": "configmaps"}
    await server.wait_until_async(lambda: server.requests.select(**watches), timeout="60s")
    refused = server.faults.respond(500, verb="patch", resource="configmaps", times=1)
    expired = server.faults.expire_watches(resource="configmaps", times=1)
    maps = server.internal_client().resource("v1", "configmaps", namespace="default")
    await server.run_async(maps.create({"metadata": {"name": "watched"}}))
    await server.objects.wait_for_async("cm/watched", "jsonpath={.data.seen}=yes", timeout="60s")
    stop.set()
    await operator
    assert expired.injected == refused.injected == 1
