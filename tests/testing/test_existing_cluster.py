"""A cluster of a kubeconfig in place of a test server; here it is another test server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.testing import KubeClients, TestServer, Users
from kapiserver.testing.fixtures.definitions import install_definitions
from kapiserver.testing.fixtures.existing_cluster import ExistingCluster
from kapiserver.testing.fixtures.namespace import fresh_namespace
from kapiserver.testing.loop_thread import LoopThread

CRD: dict[str, Any] = {
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


@pytest.fixture
def cluster(kube_apiserver: TestServer) -> Iterator[ExistingCluster]:
    with ExistingCluster(kube_apiserver.kubeconfig) as cluster:
        yield cluster


def test_namespace(cluster: ExistingCluster) -> None:
    """A test gets a fresh namespace, which is deleted later, and clients for it."""
    with fresh_namespace(cluster) as namespace, KubeClients(namespace) as clients:
        assert f'"namespace": "{namespace.name}"' in namespace.kubeconfig.read_text()
        path = f"/api/v1/namespaces/{namespace.name}"
        assert clients.httpx().get(path).json()["status"]["phase"] == "Active"
    namespaces = cluster.internal_client().resource("v1", "namespaces")
    deleted = cluster.run(namespaces.list_page(fieldSelector=f"metadata.name={namespace.name}"))
    assert all(item["metadata"].get("deletionTimestamp") for item in deleted["items"])


def test_definitions(cluster: ExistingCluster) -> None:
    """Definitions are installed as in a test server."""
    (installed,) = install_definitions(cluster, CRD)
    assert installed["status"]["acceptedNames"]["kind"] == "Widget"


def test_service_account(cluster: ExistingCluster) -> None:
    """A ServiceAccount has rights and clients as in a test server, and no certificate of the
    administrator. Tokens of other users are unknown to a cluster."""
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    with fresh_namespace(cluster) as namespace, Users(namespace) as users:
        robot = users.add_service_account("robot", rules=rules, role_namespace=namespace.name)
        client, path = robot.client.httpx(), f"/api/v1/namespaces/{namespace.name}"
        assert client.get(f"{path}/configmaps").status_code == 200
        assert client.get(f"{path}/secrets").status_code == 403
        assert "client-certificate" not in robot.kubeconfig.read_text()
        with pytest.raises(RuntimeError, match="knows no tokens of new users"):
            users.add("alice")
    roles = cluster.internal_client().resource(
        "rbac.authorization.k8s.io/v1", "roles", namespace=namespace.name
    )
    assert cluster.run(roles.list_page())["items"] == []


def test_service_account_from_another_loop(cluster: ExistingCluster) -> None:
    """The asynchronous form runs on the loop of the cluster, not on the caller's."""
    with fresh_namespace(cluster) as namespace, Users(namespace) as users:
        robot = asyncio.run(users.add_service_account_async("robot"))
        assert robot.name == f"system:serviceaccount:{namespace.name}:robot"
    with pytest.raises(RuntimeError, match="not running"):
        asyncio.run(LoopThread(cluster._connect(), name="never-started").run_async(_nothing()))


async def _nothing() -> None:
    """Return."""


def test_relative_paths(kube_apiserver: TestServer, cluster: ExistingCluster) -> None:
    """A kubeconfig for a namespace finds the files that the original names."""
    credentials = kube_apiserver.running.credentials
    assert credentials is not None
    config = yaml.safe_load(kube_apiserver.kubeconfig.read_text())
    folder = credentials.ca.parent
    config["clusters"][0]["cluster"] = {
        "server": kube_apiserver.url,
        "certificate-authority": credentials.ca.name,
    }
    file = folder / "relative.yaml"
    file.write_text(yaml.safe_dump(config))
    with ExistingCluster(file) as relative:
        written = yaml.safe_load(relative.write_kubeconfig("a").read_text())
    assert written["clusters"][0]["cluster"]["certificate-authority"] == str(credentials.ca)


def test_credential_plugins_are_refused(tmp_path: Path) -> None:
    """A kubeconfig that needs a program for its credentials is an error that says so."""
    file = tmp_path / "config"
    file.write_text(
        """
apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: a, user: {exec: {command: login}}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
"""
    )
    with pytest.raises(BadConfiguration, match="credential plugins are not supported"):
        ExistingCluster(file)
