"""Clusters of a test: logical clusters of one test server."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.testing import (
    KubeClients,
    TestCluster,
    TestClusters,
    TestServer,
    TestUser,
    Webhooks,
)
from kapiserver.testing.control_api.server import ControlApi
from tests.testing.test_control_api import Control

MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}


def test_clusters_are_apart(kube_clusters: TestClusters) -> None:
    """Two clusters of a test have objects of their own, which clients and kubectl see."""
    one, two = kube_clusters.create(), kube_clusters.create("two")
    assert two.name == "two"
    assert one.server is two.server
    created = one.client.httpx().post(MAPS, json={"metadata": {"name": "a"}})
    assert created.status_code == 201
    assert two.client.httpx().get(f"{MAPS}/a").status_code == 404
    command = ["kubectl", f"--kubeconfig={one.kubeconfig}", "get", "configmap/a", "-o", "name"]
    assert subprocess.run(command, check=True, capture_output=True).stdout == b"configmap/a\n"
    with pytest.raises(StatusError, match="already exists"):
        kube_clusters.create("two")
    kube_clusters.delete("two")
    assert not two.kubeconfig.exists()
    assert kube_clusters.create("two").token != two.token
    with pytest.raises(KeyError):
        kube_clusters.delete("three")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2))
def test_the_fixtures_of_a_cluster(
    number: int,
    kube_cluster: TestCluster,
    kube_client: KubeClients,
    kubeconfig: Path,
    kube_crds: Callable[..., list[Any]],
    kube_service_account: Callable[..., TestUser],
) -> None:
    """Other fixtures use the test's cluster, which is fresh in each test."""
    assert kubeconfig == kube_cluster.kubeconfig
    client = kube_client.httpx()
    assert client.get("/apis/example.com/v1/widgets").status_code == 404
    kube_crds(DEFINITION)
    assert client.get("/apis/example.com/v1/widgets").status_code == 200
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    robot = kube_service_account("robot", rules=rules).client.httpx()
    assert robot.get("/api/v1/namespaces/default/pods").status_code == 200
    assert robot.get("/api/v1/namespaces/default/secrets").status_code == 403


@pytest.mark.slow
def test_users_and_webhooks_of_a_cluster(
    kube_cluster: TestCluster,
    kube_clusters: TestClusters,
    kube_user: Callable[..., TestUser],
    kube_webhook: Webhooks,
) -> None:
    """A user and a webhook of the test's cluster are in force at once, and in no other cluster."""
    other = kube_clusters.create()
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get"]}]
    alice = kube_user("alice", groups=["devs"], rules=rules)
    client = alice.client.httpx()
    assert client.post(MAPS, json={"metadata": {"name": "a"}}).status_code == 201
    assert client.get("/api/v1/namespaces/default/secrets").status_code == 403
    headers = {"Authorization": f"Bearer {alice.token}"}
    assert other.client.httpx().get(MAPS, headers=headers).status_code == 401
    kube_webhook.validating(lambda request: f"no {request['name']}", resource="configmaps")
    refused = client.post(MAPS, json={"metadata": {"name": "b"}})
    assert refused.status_code == 403
    assert "no b" in refused.json()["message"]
    admitted = other.client.httpx().post(MAPS, json={"metadata": {"name": "b"}})
    assert admitted.status_code == 201
    with pytest.raises(ValueError, match="write configmaps"):
        kube_webhook.validating(lambda _: None, resource="configmap")


@pytest.mark.slow
def test_nothing_stays(kube_clusters: TestClusters) -> None:
    """The clusters of a test are deleted, also those that the test has deleted itself."""
    server = kube_clusters.create().server
    clusters = server.internal_client().resource("clusters.kapiserver.dev/v1", "clusters")
    with TestClusters(server) as others:
        kept, deleted = others.create(), others.create()
        server.run(clusters.delete(deleted.name))
    server.objects.wait_for(f"clusters/{kept.name}", "delete")
    names = {tree["metadata"]["name"] for tree in server.run(clusters.list())["items"]}
    assert not {kept.name, deleted.name} & names


def test_a_server_without_clusters(kube_apiserver: TestServer) -> None:
    """A server without the setting says so."""
    with pytest.raises(RuntimeError, match="enable_logical_clusters"):
        TestClusters(kube_apiserver).create()


@pytest.fixture
def control() -> Iterator[Control]:
    """The control API of a server with logical clusters."""
    with TestServer(enable_logical_clusters=True) as server:
        api = ControlApi(server)
        listening = api.listen("127.0.0.1", 0)
        server.run(listening.__aenter__())
        yield Control(api)
        server.run(listening.__aexit__(None, None, None))


@pytest.mark.slow
def test_the_control_api(control: Control) -> None:
    """Tests in other languages create and delete clusters, and a reset deletes them."""
    one = control("POST", "/clusters").json
    two = control("POST", "/clusters", {"name": "two"}).json
    assert two["url"].endswith("/clusters/two")
    kubeconfig = Path(one["kubeconfig"])
    assert one["token"] in kubeconfig.read_text()
    command = ["kubectl", f"--kubeconfig={kubeconfig}", "get", "namespaces", "-o", "name"]
    assert b"namespace/default" in subprocess.run(command, check=True, capture_output=True).stdout
    assert control("POST", "/clusters", {"name": "two"}).status == 409
    assert control("DELETE", "/clusters/two").status == 200
    assert control("DELETE", "/clusters/two").status == 404
    assert control("POST", "/reset").status == 200
    assert not kubeconfig.exists()
    assert control("POST", "/clusters", {"name": "two"}).status == 200
