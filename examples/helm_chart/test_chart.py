"""Installs the chart into an API server: it validates every object, as a cluster would."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from lightkube import ApiError, Client
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Service

from kapiserver.testing import KubeClients

CHART = Path(__file__).parent / "chart"
Helm = Callable[..., str]


@pytest.fixture
def helm(kubeconfig: Path, tmp_path: Path) -> Helm:
    """A function that runs helm against the test's server and returns what it prints."""

    def run(*arguments: str) -> str:
        command = ["helm", "--kubeconfig", str(kubeconfig), *arguments]
        return subprocess.run(
            command, cwd=tmp_path, check=True, text=True, stdout=subprocess.PIPE
        ).stdout

    return run


@pytest.fixture
def client(kube_client: KubeClients) -> Client:
    return kube_client.lightkube()


def test_life_of_a_release(helm: Helm, client: Client) -> None:
    """Install, upgrade, roll back and uninstall."""
    helm("install", "shop", str(CHART))
    assert client.get(Deployment, "shop").spec.replicas == 2
    assert client.get(Service, "shop").spec.clusterIP

    helm("upgrade", "shop", str(CHART), "--set", "replicas=3")
    assert client.get(Deployment, "shop").spec.replicas == 3
    helm("rollback", "shop", "1")
    assert client.get(Deployment, "shop").spec.replicas == 2

    helm("uninstall", "shop")
    for resource, name in ((Deployment, "shop"), (Service, "shop"), (ConfigMap, "shop-page")):
        with pytest.raises(ApiError, match="not found"):
            client.get(resource, name)


def test_invalid_values(helm: Helm) -> None:
    """The server refuses values that `helm template` accepts."""
    assert "replicas: -1" in helm("template", "shop", str(CHART), "--set", "replicas=-1")
    with pytest.raises(subprocess.CalledProcessError):
        helm("install", "shop", str(CHART), "--set", "replicas=-1")
