"""The fixtures of the pytest plugin, as synchronous tests use them."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kapiserver.testing import KubeClients, TestNamespace, TestServer, use_kubeconfig

# Some clients leave their sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

OTHER_VERSION = "ignore:Kubernetes version .* is not supported:UserWarning"
"""A warning of kr8s."""

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: not-a-definition}
"""


def test_apiserver(kube_apiserver: TestServer) -> None:
    """The server runs and is empty."""
    maps = kube_apiserver.internal_client().resource("v1", "secrets", namespace="default")
    assert kube_apiserver.run(maps.list_page())["items"] == []


@pytest.mark.kapiserver(rbac=False, controllers=["-endpoints-controller", "*"])
class TestMarkers:
    """Markers give settings; the closest one wins."""

    @pytest.mark.kapiserver(controllers=[])
    def test_function(self, kube_apiserver: TestServer) -> None:
        """The marker of the function adds to that of the class."""
        config = kube_apiserver.running.cluster.server.config
        assert config.authorization.authorization_mode == ("AlwaysAllow",)
        assert config.controller_manager.controllers == ()

    def test_session(self, kube_session: TestNamespace) -> None:
        """A session's server has the settings of the test."""
        config = kube_session.server.running.cluster.server.config
        assert config.controller_manager.controllers == ("-endpoints-controller", "*")


servers = set()


@pytest.mark.parametrize("number", range(2))
def test_session(kube_session: TestNamespace, number: int) -> None:
    """Tests share a server, and each has a namespace."""
    servers.add(kube_session.server)
    assert len(servers) == 1
    server = kube_session.server
    secrets = server.internal_client().resource("v1", "secrets", namespace=kube_session.name)
    server.run(secrets.create({"metadata": {"name": "same"}}))
    assert f"namespace: {kube_session.name}\n" in kube_session.kubeconfig.read_text()


def test_namespace_is_deleted_later(kube_session: TestNamespace) -> None:
    """The session's namespaces of earlier tests are deleted or terminating."""
    server = kube_session.server
    namespaces = server.internal_client().resource("v1", "namespaces")
    for namespace in server.run(namespaces.list_page())["items"]:
        name = namespace["metadata"]["name"]
        if name.startswith("test-") and name != kube_session.name:
            assert namespace["status"]["phase"] == "Terminating"


def test_kubeconfig(kubeconfig: Path, kube_apiserver: TestServer) -> None:
    """The path is in the environment, also of child processes."""
    assert kubeconfig == kube_apiserver.kubeconfig
    assert os.environ["KUBECONFIG"] == str(kubeconfig)
    code = "import os; print(os.environ['KUBECONFIG'])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == str(
        kubeconfig
    )


def test_kubeconfig_of_session(kubeconfig: Path, kube_session: TestNamespace) -> None:
    """With kube_session the kubeconfig names the test's namespace."""
    assert kubeconfig == kube_session.kubeconfig


def test_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Variables of a pod and of a proxy do not lead clients to another cluster, and return."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("NO_PROXY", "example.com")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("KUBECONFIG", "before")
    with use_kubeconfig(tmp_path):
        assert os.environ["KUBECONFIG"] == str(tmp_path)
        assert "KUBERNETES_SERVICE_HOST" not in os.environ
        assert os.environ["NO_PROXY"] == "example.com,127.0.0.1"
    assert os.environ["KUBECONFIG"] == "before"
    assert os.environ["KUBERNETES_SERVICE_HOST"] == "10.0.0.1"
    assert os.environ["NO_PROXY"] == "example.com"
    assert "no_proxy" not in os.environ


def test_official_client_that_was_imported_before(kubeconfig: Path) -> None:
    """`load_kube_config` without a path finds the test's server, though the library read
    KUBECONFIG when it was imported."""
    from kubernetes import client, config

    location = config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION
    assert location == str(kubeconfig)
    config.load_kube_config()
    with client.ApiClient() as api:
        assert client.CoreV1Api(api).read_namespace("default").metadata.name == "default"


def test_official_client_after_a_test(tmp_path: Path) -> None:
    """The constant that the library read during a test does not stay."""
    from kubernetes import config

    with use_kubeconfig(tmp_path):
        assert str(tmp_path) == config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION
    assert str(tmp_path) != config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION
    assert str(tmp_path) != config.KUBE_CONFIG_DEFAULT_LOCATION


@pytest.mark.parametrize("number", range(2))
@pytest.mark.filterwarnings("ignore::DeprecationWarning", OTHER_VERSION)
class TestSynchronousClients:
    """Each library in the thread of the test; twice, because libraries keep state."""

    def test_kubernetes(self, kube_client: KubeClients, number: int) -> None:
        """The official library."""
        from kubernetes import client

        core = client.CoreV1Api(kube_client.kubernetes())
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="one"))
        assert core.create_namespaced_config_map("default", body).metadata.uid

    def test_kr8s(self, kube_client: KubeClients, number: int) -> None:
        """kr8s, also by its module functions."""
        import kr8s
        from kr8s import objects

        api = kube_client.kr8s()
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
        objects.ConfigMap(body, api=api).create()
        assert [item.name for item in kr8s.get("configmaps", "one")] == ["one"]

    def test_lightkube(
        self, kube_client: KubeClients, kube_session: TestNamespace, number: int
    ) -> None:
        """lightkube, in the namespace of the test."""
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.resources.core_v1 import ConfigMap

        created = kube_client.lightkube().create(ConfigMap(metadata=ObjectMeta(name="one")))
        assert created.metadata is not None
        assert created.metadata.namespace == kube_session.name

    def test_httpx(self, kube_client: KubeClients, number: int) -> None:
        """httpx."""
        response = kube_client.httpx().get("/api/v1/namespaces/default")
        assert response.json()["metadata"]["name"] == "default"


@pytest.mark.filterwarnings(OTHER_VERSION)
@pytest.mark.kapiserver(tls=False)
def test_clients_without_tls(kube_client: KubeClients) -> None:
    """Every library reads the kubeconfig of a server without TLS."""
    from kubernetes import client
    from lightkube.resources.core_v1 import Namespace

    core = client.CoreV1Api(kube_client.kubernetes())
    assert core.read_namespace("default").metadata.name == "default"
    assert kube_client.kr8s().version()["major"] == "1"
    assert kube_client.lightkube().get(Namespace, "default").metadata is not None
    assert kube_client.httpx().get("/livez").text == "ok"

    async def run() -> None:
        async with kube_client.kubernetes_asyncio() as api:
            from kubernetes_asyncio import client

            namespace = await client.CoreV1Api(api).read_namespace("default")
            assert namespace.metadata is not None

    asyncio.run(run())


@pytest.mark.kapiserver(tls=False)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kr8s_is_older_than_the_server(
    kube_client: KubeClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where warnings are errors, kr8s works with a server that is newer than it knows."""
    from packaging.version import parse

    module = importlib.import_module("kr8s._api")  # `kr8s._api` is a function
    monkeypatch.setattr(module, "KUBERNETES_MAXIMUM_SUPPORTED_VERSION", parse("1.30"))
    assert kube_client.kr8s() is not None

    async def run() -> None:
        async with kube_client.kr8s_asyncio() as api:
            assert api is not None

    asyncio.run(run())


def test_crds(kube_crds: Callable[..., Any], kube_apiserver: TestServer, tmp_path: Path) -> None:
    """Definitions of files, directories and dicts are served when the function returns."""
    (tmp_path / "crd").mkdir()
    (tmp_path / "crd" / "widgets.yaml").write_text(CRD)
    for source in (tmp_path / "crd", tmp_path / "crd" / "widgets.yaml"):
        [definition] = kube_crds(source)
    widgets = kube_apiserver.internal_client().resource(
        "example.com/v1", "widgets", namespace="default"
    )
    kube_apiserver.run(widgets.create({"kind": "Widget", "metadata": {"name": "one"}}))
    assert kube_crds({key: definition[key] for key in ("apiVersion", "kind")} | _gadget())
    with pytest.raises(ValueError, match="no CustomResourceDefinition in"):
        kube_crds([])


def test_crds_with_a_name_in_use(kube_crds: Callable[..., Any]) -> None:
    """A definition whose names are taken can never be established."""
    kube_crds(_gadget())
    second = _gadget()
    second["spec"]["names"]["plural"] = "gizmos"
    second["metadata"]["name"] = "gizmos.example.com"
    with pytest.raises(ValueError, match='"GadgetList" is already in use'):
        kube_crds(second)


def _gadget() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "gadgets", "kind": "Gadget"},
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
