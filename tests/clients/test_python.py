"""Python clients, unmodified: create, list, watch and delete with each."""

import asyncio
from pathlib import Path

import pytest

from tests.clients.kr8s_client import kr8s_client
from tests.clients.library_warnings import ignore_warnings
from tests.e2e.programs import start, stop

# Some clients do not close their sockets.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def test_kubernetes(kubeconfig: str, namespace: str) -> None:
    """The official client works."""
    with ignore_warnings():
        from kubernetes import client, config, watch

        with client.ApiClient(config.load_kube_config(kubeconfig) or None) as api:
            core = client.CoreV1Api(api)
            created = core.create_namespaced_config_map(
                namespace,
                client.V1ConfigMap(metadata=client.V1ObjectMeta(name="one"), data={"a": "1"}),
            )
            assert created.metadata.uid
            listing = core.list_namespaced_config_map(namespace)
            assert "one" in [item.metadata.name for item in listing.items]
            event_types = []
            core.delete_namespaced_config_map("one", namespace)
            stream = watch.Watch().stream(
                core.list_namespaced_config_map,
                namespace,
                resource_version=listing.metadata.resource_version,
                field_selector="metadata.name=one",
                timeout_seconds=60,
            )
            for event in stream:
                event_types.append((event["type"], event["object"].metadata.name))
                break
            assert event_types == [("DELETED", "one")]
            with pytest.raises(client.ApiException) as missing:
                core.read_namespaced_config_map("one", namespace)
            assert missing.value.status == 404


def test_kubernetes_dynamic(kubeconfig: str, namespace: str) -> None:
    """The official client's dynamic client, which uses discovery, works."""
    with ignore_warnings():
        from kubernetes import config, dynamic

        api = dynamic.DynamicClient(config.new_client_from_config(kubeconfig))
        deployments = api.resources.get(api_version="apps/v1", kind="Deployment")
        body = {
            "metadata": {"name": "web"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
                },
            },
        }
        created = deployments.create(body=body, namespace=namespace)
        assert created.spec.strategy.type == "RollingUpdate"
        patched = deployments.patch(
            name="web",
            namespace=namespace,
            body={"spec": {"replicas": 3}},
            content_type="application/merge-patch+json",
        )
        assert patched.spec.replicas == 3
        assert deployments.delete(name="web", namespace=namespace).status == "Success"


def test_kubernetes_asyncio(kubeconfig: str, namespace: str) -> None:
    """kubernetes-asyncio works."""

    async def work() -> None:
        from kubernetes_asyncio import client, config, watch

        await config.load_kube_config(kubeconfig)
        async with client.ApiClient() as api:
            core = client.CoreV1Api(api)
            body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="one"))
            await core.create_namespaced_config_map(namespace, body)
            listing = await core.list_namespaced_config_map(namespace)
            assert "one" in [item.metadata.name for item in listing.items]
            await core.delete_namespaced_config_map("one", namespace)
            async with watch.Watch().stream(
                core.list_namespaced_config_map,
                namespace,
                resource_version=listing.metadata.resource_version,
                field_selector="metadata.name=one",
                timeout_seconds=60,
            ) as stream:
                async for event in stream:
                    assert event["type"] == "DELETED"
                    break

    with ignore_warnings():
        asyncio.run(work())


def test_lightkube(kubeconfig: str, namespace: str) -> None:
    """lightkube works."""
    with ignore_warnings():
        from lightkube import Client, KubeConfig
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.resources.core_v1 import ConfigMap

        api = Client(config=KubeConfig.from_file(kubeconfig), namespace=namespace)
        api.create(ConfigMap(metadata=ObjectMeta(name="one"), data={"a": "1"}))
        assert "one" in [item.metadata.name for item in api.list(ConfigMap)]
        for event, item in api.watch(ConfigMap, fields={"metadata.name": "one"}):
            assert (event, item.data) == ("ADDED", {"a": "1"})
            break
        api.patch(ConfigMap, "one", {"data": {"b": "2"}})
        assert api.get(ConfigMap, "one").data == {"a": "1", "b": "2"}
        api.delete(ConfigMap, "one")


def test_kr8s(kubeconfig: str, namespace: str) -> None:
    """kr8s works."""
    with ignore_warnings():
        asyncio.run(_use_kr8s(kubeconfig, namespace))


def test_kr8s_without_warnings(tmp_path: Path) -> None:
    """kr8s, which warns of servers that are newer than itself, does not warn of an emulated release
    that it knows."""
    with ignore_warnings():  # warnings of the packages that it imports
        import kr8s.asyncio.objects  # noqa: F401 - now, for its warnings
    server = start(tmp_path, "--emulated-version=1.34")
    try:
        asyncio.run(_use_kr8s(str(server.kubeconfig), "default"))
    finally:
        stop(server)


async def _use_kr8s(kubeconfig: str, namespace: str) -> None:
    from kr8s.asyncio.objects import ConfigMap

    async with kr8s_client(kubeconfig) as api:
        body = {"metadata": {"name": "one", "namespace": namespace}, "data": {"a": "1"}}
        created = await ConfigMap(body, api=api)
        await created.create()
        names = [item.name async for item in api.get("configmaps", namespace=namespace)]
        assert "one" in names
        async for event, item in api.watch("configmaps", namespace=namespace):
            assert event == "ADDED"
            assert item.namespace == namespace
            break
        await created.patch({"data": {"b": "2"}})
        assert created.raw["data"] == {"a": "1", "b": "2"}
        await created.delete()
        assert not await created.exists()
